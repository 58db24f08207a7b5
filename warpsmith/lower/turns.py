"""Turns of what a thread holds of a product: other registers of the same thread.

A thread has, of each row, columns at all multiples of 8 of a tile, and pairs of neighbours. So what
stands half a head further on is in one of its registers wherever tiles have whole heads.
"""

from __future__ import annotations

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain, MemoryType, Split
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.reads import Read
from warpsmith.ir.scalar import Expr
from warpsmith.ir.turns import Turn
from warpsmith.kernel.nodes import Element
from warpsmith.lower.access import Access
from warpsmith.lower.buffers import Buffers


def turned(buffers: Buffers, access: Access, read: Read, turn: Turn) -> Expr:
    """The element that a turn reads, of a tensor in registers.

    Raises:
        ScheduleError: WS1038 where another thread holds it, or another tile.
    """
    (source,) = read.sources
    layout = buffers.layouts.get(source, ())
    group_of = buffers.domains.group
    steps = _steps(buffers.domains, group_of(source.shape_axes[turn.dimension]))
    held = (axis for axis in layout if _holds(buffers, axis, steps.get(group_of(axis)), turn))
    digit = next(held, None)
    if digit is None or buffers.buffer(source).memory is not MemoryType.local:
        raise ScheduleError(
            f"{read.output.name} reads {source.name} {turn.shift} elements further on, round "
            f"groups of {turn.group}, of which no thread holds whole ones",
            code="WS1038",
            remedy="let tiles have whole groups, and keep them in registers as tensor cores do, or "
            "read an input of the kernel",
        )
    access.check_same_threads(source, buffers.unused[source])
    step = steps[group_of(digit)]
    group, shift = turn.group // step, turn.shift // step
    index: Expr = integers.ZERO
    for axis in layout:
        place = access.axis(axis)
        if axis is digit:
            begin = integers.mul(integers.floordiv(place, group), group)
            place = integers.add(begin, integers.mod(integers.add(place, shift), group))
        index = integers.add(integers.mul(index, buffers.extent(axis)), place)
    return Element(buffers.buffer(source), index)


def _steps(domains: DomainMap, dimension: Group) -> dict[Group, int]:
    """By what a dimension is split into, how many of its elements one iteration is."""
    found = {dimension: 1}
    pending = [dimension]
    while pending:
        group = pending.pop()
        for transform in domains.touching(group):
            whole, outer, inner = domains.sides(transform)
            if not isinstance(transform, Split) or whole != group or transform.by_group:
                continue
            count = integers.constant(domains.extent(inner))
            steps = {inner: found[group]} | ({} if count is None else {outer: found[group] * count})
            pending += [part for part in steps if part not in found]
            found = steps | found
    return found


def _holds(buffers: Buffers, axis: IterDomain, step: int | None, turn: Turn) -> bool:
    """Whether whole groups are iterations of an axis, and a shift some of them."""
    count = integers.constant(buffers.extent(axis))
    if step is None or count is None:
        return False
    return turn.group % step == 0 and turn.shift % step == 0 and step * count % turn.group == 0
