"""Primitives on the loops of one tensor: split, merge, reorder, parallelize, memory type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpsmith.errors import ScheduleError
from warpsmith.ir import domains, integers
from warpsmith.ir.arithmetic import convert
from warpsmith.ir.domains import IterDomain, MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.groups import parts_of
from warpsmith.ir.mapping import map_of
from warpsmith.ir.scalar import Const, Expr, literal
from warpsmith.ir.tensor import TensorT, TensorView
from warpsmith.layouts.swizzle import HARDWARE
from warpsmith.schedule.carriers import check_binding


def axis_position(tensor: TensorView, axis: int) -> int:
    """`axis` as a position from the left; negative counts from the end."""
    length = len(tensor.loop)
    position = axis + length if axis < 0 else axis
    if not 0 <= position < length:
        raise ScheduleError(
            f"axis {axis} is outside the {length} loop axes of {tensor.name}",
            code="WS0201",
            remedy=f"use {-length} to {length - 1}" if length else "a scalar has no axes",
        )
    return position


def _check_schedulable(tensor: TensorView, first: int) -> None:
    """Refuse changes to inputs, and to loops that are already shared with consumers."""
    if tensor.is_input:
        raise ScheduleError(
            f"{tensor.name} is an input of the fusion and has no loops",
            code="WS0202",
            remedy=f"schedule its cache: {tensor.name}.cache_after()",
        )
    if first < tensor.compute_at:
        raise ScheduleError(
            f"axis {first} of {tensor.name} is shared with its consumers "
            f"(compute-at position {tensor.compute_at})",
            code="WS0203",
            remedy="transform before inlining",
        )


def _together(tensor: TensorView) -> tuple[TensorView, ...]:
    """The tensors that one operation computes in the same loops: mean, m2 and count of Welford."""
    return (tensor,) if tensor.definition is None else tensor.definition.outputs


def split(tensor: TensorT, axis: int, factor: int | Expr, inner_split: bool = True) -> TensorT:
    """Divide loop `axis` in two. `factor` is the extent of the inner part (or of the outer one)."""
    position = axis_position(tensor, axis)
    _check_schedulable(tensor, position)
    value = literal(factor) if isinstance(factor, int) else factor
    if not value.dtype.is_int or (isinstance(value, Const) and value.value < 1):
        raise ScheduleError(
            f"split factor {factor} of {tensor.name} axis {axis} is below 1 or no integer",
            code="WS0204",
            remedy="use a factor of 1 or more",
        )
    target = tensor.loop[position]
    if target.parallel is not ParallelType.serial:
        raise ScheduleError(
            f"axis {axis} of {tensor.name} is already bound to {target.parallel.name}",
            code="WS0205",
            remedy="split before parallelizing",
        )
    for each in _together(tensor):
        size = convert(value, DataType.Index)
        made = domains.split(each.loop[position], size, inner_split=inner_split)
        each.transforms.append(made)
        each.loop[position : position + 1] = [made.outer, made.inner]
    return tensor


def split_by_group(tensor: TensorView, axis: int, factor: int) -> TensorView:
    """Divide the rows of a grouped product in two, so that no part has rows of two groups."""
    position = axis_position(tensor, axis)
    _check_schedulable(tensor, position)
    domain_map, whole = map_of(Fusion.of(tensor)), tensor.loop[position]
    chosen = domain_map.chosen_by(domain_map.group(whole))
    if chosen is None or factor < 1:
        raise ScheduleError(
            f"{whole!r} of {tensor.name} is split by {factor} for each group",
            code="WS0382",
            remedy="split the rows of a grouped product so, by a factor of 1 or more",
        )
    size = integers.index(factor)
    outer = parts_of(domain_map.extent_of(whole), size, domain_map.extent(chosen[0]))
    made = domains.split_by_group(whole, size, outer)
    tensor.transforms.append(made)
    tensor.loop[position : position + 1] = [made.outer, made.inner]
    return tensor


def split_across(
    tensor: TensorView, axis: int, factor: int, *rows: int, grain: int | None = None
) -> TensorView:
    """Divide what rows have of a contiguous tensor in pieces that begin at multiples of a factor in
    memory, or of a `grain` that divides it, wherever rows begin.

    The first piece and the last may have elements of the rows before and behind: vector loads bring
    these, too, and nobody uses them; stores leave them out.

    Args:
        axis: of the elements of a row.
        rows: that of the rows, or any other that counts as many as there are before one, or as many
            more as fill whole pieces; or several that do so together, the slowest first.
    """
    position, places = axis_position(tensor, axis), [axis_position(tensor, row) for row in rows]
    _check_schedulable(tensor, position)
    whole, counted = tensor.loop[position], [tensor.loop[place] for place in places]
    uneven = factor < 1 or factor % (grain or factor) or not rows
    if uneven or position in places or whole.parallel is not ParallelType.serial:
        raise ScheduleError(
            f"{whole!r} of {tensor.name} is split by {factor} where the rows {counted!r} begin",
            code="WS0383",
            remedy="split a serial axis by a factor of 1 or more, which the grain divides, and "
            "name another one of rows",
        )
    for each in _together(tensor):
        sizes = integers.index(factor), integers.index(grain or factor)
        counts = tuple(each.loop[place] for place in places)
        made = domains.split_across(each.loop[position], sizes[0], counts, sizes[1])
        each.transforms.append(made)
        each.loop[position : position + 1] = [made.outer, made.inner]
    return tensor


def merge(
    tensor: TensorView, axis_o: int, axis_i: int | None = None, *, band: int = 1
) -> TensorView:
    """Join two adjacent or distant loops; the result stands where the outer one stood.

    Args:
        band: outer iterations that are walked together; `order_tiles` names them.
    """
    outer = axis_position(tensor, axis_o)
    inner = outer + 1 if axis_i is None else axis_position(tensor, axis_i)
    inner = axis_position(tensor, inner)
    if outer == inner:
        raise ScheduleError(
            f"axis {axis_o} of {tensor.name} cannot be merged with itself",
            code="WS0206",
            remedy="name two different axes",
        )
    _check_schedulable(tensor, min(outer, inner))
    first, second = tensor.loop[outer], tensor.loop[inner]
    kinds = {a.kind for a in (first, second) if not a.is_broadcast}
    if len(kinds) > 1:
        raise ScheduleError(
            f"axes {axis_o} and {inner} of {tensor.name} are {first!r} and {second!r}: "
            "an iteration cannot be merged with a reduction",
            code="WS0207",
            remedy="reorder so that axes of one kind are merged",
        )
    for candidate in (first, second):
        if candidate.parallel is not ParallelType.serial:
            raise ScheduleError(
                f"{candidate!r} of {tensor.name} is already bound to {candidate.parallel.name}",
                code="WS0205",
                remedy="merge before parallelizing",
            )
    for each in _together(tensor):
        made = domains.merge(each.loop[outer], each.loop[inner], band)
        each.transforms.append(made)
        each.loop[outer] = made.axis
        del each.loop[inner]
    return tensor


def reorder(tensor: TensorT, old2new: Mapping[int, int]) -> TensorT:
    """Move loops: `old2new` maps positions to new ones; the others keep their order."""
    length = len(tensor.loop)
    moves = {axis_position(tensor, o): axis_position(tensor, n) for o, n in old2new.items()}
    if len(set(moves.values())) != len(old2new) or len(moves) != len(old2new):
        raise ScheduleError(
            f"reorder {dict(old2new)} of {tensor.name} moves two axes to one place",
            code="WS0208",
            remedy="give every axis its own new position",
        )
    changed = [p for old, new in moves.items() if old != new for p in (old, new)]
    _check_schedulable(tensor, min(changed, default=length))
    rest = iter(p for p in range(length) if p not in moves)
    source = {new: old for old, new in moves.items()}
    order = [source[p] if p in source else next(rest) for p in range(length)]
    for each in _together(tensor):
        each.loop[:] = [each.loop[p] for p in order]
    return tensor


def parallelize(tensor: TensorView, axis: int, parallel_type: ParallelType) -> TensorView:
    """Bind a loop to grid, cluster, block, vectorize, unroll or tma.

    What is bound to `cluster_x` is shared out over the blocks of a cluster, which run at once. Its
    extent, a constant of 16 at most, is their number. A reduced loop and another one of the tensor
    may both be bound to it: then the blocks' parts are reduced, and each block keeps a share of the
    results, that of its rank along the other loop.
    """
    bind(tensor, tensor.loop[axis_position(tensor, axis)], parallel_type)
    return tensor


def bind(tensor: TensorView, axis: IterDomain, parallel_type: ParallelType) -> None:
    """Bind one of the tensor's loop axes, checking what lowering relies on."""
    if parallel_type is ParallelType.vectorize and not isinstance(axis.extent, Const):
        raise ScheduleError(
            f"{axis!r} of {tensor.name} has no constant extent, which vectorize needs",
            code="WS0209",
            remedy="split it by 2, 4, 8 or 16 first",
        )
    if parallel_type is ParallelType.cluster_x:
        _check_cluster(tensor, axis)
    if parallel_type.is_thread:
        for other in tensor.loop:
            shared_out = (
                parallel_type is ParallelType.cluster_x and other.is_reduction != axis.is_reduction
            )
            if other is not axis and other.parallel is parallel_type and not shared_out:
                raise ScheduleError(
                    f"{tensor.name} already has {other!r} on {parallel_type.name}",
                    code="WS0210",
                    remedy="merge the two axes or use another parallel type",
                )
    if parallel_type is ParallelType.mma:
        raise ScheduleError(
            f"{axis!r} of {tensor.name} cannot be bound to mma by itself: what tensor cores, or "
            "stmatrix, do at once is three loops",
            code="WS0211",
            remedy=f"call {tensor.name}.tensorize() where they are the innermost",
        )
    check_binding(tensor, axis, parallel_type)
    position = tensor.loop.index(axis)
    for each in _together(tensor):
        each.loop[position].parallel = parallel_type


def _check_cluster(tensor: TensorView, axis: IterDomain) -> None:
    blocks = integers.constant(axis.extent)
    if blocks is None or blocks < 1:
        raise ScheduleError(
            f"{axis!r} of {tensor.name} cannot be bound to cluster_x: a cluster has at "
            "least one block, and as many as the kernel was compiled for",
            code="WS0288",
            remedy="split it by 2, 4, 8 or 16 blocks with inner_split=False, and bind the outer "
            "loop",
        )


def set_memory_type(tensor: TensorView, memory_type: MemoryType) -> TensorView:
    """Say where the tensor lives. Inputs and outputs are always global."""
    if (tensor.is_input or tensor.is_output) and memory_type is not MemoryType.global_:
        raise ScheduleError(
            f"{tensor.name} is an input or output of the fusion and lives in global memory",
            code="WS0212",
            remedy="set the memory type of its cache",
        )
    if memory_type is MemoryType.global_ and not (tensor.is_input or tensor.is_output):
        raise ScheduleError(
            f"{tensor.name} is neither input nor output and cannot live in global memory",
            code="WS0213",
            remedy="make it an output, or use shared or local memory",
        )
    tensor.memory = memory_type
    return tensor


def set_allocation_domain(tensor: TensorView, axes: Sequence[IterDomain]) -> TensorView:
    """Lay a shared tensor's memory out by these axes, the last one the fastest.

    They are axes that its loops are made from (or their clones), or loops. Inside the loops that it
    shares with its consumers each must be walked whole, and together they must tell all elements
    apart: lowering refuses them otherwise (WS1101).
    """
    if tensor.memory is not MemoryType.shared:
        raise ScheduleError(
            f"{tensor.name} is in {tensor.memory.value} memory, whose layout is fixed",
            code="WS0215",
            remedy="set its memory type to shared first",
        )
    tensor.allocation = tuple(axes)
    return tensor


def pad_allocation(tensor: TensorView, elements: int) -> TensorView:
    """Lengthen the fastest row of a shared tensor, to spread its columns over banks."""
    if elements < 0:
        raise ScheduleError(
            f"padding {elements} of {tensor.name} is negative",
            code="WS0214",
            remedy="give 0 or more elements",
        )
    if elements:
        _check_padding_or_swizzle(tensor, elements, tensor.swizzle)
    tensor.padding = elements
    return tensor


def set_swizzle(tensor: TensorView, row_bytes: int) -> TensorView:
    """Permute the 16-byte chunks of a shared tensor's rows as TMA does.

    Chunk `c` of the row that starts `b` bytes into the tensor lies where chunk
    `c ^ (b // 128 % (row_bytes // 16))` would, so that columns are spread over banks without
    padding. The rows are those of its layout: how long they turn out to be, lowering checks.

    Args:
        row_bytes: length of the rows, 32, 64 or 128; 0 takes the swizzle away.

    Raises:
        ScheduleError: WS0285 for other lengths, WS0286 outside shared memory, WS0287 with padding.
    """
    if row_bytes not in tuple(HARDWARE) or isinstance(row_bytes, bool):
        raise ScheduleError(
            f"a swizzle of {row_bytes!r} bytes for {tensor.name}: TMA permutes rows of 32, 64 or "
            "128 bytes",
            code="WS0285",
            remedy="use 32, 64 or 128, or 0 for none",
        )
    if row_bytes and tensor.memory is not MemoryType.shared:
        raise ScheduleError(
            f"{tensor.name} is in {tensor.memory.value} memory, and swizzles permute shared memory",
            code="WS0286",
            remedy="set its memory type to shared first",
        )
    if row_bytes:
        _check_padding_or_swizzle(tensor, tensor.padding, row_bytes)
    tensor.swizzle = row_bytes
    return tensor


def _check_padding_or_swizzle(tensor: TensorView, padding: int, swizzle: int) -> None:
    """A swizzle permutes rows of its length; padded ones would be longer."""
    if padding and swizzle:
        raise ScheduleError(
            f"{tensor.name} would have rows padded by {padding} elements and a swizzle of "
            f"{swizzle} bytes, which permutes rows without padding",
            code="WS0287",
            remedy="take one away: pad_allocation(tensor, 0) or set_swizzle(tensor, 0)",
        )
