"""Which axes a buffer in registers or shared memory holds, and how many elements those are."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.copies import LINE_BYTES, LoadStoreOpType, line_spare
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.domains import IterDomain, MemoryType, ParallelType
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.scalar import Const, Expr
from warpsmith.ir.tensor import TensorView


def layout_of(
    domains: DomainMap,
    tensor: TensorView,
    start: int,
    skipped: frozenset[IterDomain],
    *,
    outside: bool = True,
) -> tuple[IterDomain, ...]:
    """Axes that a local or shared buffer holds, row-major.

    They are those that it must hold, or the tensor's allocation domain, which must tell all of
    their elements apart, without loops that are blocks of the grid: one block has one of their
    iterations. Of what tensor cores compute each thread has the fragment that `allocation` says.

    Raises:
        ScheduleError: WS1101 for an allocation domain that gives several elements one place, or
            that the tensor's loops do not walk.
    """
    axes = _held(domains, tensor, start, skipped, outside=outside)
    if tensor.lanes is not None:
        return (*axes, *(tensor.allocation or ()))
    if tensor.allocation is None:
        return axes
    several = set(axes) | {a for a in tensor.loop[start:] if a.is_reduction}
    fixed = [a for a in tensor.loop if a not in several | skipped]
    _check_tells_apart(domains, tensor, tensor.allocation, axes, fixed)
    return tuple(a for a in tensor.allocation if not (a in fixed and a.parallel.is_of_blocks))


def _held(
    domains: DomainMap,
    tensor: TensorView,
    start: int,
    skipped: frozenset[IterDomain],
    *,
    outside: bool,
) -> tuple[IterDomain, ...]:
    """Loops of which a buffer must hold every iteration: those from `start` on.

    Grid and cluster axes, reductions, axes in `skipped` and extent-1 axes need no room; block axes
    need none in registers, but always in shared memory, which all threads of a block share: those
    outside `start`, too, unless each of its stages is one group's.
    """
    shared = tensor.memory is MemoryType.shared
    around = [a for a in tensor.loop[:start] if shared and outside and a.parallel.is_block]
    axes = []
    for axis in (*around, *tensor.loop[start:]):
        if axis.parallel.is_of_blocks or axis.is_reduction or axis in skipped:
            continue
        if axis.parallel.is_block and tensor.memory is MemoryType.local:
            continue
        fragment = axis.parallel is ParallelType.mma and not shared
        if not fragment and domains.extent_of(axis) != integers.ONE:
            axes.append(axis)
    return tuple(axes)


def _check_tells_apart(
    domains: DomainMap,
    tensor: TensorView,
    allocation: Sequence[IterDomain],
    held: Sequence[IterDomain],
    fixed: Sequence[IterDomain],
) -> None:
    """Refuse an allocation domain of which one index stands for several elements alive at once.

    Args:
        held: loops whose iterations are all alive at once.
        fixed: loops of which only one iteration is alive at a time.
    """
    walked = Derivation(domains, dict.fromkeys(map(domains.group, tensor.loop), integers.ZERO))
    unknown = [axis for axis in allocation if not walked.reaches(domains.group(axis))]
    if unknown:
        raise ScheduleError(
            f"{tensor.name} is allocated along {unknown!r}, which its loops {tensor.loop!r} do "
            "not walk",
            code="WS1101",
            remedy=f"call {tensor.name}.set_allocation_domain(axes) with axes that its loops are "
            "made from, or with the loops",
        )
    given = dict.fromkeys(map(domains.group, (*allocation, *fixed)), integers.ZERO)
    told = Derivation(domains, given)
    lost = [axis for axis in held if not told.reaches(domains.group(axis))]
    if lost:
        where = "registers" if tensor.memory is MemoryType.local else "shared memory"
        raise ScheduleError(
            f"{tensor.name} is allocated in {where} along {tuple(allocation)!r}, which leaves out "
            f"{lost!r}: elements that are alive at once would have one place",
            code="WS1101",
            remedy=f"call {tensor.name}.set_allocation_domain(axes) with these loops, too, or "
            "with what they are made from",
        )


def size_of(domains: DomainMap, tensor: TensorView, layout: tuple[IterDomain, ...]) -> Expr:
    """Elements of a local or shared buffer with that layout."""
    extents = [domains.extent_of(axis) for axis in layout]
    if extents:
        extents[-1] = row_of(tensor, extents[-1])
    size = integers.mul(*extents) if extents else integers.ONE
    if not isinstance(size, Const) and not _is_run(tensor, layout):
        place = "registers" if tensor.memory is MemoryType.local else "shared memory"
        raise ScheduleError(
            f"{tensor.name} needs {size!r} elements of {place}, which is not a constant",
            code="WS0262",
            remedy="inline it deeper, or split its loops by constants",
        )
    return size


def row_of(tensor: TensorView, extent: Expr) -> Expr:
    """Elements from one fastest row of a layout to the next, of which a row has `extent`: whole
    lines, if tiles are to begin anywhere in one.
    """
    if not tensor.in_lines:
        return integers.add(extent, tensor.padding)
    size, line = tensor.dtype.size, LINE_BYTES // tensor.dtype.size
    held = integers.add(extent, line_spare(size, chunks=tensor.chunks))
    return integers.mul(integers.ceildiv(held, line), line)


def _is_run(tensor: TensorView, layout: Sequence[IterDomain]) -> bool:
    """Whether one copy of the TMA unit brings each stage, of a length that calls may decide."""
    return (
        tensor.copied_by is LoadStoreOpType.bulk
        and not tensor.is_output
        and tensor.memory is MemoryType.shared
        and all(axis.parallel is ParallelType.tma for axis in layout)
    )
