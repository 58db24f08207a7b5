"""Which loops of a scan walk the dimension that it scans, and how they are shared out.

In the order of the loops: serial ones, whose iterations carry the state; one bound to the cluster,
one bound to the block, or both, over whose blocks and threads a state is scanned; unrolled ones, a
thread's own elements. Unrolled ones before that of the block are turns: in each the threads scan
elements side by side, and all stay in registers. In place of serial ones and the cluster, one may
be bound to the grid. Loops over other dimensions stand outside of these, or are bound to threads;
unrolled ones may also stand before a thread's own elements: then each of their iterations carries
a state.
"""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain, ParallelType, Split
from warpsmith.ir.exprs import Scan
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class ScanLoops:
    """Positions among the loops of a scan.

    Attributes:
        carried: the serial loops over the scanned dimension.
        start: where the state begins, outside all loops over that dimension.
        along: the axis of the block that a loop over the dimension is bound to, if any is.
        over: the cluster, or the axis of the grid, that one is bound to, if any is.
        turns: the unrolled ones before that of the block.
        beside: unrolled loops over other dimensions, inside those that carry states.
    """

    carried: tuple[int, ...]
    start: int
    along: ParallelType | None
    over: ParallelType | None
    turns: tuple[int, ...]
    beside: tuple[int, ...]


def opened_loops(operation: Scan) -> int:
    """The position from which on one statement opens the loops: threads' and unrolled ones."""
    loop = operation.output.loop
    position = len(loop)
    while position and (
        loop[position - 1].parallel.is_thread or loop[position - 1].parallel.is_unrolled
    ):
        position -= 1
    return position


def scan_loops(operation: Scan, domains: DomainMap) -> ScanLoops:
    """How the loops share a scan out.

    Raises:
        ScheduleError: WS1020 for loops that scan no elements in their order.
    """
    output = operation.output
    groups = {domains.group(axis): place for place, axis in enumerate(output.loop)}
    places = _walked(domains, domains.group(output.root[operation.dim]), groups)
    opened = opened_loops(operation)
    if places is None or list(places) != sorted(places):
        raise _refused(operation, "do not walk the scanned dimension in its order")
    bound = [p for p in places if output.loop[p].parallel.is_thread]
    carried = tuple(p for p in places if p < opened and p not in bound)
    own = [p for p in places if p >= opened and p not in bound]
    kinds = [output.loop[p].parallel for p in bound]
    inside = [kind for kind in kinds if kind.is_block]
    blocks = [kind for kind in kinds if kind.is_of_blocks]
    if len(inside) > 1 or len(blocks) > 1 or kinds != blocks + inside:
        raise _refused(operation, "bind the scanned dimension to other than one axis of the block")
    turns = tuple(p for p in own if inside and p < bound[-1])
    if bound and (
        any(p > bound[0] for p in carried)
        or any(p < bound[0] for p in (own if blocks else ()))
        or any(p < bound[-1] for p in own if p not in turns)
    ):
        raise _refused(operation, "give threads parts that do not lie side by side")
    start = min((*carried, opened))
    others = [p for p in range(start, len(output.loop)) if p not in places]
    beside = tuple(p for p in others if not _is_outside(output.loop[p], domains))
    if any(p < opened for p in beside) or max(beside, default=-1) > min((*own, len(output.loop))):
        raise _refused(operation, "walk another dimension inside those of the scanned one")
    over, along = (next(iter(each), None) for each in (blocks, inside))
    if over is not None and over.is_grid and (along is None or carried or beside):
        raise _refused(
            operation,
            "bind the scanned dimension to the grid, and not all of a block's part to its threads "
            "and their registers",
        )
    return ScanLoops(carried, start, along, over, turns, beside)


def _is_outside(axis: IterDomain, domains: DomainMap) -> bool:
    return axis.parallel.is_thread or domains.extent_of(axis) == integers.ONE


def _walked(domains: DomainMap, group: Group, loops: Mapping[Group, int]) -> tuple[int, ...] | None:
    """Positions of the loops that a group became, those of its largest steps first."""
    if group in loops:
        return (loops[group],)
    for transform in domains.touching(group):
        whole, outer, inner = domains.sides(transform)
        if isinstance(transform, Split) and whole == group:
            first, second = (_walked(domains, part, loops) for part in (outer, inner))
            if first is not None and second is not None:
                return first + second
    return None


def _refused(operation: Scan, what: str) -> ScheduleError:
    return ScheduleError(
        f"the loops of {operation.output.name}, a scan over dimension {operation.dim}, {what}",
        code="WS1020",
        remedy="split that dimension alone, outermost part first: serial loops, then at most one "
        "bound to the cluster and one bound to the block, then unrolled ones, some of which may "
        "stand before that of the block; or one bound to the grid, in place of serial ones and the "
        "cluster; all other loops stand before them",
    )
