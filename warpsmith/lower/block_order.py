"""Blocks that wait for each other: each takes its number as it starts, and waits for lower ones.

A block of the grid may wait only for blocks that have started, and the hardware starts them in no
order that it promises. So a kernel whose scans are shared by blocks of the grid gives out numbers
as blocks start: the number says which part of which row a block has, and who has a lower one runs
already, or is done.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import GRID_TYPES, MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Scan
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.scans import scan_loops
from warpsmith.ir.tensor import Operation
from warpsmith.kernel.nodes import Buffer, If, Let, Statement
from warpsmith.kernel.rings import ELECTED
from warpsmith.kernel.tile_scheduler import ReadTile, TakeTile
from warpsmith.lower.buffers import Made
from warpsmith.lower.threads import BlockOrder, Threads

MOST = 2**30
"""Blocks at most: the counter has 32 bits."""


def numbered(threads: Threads, made: Made) -> tuple[Statement, ...]:
    """What a block does first: take its number, and find its place along the grid's axes."""
    order, extents = threads.order, threads.extents
    if order is None:
        return ()
    others = [kind for kind in GRID_TYPES if kind in extents and kind is not order.along]
    number = threads.number
    assert number.extent is not None
    target = Buffer(f"{number.name}_taken", DataType.Int32, MemoryType.shared, integers.ONE)
    counter = Buffer(f"{number.name}_arrivals", DataType.Int32, MemoryType.global_, integers.ONE)
    made.shared[target.name] = target
    made.workspaces[counter.name] = counter
    made.limits[number.extent] = MOST
    taken = Symbol(f"{number.name}_next", low=0, extent=number.extent)
    take = TakeTile(taken, counter, integers.ZERO, target, integers.ZERO)
    lets: list[Statement] = []
    left: Expr = number
    kinds = (order.along, *others)
    for kind in kinds:
        place = left if kind is kinds[-1] else integers.mod(left, extents[kind])
        if order.reverse and kind is order.along:
            place = integers.sub(integers.sub(extents[kind], 1), place)
        lets.append(Let(threads.symbols[kind], place))
        left = integers.floordiv(left, extents[kind])
    return (If(ELECTED, (take,)), ReadTile(number, target, integers.ZERO), *lets)


def block_order(operations: Iterable[Operation], domains: DomainMap) -> BlockOrder | None:
    """The order that scans over the grid ask for; None where there are none.

    Raises:
        ScheduleError: WS1020 as `scan_loops` does; WS1023 where blocks would meet otherwise, too.
    """
    found: dict[BlockOrder, str] = {}
    others: list[str] = []
    for operation in operations:
        name = operation.outputs[0].name
        if isinstance(operation, Scan):
            over = scan_loops(operation, domains).over
            if over is not None and over.is_grid:
                found[BlockOrder(over, operation.reverse)] = name
                continue
        for axis in operation.outputs[0].loop:
            if axis.parallel is ParallelType.cluster_x:
                others.append(f"{name} is shared by the blocks of a cluster")
            elif axis.parallel.is_grid and axis.is_reduction:
                others.append(f"{name} is reduced over the grid")
        if any(tensor.role for tensor in operation.outputs):
            others.append(f"{name} has a role")
    if not found:
        return None
    order, *more = found
    if more:
        others.append(f"{found[more[0]]} is scanned along another axis of it, or the other way")
    if others:
        raise ScheduleError(
            f"{found[order]} is scanned over the grid, and {others[0]}",
            code="WS1023",
            remedy="scan over the cluster or the block, or compute the other tensor in a kernel of "
            "its own",
        )
    return order
