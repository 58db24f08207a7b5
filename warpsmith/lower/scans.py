"""Statements of scans: the state that is carried, and the elements that one statement scans."""

from __future__ import annotations

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, MemoryType, ParallelType
from warpsmith.ir.exprs import Scan
from warpsmith.ir.scalar import Expr
from warpsmith.ir.scans import ScanLoops, scan_loops
from warpsmith.kernel.nodes import Buffer, Declare, ScanElements, Statement, Store
from warpsmith.kernel.scratch import block_scan_scratch, state_room
from warpsmith.lower.buffers import Buffers, constant_of
from warpsmith.lower.reductions import Reductions


class Scans:
    """Makes the scans of one kernel."""

    def __init__(self, buffers: Buffers, reductions: Reductions) -> None:
        self._buffers = buffers
        self._reductions = reductions

    def loops(self, operation: Scan) -> ScanLoops:
        return scan_loops(operation, self._buffers.domains)

    def start(self, operation: Scan) -> list[Statement]:
        """The state of nothing, which iterations of serial loops carry from one to the next."""
        result: list[Statement] = []
        for state, start in zip(_states(operation), operation.carry.identity, strict=True):
            result += [Declare(state), Store(state, integers.ZERO, start)]
        return result

    def emit(self, operation: Scan, indices: list[Expr]) -> list[Statement]:
        """Copy a thread's elements into the result's buffers, then scan them in place."""
        output, loops = operation.output, self.loops(operation)
        statements = self._reductions.parts(operation, indices)
        firsts = [self._reductions.first_index(axis) for axis in output.loop[len(indices) :]]
        access = self._buffers.access(operation, [*indices, *firsts])
        own = [a for a in self._buffers.layouts[output] if a in output.loop[len(indices) :]]
        elements = int(constant_of(integers.mul(*map(self._buffers.extent, own))))
        scan = ScanElements(
            operation.carry,
            tuple(map(self._buffers.buffer, operation.outputs)),
            self._buffers.own(access),
            elements,
            _states(operation),
            () if loops.along is None else (loops.along,),
            None if loops.along is None else self._scratch(operation, loops.along),
            operation.exclusive,
            operation.reverse,
            self._buffers.threads.cluster if loops.over_blocks else 1,
        )
        return [*statements, scan]

    def _scratch(self, operation: Scan, along: ParallelType) -> Buffer:
        """Shared memory for one state of each warp, or each thread; groups have parts of it."""
        threads, output = self._buffers.threads, operation.output
        if threads.groups_along is along:
            raise ScheduleError(
                f"{output.name} is scanned along {along.name}, along which groups of warps "
                "take turns and do not meet",
                code="WS1021",
                remedy="scan it along another axis of the block, or in loops of each thread alone",
            )
        unit, parts = state_room(operation.carry)
        extents = [threads.extents.get(kind, integers.ONE) for kind in BLOCK_TYPES]
        apart = [kind is threads.groups_along for kind in BLOCK_TYPES]
        x, y, z = (
            1 if groups else integers.constant(extent)
            for extent, groups in zip(extents, apart, strict=True)
        )
        size: Expr = integers.mul(*extents, parts)
        if not (x is None or y is None or z is None):
            needed = block_scan_scratch(BLOCK_TYPES.index(along), (x, y, z))
            count = (e for e, groups in zip(extents, apart, strict=True) if groups)
            size = integers.mul(max(1, needed * parts), *count)
        scratch = Buffer(f"{output.name}_scratch", unit, MemoryType.shared, size)
        self._buffers.made.shared[scratch.name] = scratch
        return scratch


def _states(operation: Scan) -> tuple[Buffer, ...]:
    """Registers with the state of what was scanned before."""
    name = operation.output.name
    carry = operation.carry
    return tuple(
        Buffer(f"{name}_{state}", dtype, MemoryType.local, integers.ONE)
        for state, dtype in zip(carry.states, carry.dtypes, strict=True)
    )
