"""Prints a kernel as CUDA C++: prelude pieces that it uses, then one `extern "C"` function."""

from __future__ import annotations

from dataclasses import dataclass

from warpsmith.codegen.prelude import prelude_text
from warpsmith.codegen.prelude.vector import LoadHint
from warpsmith.codegen.rings import RingText
from warpsmith.codegen.values import ValueText, is_scalar
from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, GRID_TYPES, MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const, Expr
from warpsmith.kernel.nodes import (
    Accumulate,
    Buffer,
    Comment,
    CopyVector,
    Declare,
    For,
    If,
    Kernel,
    Let,
    Reduce,
    Statement,
    Store,
    Synchronize,
    WelfordBatch,
    WelfordMerge,
    WelfordStep,
)
from warpsmith.kernel.rings import ELECTED, InitBarriers
from warpsmith.kernel.traversal import walk

REDUCERS = {
    "sum": "ws_sum",
    "prod": "ws_prod",
    "max": "ws_max",
    "min": "ws_min",
    "welford": "ws_welford_combine",
}


@dataclass(frozen=True, slots=True)
class Printed:
    """CUDA C++ of a kernel whose name is still open; it includes nothing."""

    before_name: str
    after_name: str

    def named(self, name: str) -> str:
        return f"{self.before_name}{name}{self.after_name}"


def printed(kernel: Kernel) -> Printed:
    """CUDA C++ of a kernel, for any name."""
    return _Printer(kernel).printed()


def cuda_text(kernel: Kernel) -> str:
    """CUDA C++ of a kernel under its own name."""
    return printed(kernel).named(kernel.name)


def shared_layout(kernel: Kernel) -> tuple[tuple[Buffer, Expr], ...]:
    """Offset in bytes of each shared buffer in dynamic shared memory, aligned as it asks."""
    return _laid_out(kernel)[0]


def shared_bytes(kernel: Kernel) -> Expr:
    """Bytes of dynamic shared memory of one block, over the launch's block dimensions."""
    return _laid_out(kernel)[1]


def _laid_out(kernel: Kernel) -> tuple[tuple[tuple[Buffer, Expr], ...], Expr]:
    """The buffers with their offsets, the most aligned first, and where the last one ends."""
    given = dict(kernel.offsets)
    places: list[tuple[Buffer, Expr]] = []
    end = 0
    for buffer in kernel.shared:
        if buffer.name in given:
            start, size = given[buffer.name], integers.constant(buffer.size)
            assert size is not None
            places.append((buffer, integers.index(start)))
            end = max(end, start + size * _bytes(buffer))
    offset = integers.index(end)
    rest = [buffer for buffer in kernel.shared if buffer.name not in given]
    for buffer in sorted(rest, key=lambda b: -b.alignment):
        offset = _aligned(offset, max(buffer.alignment, 16))
        places.append((buffer, offset))
        offset = integers.add(offset, integers.mul(buffer.size, _bytes(buffer)))
    return tuple(places), _aligned(offset, 16)


def _aligned(offset: Expr, to: int) -> Expr:
    return integers.mul(integers.ceildiv(offset, to), to)


def _bytes(buffer: Buffer) -> int:
    return buffer.dtype.size


class _Printer:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._value = ValueText(kernel.index_type)
        self._rings = RingText(kernel, self._value)
        self._lines: list[str] = []
        self._depth = 1
        self._temporaries = 0

    def printed(self) -> Printed:
        self._thread_indices()
        self._elected()
        self._shared()
        for statement in self._kernel.body:
            self._statement(statement)
        start, parameters = self._signature()
        body = "\n".join(self._lines)
        prelude = prelude_text(self._value.pieces)
        notes = "".join(f"// {note}\n" for note in self._kernel.notes)
        return Printed(f"{prelude}\n{notes}{start}", f"{parameters} {{\n{body}\n}}\n")

    # --- frame ---------------------------------------------------------------------------------

    def _signature(self) -> tuple[str, str]:
        """What stands before the kernel's name, and its parameters."""
        kernel = self._kernel
        parameters = []
        for buffer in kernel.parameters:
            kind = self._value.type_name(buffer.dtype)
            constant = "" if buffer.written else "const "
            parameters.append(f"{constant}{kind}* __restrict__ {buffer.name}")
        for tensor_map in kernel.tensor_maps:
            self._value.pieces.add("tensor")
            parameters.append(f"const __grid_constant__ ws_tensor_map {tensor_map.name}")
        parameters += [f"const {self._value.type_name(s.dtype)} {s.name}" for s in kernel.scalars]
        threads = integers.constant(integers.mul(*kernel.launch.block))
        blocks = f", {kernel.launch.blocks_per_sm}" if kernel.launch.blocks_per_sm else ""
        bound = f" __launch_bounds__({threads}{blocks})" if threads else ""
        listing = ",\n    ".join(parameters)
        return f'extern "C" __global__ void{bound} ', f"(\n    {listing})"

    def _thread_indices(self) -> None:
        kernel = self._kernel
        kind = self._value.type_name(DataType.Index)
        dims = zip(
            (*GRID_TYPES, *BLOCK_TYPES), (*kernel.launch.grid, *kernel.launch.block), strict=True
        )
        for axis, extent in dims:
            if extent != integers.ONE:
                self._line(f"const {kind} {axis.name} = {axis.value};")

    def _elected(self) -> None:
        """Choose, once, the thread that asks for copies."""
        conditions = (s.condition for s in walk(self._kernel.body) if isinstance(s, If))
        barriers = any(isinstance(s, InitBarriers) for s in self._kernel.body)
        if barriers or any(condition == ELECTED for condition in conditions):
            self._value.pieces.add("elect")
            self._line(f"const bool {ELECTED.name} = ws_elect();")

    def _shared(self) -> None:
        if not self._kernel.shared:
            return
        aligned = max(buffer.alignment for buffer in self._kernel.shared)
        self._line(f"extern __shared__ __align__({max(aligned, 16)}) unsigned char ws_shared[];")
        for buffer, offset in shared_layout(self._kernel):
            kind = self._value.type_name(buffer.dtype)
            place = self._value(offset)
            self._line(f"{kind}* const {buffer.name} = ({kind}*)(ws_shared + {place});")

    def _line(self, text: str) -> None:
        self._lines.append("  " * self._depth + text)

    def _block(self, head: str, body: tuple[Statement, ...]) -> None:
        self._line(head + " {")
        self._depth += 1
        for statement in body:
            self._statement(statement)
        self._depth -= 1
        self._line("}")

    # --- statements ----------------------------------------------------------------------------

    def _statement(self, statement: Statement) -> None:
        value = self._value
        match statement:
            case Declare(buffer=buffer):
                kind = value.type_name(buffer.dtype)
                size = "" if is_scalar(buffer) else f"[{value(buffer.size)}]"
                self._line(f"{kind} {buffer.name}{size};")
            case Let(symbol=symbol, value=expr):
                kind = value.type_name(symbol.dtype)
                self._line(f"const {kind} {symbol.name} = {value(expr)};")
            case For(symbol=symbol, extent=extent, body=body, unroll=unroll):
                self._line("#pragma unroll" if unroll else "#pragma unroll 1")
                kind, name = value.type_name(DataType.Index), symbol.name
                bound = value.operand(extent)
                self._block(f"for ({kind} {name} = 0; {name} < {bound}; ++{name})", body)
            case If(condition=condition, body=body):
                self._block(f"if ({value(condition)})", body)
            case Store(buffer=buffer, index=index, value=expr):
                self._line(f"{value.place(buffer, index)} = {value(expr)};")
            case CopyVector():
                self._copy(statement)
            case Accumulate(op=op, buffer=buffer, index=index, value=expr):
                value.pieces.add("reduce_ops")
                place = value.place(buffer, index)
                kind = value.type_name(buffer.dtype)
                term = value(expr)
                self._line(f"{place} = {REDUCERS[op]}::combine<{kind}>({place}, {term});")
            case WelfordStep():
                self._welford_step(statement)
            case WelfordMerge():
                self._welford_merge(statement)
            case Reduce():
                self._reduce(statement)
            case Synchronize(why=why):
                self._line(f"__syncthreads();{f'  // {why}' if why else ''}")
            case Comment(text=text):
                self._line(f"// {text}")
            case _:
                for line in self._rings.lines(statement):
                    self._line(line)

    def _copy(self, copy: CopyVector) -> None:
        """A register array moves to or from memory as one vector."""
        value = self._value
        if copy.asynchronous:
            value.pieces.add("cp_async")
            to = f"{copy.target.name} + {value.operand(copy.target_index)}"
            source = f"{copy.source.name} + {value.operand(copy.source_index)}"
            self._line(f"ws_cp_async<{copy.width * copy.target.dtype.size}>({to}, {source});")
            return
        value.pieces.add("vector")
        kind = value.type_name(copy.target.dtype)
        vector = f"ws_vec<{kind}, {copy.width}>"
        self._line("{")
        self._depth += 1
        if self._is_local(copy.source):
            self._line(f"{vector} v;")
            source = value.place(copy.source, copy.source_index, "k")
            self._each_lane(copy.width, f"v[k] = {source};")
        else:
            self._line(f"const {vector} v = {self._fetch(copy, vector)};")
        if self._is_local(copy.target):
            target = value.place(copy.target, copy.target_index, "k")
            self._each_lane(copy.width, f"{target} = v[k];")
        else:
            place = f"{copy.target.name} + {value.operand(copy.target_index)}"
            shared = copy.target.memory is MemoryType.shared
            self._line(f"*({vector}*)({place}) = v;" if shared else f"ws_store({place}, v);")
        self._depth -= 1
        self._line("}")

    def _fetch(self, copy: CopyVector, vector: str) -> str:
        place = f"{copy.source.name} + {self._value.operand(copy.source_index)}"
        if copy.source.memory is MemoryType.shared:
            return f"*(const {vector}*)({place})"
        kind = self._value.type_name(copy.source.dtype)
        hint = LoadHint.DEFAULT
        if not copy.source.written:
            hint = LoadHint.NC_NO_ALLOCATE if copy.streaming else LoadHint.NC
        return f"ws_load<{kind}, {copy.width}, {hint.value}>({place})"

    def _each_lane(self, width: int, text: str) -> None:
        self._line("#pragma unroll")
        self._line(f"for (int k = 0; k < {width}; ++k) {text}")

    def _is_local(self, buffer: Buffer) -> bool:
        return buffer.memory is MemoryType.local

    def _welford_step(self, step: WelfordStep) -> None:
        """All values of a step meet one count, so one reciprocal serves them."""
        value = self._value
        value.pieces.add("welford_batch" if step.joined or step.batch else "welford")
        kind = value.type_name(step.mean.dtype)
        width = len(step.values)
        self._line("{")
        self._depth += 1
        self._line(f"const {kind} x[{width}] = {{{', '.join(map(value, step.values))}}};")
        if step.batch is not None:
            self._welford_batch(step, step.batch, kind)
        elif step.joined:
            places = (value.place(b, step.index) for b in (step.mean, step.m2))
            count = value.place(step.count, step.count_index)
            self._line(f"ws_welford_join(x, {', '.join(places)}, {count});")
        else:
            self._welford_lanes(step, kind)
        self._depth -= 1
        self._line("}")

    def _welford_lanes(self, step: WelfordStep, kind: str) -> None:
        """Each value updates a mean and m2 of its own."""
        count = self._value.place(step.count, step.count_index)
        mean, m2 = (self._value.place(b, step.index, "k") for b in (step.mean, step.m2))
        self._line(f"{count} += 1;")
        self._line(f"const {kind} weight = ws_reciprocal_of_count({count});")
        self._each_lane(
            len(step.values),
            f"{{ const {kind} delta = x[k] - {mean}; {mean} += delta * weight; "
            f"{m2} += delta * (x[k] - {mean}); }}",
        )

    def _welford_batch(self, step: WelfordStep, batch: WelfordBatch, kind: str) -> None:
        """The first step of a batch opens it, each collects, and the last one closes it."""
        value, width = self._value, len(step.values)
        triples, lane = (1, "0") if step.joined else (width, "k")
        mean, m2 = (value.place(b, step.index, lane) for b in (step.mean, step.m2))
        count = value.place(step.count, step.count_index)
        shift, total, squares = (
            value.place(b, integers.ZERO, lane) for b in (batch.shift, batch.sum, batch.squares)
        )
        number = value.operand(batch.step)
        self._line(f"if ({number} == 0) {{")
        start = f"ws_welford_shift(x, {mean}, {count})" if step.joined else mean
        self._each_lane(triples, f"{{ {shift} = {start}; {total} = {squares} = 0; }}")
        self._line("}")
        self._each_lane(width, f"ws_welford_collect(x[k], {shift}, {total}, {squares});")
        self._line(f"if ({number} == {batch.steps - 1}) {{")
        self._line(f"{count} += {batch.steps * (width if step.joined else 1)};")
        self._line(f"const {kind} weight = ws_reciprocal_of_count({count});")
        self._each_lane(
            triples, f"ws_welford_close({shift}, {total}, {squares}, weight, {mean}, {m2});"
        )
        self._line("}")

    def _welford_merge(self, merge: WelfordMerge) -> None:
        value = self._value
        value.pieces.add("reduce_ops")
        kind = f"ws_welford<{value.type_name(merge.mean.dtype)}>"
        running = [value.place(b, merge.index) for b in (merge.mean, merge.m2, merge.count)]
        part = ", ".join(map(value, merge.part))
        self._line("{")
        self._depth += 1
        self._line(
            f"const {kind} w = {REDUCERS['welford']}::combine("
            f"{kind}{{{', '.join(running)}}}, {kind}{{{part}}});"
        )
        members = ("mean", "m2", "count")
        stores = (f"{name} = w.{m};" for name, m in zip(running, members, strict=True))
        self._line(" ".join(stores))
        self._depth -= 1
        self._line("}")

    def _reduce(self, reduce: Reduce) -> None:
        """Pack the values, combine them, unpack them."""
        value = self._value
        value.pieces |= {"reduce_ops", "block_reduce"}
        welford = reduce.op == "welford"
        element = value.type_name(reduce.buffers[0].dtype)
        kind = f"ws_welford<{element}>" if welford else element
        name = f"r{self._temporaries}"
        self._temporaries += 1
        if reduce.last is not None:
            self._line(f"bool {reduce.last.name};")
        self._line("{")
        self._depth += 1
        self._line(f"{kind} {name}[{reduce.elements}];")
        members = ("mean", "m2", "count") if welford else ("",)
        places = [
            (
                f"{name}[k].{member}" if member else f"{name}[k]",
                value.place(buffer, reduce.index, "k"),
            )
            for member, buffer in zip(members, reduce.buffers, strict=True)
        ]
        self._each_lane(reduce.elements, "{ " + " ".join(f"{v} = {b};" for v, b in places) + " }")
        template = f"{REDUCERS[reduce.op]}, {reduce.elements}, " + ", ".join(
            "true" if axis in reduce.block_axes else "false" for axis in BLOCK_TYPES
        )
        dims = ", ".join(self._block_dim(axis) for axis in BLOCK_TYPES)
        scratch = f"({kind}*){reduce.scratch.name}"
        if reduce.block_axes:
            self._line(f"ws_block_reduce<{template}>({name}, {scratch}, {dims});")
        if reduce.last is not None:
            value.pieces.add("grid_reduce")
            assert reduce.workspace is not None
            assert reduce.semaphore is not None
            split, splits = self._linear(reduce.grid_axes)
            segment, _ = self._linear(tuple(a for a in GRID_TYPES if a not in reduce.grid_axes))
            self._line(
                f"{reduce.last.name} = ws_grid_reduce<{template}>({name}, "
                f"({kind}*){reduce.workspace.name}, (unsigned*){reduce.semaphore.name}, {scratch}, "
                f"{split}, {splits}, {segment}, {dims});"
            )
        self._each_lane(reduce.elements, "{ " + " ".join(f"{b} = {v};" for v, b in places) + " }")
        self._depth -= 1
        self._line("}")

    def _block_dim(self, axis: ParallelType) -> str:
        extent = self._kernel.launch.block[BLOCK_TYPES.index(axis)]
        if isinstance(extent, Const):
            return self._value(extent)
        return f"(int)blockDim.{axis.name[-1]}"

    def _linear(self, axes: tuple[ParallelType, ...]) -> tuple[str, str]:
        """Row-major index over some grid axes, and their number; unused axes are left out."""
        used = [a for a in axes if self._kernel.launch.grid[GRID_TYPES.index(a)] != integers.ONE]
        if not used:
            return "0", "1"
        index = ""
        for axis in reversed(used):
            letter = axis.name[-1]
            index = (
                f"({index} * gridDim.{letter} + blockIdx.{letter})"
                if index
                else (f"blockIdx.{letter}")
            )
        count = " * ".join(f"gridDim.{axis.name[-1]}" for axis in used)
        return f"(int)({index})", f"(int)({count})"
