"""Statements of scans: the state that is carried, and the elements that one statement scans."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Scan
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.scans import ScanLoops, scan_loops
from warpsmith.kernel.nodes import Buffer, Declare, For, Statement
from warpsmith.kernel.reductions import ScanElements
from warpsmith.kernel.scratch import block_scan_scratch, state_room
from warpsmith.lower.across_threads import AcrossThreads
from warpsmith.lower.buffers import Buffers, constant_of, filled


class Scans:
    """Makes the scans of one kernel."""

    def __init__(self, buffers: Buffers, across: AcrossThreads) -> None:
        self._buffers = buffers
        self._across = across

    def loops(self, operation: Scan) -> ScanLoops:
        return scan_loops(operation, self._buffers.domains)

    def start(self, operation: Scan) -> list[Statement]:
        """States of nothing, which iterations of serial loops carry from one to the next."""
        result: list[Statement] = []
        for state, start in zip(self._states(operation), operation.carry.identity, strict=True):
            result += [Declare(state), filled(state, start)]
        return result

    def emit(self, operation: Scan, indices: list[Expr]) -> list[Statement]:
        """Copy a thread's elements into the result's buffers, then scan them in place."""
        output, loops = operation.output, self.loops(operation)
        statements = self._across.parts(operation, indices)
        beside = {
            p: Symbol(f"r{p}", extent=self._buffers.extent(output.loop[p])) for p in loops.beside
        }
        places = range(len(indices), len(output.loop))
        firsts = [
            beside[p] if p in beside else self._across.first_index(output.loop[p]) for p in places
        ]
        access = self._buffers.access(operation, [*indices, *firsts])
        inside = [output.loop[p] for p in places if p not in beside]
        own = [a for a in self._buffers.layouts[output] if a in inside]
        elements = int(constant_of(integers.mul(*map(self._buffers.extent, own))))
        times = (self._buffers.extent(output.loop[p]) for p in loops.turns)
        turns = int(constant_of(integers.mul(*times)))
        scan = ScanElements(
            operation.carry,
            tuple(map(self._buffers.buffer, operation.outputs)),
            self._buffers.own(access),
            elements,
            self._states(operation),
            self._number(beside.values()),
            () if loops.along is None else (loops.along,),
            None if loops.along is None else self._scratch(operation, loops.along, turns),
            operation.exclusive,
            operation.reverse,
            self._buffers.threads.cluster if loops.over is ParallelType.cluster_x else 1,
            turns,
        )
        if loops.over is not None and loops.over.is_grid:
            scan = self._over_grid(scan, operation, indices)
        body: tuple[Statement, ...] = (scan,)
        for symbol in reversed(beside.values()):
            assert symbol.extent is not None
            body = (For(symbol, symbol.extent, body, unroll=True),)
        return [*statements, *body]

    def _over_grid(self, scan: ScanElements, operation: Scan, indices: list[Expr]) -> ScanElements:
        """The scan with what its block needs to wait for those before it."""
        threads, output = self._buffers.threads, operation.output
        order = threads.order
        assert order is not None
        own = set(threads.symbols.values())
        if any(isinstance(index, Symbol) and index not in own for index in indices):
            raise ScheduleError(
                f"{output.name} is scanned over the grid inside a loop, but its blocks come by "
                "each other once only",
                code="WS1024",
                remedy="bind the loops outside to the grid",
            )
        others = (kind for kind in BLOCK_TYPES if kind not in scan.block_axes)
        rows = integers.mul(*(threads.extents.get(kind, integers.ONE) for kind in others))
        number, (unit, room) = threads.number, state_room(operation.carry)
        blocks = number.extent
        assert blocks is not None
        workspace = Buffer(
            f"{output.name}_parts", unit, MemoryType.global_, integers.mul(blocks, rows, room)
        )
        semaphore = Buffer(f"{output.name}_arrivals", DataType.Int32, MemoryType.global_, blocks)
        for buffer in (workspace, semaphore):
            self._buffers.made.workspaces[buffer.name] = buffer
        return replace(
            scan,
            block_number=number,
            parts=threads.extents[order.along],
            workspace=workspace,
            semaphore=semaphore,
        )

    def _number(self, symbols: Iterable[Symbol]) -> Expr:
        """Of a state among those of the loops beside, the last of which is the fastest."""
        number: Expr = integers.ZERO
        for symbol in symbols:
            assert symbol.extent is not None
            number = integers.add(integers.mul(number, symbol.extent), symbol)
        return number

    def _scratch(self, operation: Scan, along: ParallelType, turns: int) -> Buffer:
        """Shared memory for states of each warp, or each thread; groups have parts of it."""
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
        size: Expr = integers.mul(*extents, parts * turns)
        if not (x is None or y is None or z is None):
            needed = block_scan_scratch(BLOCK_TYPES.index(along), (x, y, z))
            count = (e for e, groups in zip(extents, apart, strict=True) if groups)
            size = integers.mul(max(1, needed * parts * turns), *count)
        scratch = Buffer(f"{output.name}_scratch", unit, MemoryType.shared, size)
        self._buffers.made.shared[scratch.name] = scratch
        return scratch

    def _states(self, operation: Scan) -> tuple[Buffer, ...]:
        """Registers with the states of what was scanned before, one for each loop beside."""
        output, carry = operation.output, operation.carry
        loops = (output.loop[p] for p in self.loops(operation).beside)
        size = integers.mul(*map(self._buffers.extent, loops))
        return tuple(
            Buffer(f"{output.name}_{state}", dtype, MemoryType.local, size)
            for state, dtype in zip(carry.states, carry.dtypes, strict=True)
        )
