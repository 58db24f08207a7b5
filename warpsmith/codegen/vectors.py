"""Copies between registers and memory, as one vector, as CUDA text."""

from __future__ import annotations

from warpsmith.codegen.lines import block, each_lane
from warpsmith.codegen.prelude.vector import LoadHint
from warpsmith.codegen.values import ValueText
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.kernel.nodes import Buffer, CopyVector, Statement
from warpsmith.lower.vector_copies import LEAST_WORD


def vector_lines(copy: CopyVector, value: ValueText, *, early: bool) -> list[str]:
    """The lines of one copy; `early`: the kernel starts while the one before it may still write."""
    if copy.asynchronous:
        value.pieces.add("cp_async")
        to = f"{copy.target.name} + {value.operand(copy.target_index)}"
        source = f"{copy.source.name} + {value.operand(copy.source_index)}"
        size = copy.width * copy.target.dtype.size
        if copy.inside == integers.TRUE:
            return [f"ws_cp_async<{size}>({to}, {source});"]
        value.pieces.add("cp_async_or_zeros")
        return [f"ws_cp_async_or_zeros<{size}>({to}, {source}, {value(copy.inside)});"]
    value.pieces.add("vector")
    vector = f"ws_vec<{value.type_name(copy.target.dtype)}, {copy.width}>"
    if _is_local(copy.source):
        source = value.place(copy.source, copy.source_index, "k")
        lines = [f"{vector} v;", *each_lane(copy.width, f"v[k] = {source};")]
    else:
        lines = [f"const {vector} v = {_fetch(copy, vector, value, early)};"]
    if _is_local(copy.target):
        target = value.place(copy.target, copy.target_index, "k")
        lines += each_lane(copy.width, f"{target} = v[k];")
    else:
        place = f"{copy.target.name} + {value.operand(copy.target_index)}"
        shared = copy.target.memory is MemoryType.shared
        store = "ws_store_by_pairs" if copy.by_pairs else "ws_store"
        value.pieces |= {"vector_pairs"} if copy.by_pairs else set()
        lines.append(f"*({vector}*)({place}) = v;" if shared else f"{store}({place}, v);")
    return block(lines)


def has_predicate(copy: Statement, *, turns: bool) -> bool:
    """Whether a copy under a condition is one instruction with a predicate: a load of types of less
    than a register, which would else be taken apart inside the branch, or one beside these. Those
    from shared memory in `turns` keep the branch, which most warps skip.
    """
    return (
        isinstance(copy, CopyVector)
        and not copy.asynchronous
        and not (turns and copy.source.memory is MemoryType.shared)
        and not _is_local(copy.source)
        and _is_local(copy.target)
        and (copy.target.dtype.size < LEAST_WORD or copy.width == 1)
        and copy.width * copy.target.dtype.size >= LEAST_WORD
    )


def where_lines(copy: CopyVector, there: str, value: ValueText, *, early: bool) -> list[str]:
    """The lines of such a load, for threads `there`."""
    vector = f"ws_vec<{value.type_name(copy.target.dtype)}, {copy.width}>"
    target = value.place(copy.target, copy.target_index, "k")
    hint, source = _hint(copy, early).value, copy.source.name
    if copy.source.memory is MemoryType.shared:
        value.pieces |= {"vector", "vector_shared_where"}
        place = f"{source} + {value.operand(copy.source_index)}"
        load = f"ws_load_shared_where(v, {there}, {place});"
    else:
        value.pieces |= {"vector", "vector_where"}
        place = f"{source} + {value.operand(copy.source_index)}"
        load = f"ws_load_where<{hint}>(v, {there}, {place});"
    lines = [
        f"{vector} v;",
        *each_lane(copy.width, f"v[k] = {target};"),
        load,
        *each_lane(copy.width, f"{target} = v[k];"),
    ]
    return block(lines)


def _fetch(copy: CopyVector, vector: str, value: ValueText, early: bool) -> str:
    place = f"{copy.source.name} + {value.operand(copy.source_index)}"
    if copy.source.memory is MemoryType.shared:
        return f"*(const {vector}*)({place})"
    kind = f"{value.type_name(copy.source.dtype)}, {copy.width}, {_hint(copy, early).value}"
    if copy.anywhere == integers.ZERO:
        return f"ws_load<{kind}>({place})"
    way = "around" if copy.around else "anywhere"
    value.pieces.add(f"vector_{way}")
    start, count = value(copy.source_index), value(copy.anywhere)
    return f"ws_load_{way}<{kind}>({copy.source.name}, {start}, {count})"


def _hint(copy: CopyVector, early: bool) -> LoadHint:
    """How a load treats caches."""
    if early:
        hint = LoadHint.NO_ALLOCATE if copy.streaming else LoadHint.DEFAULT
        return LoadHint.EVICT_LAST if copy.evict_last else hint
    if copy.source.written:
        return LoadHint.DEFAULT
    hint = LoadHint.NC_NO_ALLOCATE if copy.streaming else LoadHint.NC
    return LoadHint.NC_LASTING if copy.evict_last else hint


def _is_local(buffer: Buffer) -> bool:
    return buffer.memory is MemoryType.local
