"""Statements of reductions across the threads of a block, the blocks of a cluster, and the grid."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, GRID_TYPES, IterDomain, MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Matmul, Reduction, Scan
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.tensor import TensorView, Value
from warpsmith.kernel.nodes import Buffer, Declare, For, Statement, Store
from warpsmith.kernel.reductions import Reduce, Sharing
from warpsmith.kernel.scratch import groups_reduce_scratch, state_room
from warpsmith.lower.buffers import Buffers, constant_of
from warpsmith.lower.predicates import Predicates
from warpsmith.lower.threads import CLUSTER
from warpsmith.values import dataclass

PART = ParallelType.part


def _adds_fragments(operation: Reduction | Scan) -> bool:
    """Whether blocks add up what tensor cores made of operands in shared memory, element by
    element: those past the ends of the result are 0, and meet no others.
    """
    apart = all(a.parallel.is_of_blocks for a in operation.outputs[0].loop if a.is_reduction)
    made = (s.definition if isinstance(s, TensorView) else None for s in operation.sources)
    return apart and all(
        all(t.memory is MemoryType.shared for t in each.operands)
        if isinstance(each, Matmul)
        else isinstance(each, Reduction) and _adds_fragments(each)
        for each in made
    )


@dataclass(frozen=True, slots=True)
class Shares:
    """What a block has reduced of the shares that the blocks of a cluster keep.

    Attributes:
        axis: of the results, along which the share of a rank lies.
        number: of a block, as all shares are gone through.
        elements: of one share.
        buffers: one for each value of a state, with share behind share, in registers.
    """

    axis: IterDomain
    number: Symbol
    elements: int
    buffers: tuple[Buffer, ...]

    @property
    def total(self) -> int:
        """Elements of all shares."""
        return int(constant_of(self.buffers[0].size))


class AcrossThreads:
    """Makes the reductions of one kernel that take the threads of a block, or several blocks."""

    def __init__(self, buffers: Buffers, predicates: Predicates) -> None:
        self._buffers = buffers
        self._predicates = predicates

    def emit(self, operation: Reduction, indices: list[Expr]) -> list[Statement]:
        """Copy the parts into the result's buffers, then combine them across threads."""
        output = operation.outputs[0]
        kinds = [axis.parallel for axis in output.loop if axis.is_reduction]
        if not all(kind.is_thread for kind in kinds):
            raise ScheduleError(
                f"{output.name} reduces over threads and in a loop of its own at once",
                code="WS0270",
                remedy="rfactor the loop axes first",
            )
        in_loop = any(isinstance(i, Symbol) and not self._is_thread(i) for i in indices)
        in_tiles = self._buffers.threads.stream is not None and PART in kinds
        if in_loop and not in_tiles and any(kind.is_grid for kind in kinds):
            raise ScheduleError(
                f"{output.name} is reduced over the grid inside a loop, but its blocks can meet "
                "once only",
                code="WS0274",
                remedy="inline its producer less deep, so that all its values are reduced together",
            )
        depth = len(indices)
        firsts = [self.first_index(axis) for axis in output.loop[depth:]]
        access = self._buffers.access(operation, [*indices, *firsts])
        inner = [a for a in self._buffers.layouts[output] if a in output.loop[depth:]]
        extents = [self._buffers.extent(a) for a in inner]
        elements = int(constant_of(integers.mul(*extents)))
        index = self._buffers.own(access)
        shares = self._shares_of(operation, depth, elements)
        statements = self.parts(operation, indices, shares, index)
        if any(kind is not CLUSTER for kind in kinds) or self._buffers.threads.cluster > 1:
            if in_loop:
                self._check_apart(output, kinds)
            statements.append(self._reduce(operation, kinds, index, elements, shares))
        return statements

    def _shares_of(self, operation: Reduction, depth: int, elements: int) -> Shares | None:
        """What every block of a cluster keeps of the results, where each keeps a share; None where
        each gets all.
        """
        output = operation.outputs[0]
        blocks = self._buffers.threads.cluster
        bound = [axis for axis in output.loop if axis.parallel is CLUSTER]
        if blocks == 1 or len({axis.is_reduction for axis in bound}) < 2:
            return None
        (axis,) = (each for each in bound if not each.is_reduction)
        extent = self._buffers.extent(axis)
        if axis in output.loop[:depth] or integers.constant(extent) != blocks:
            around = axis in output.loop[:depth]
            raise ScheduleError(
                f"{output.name} is reduced over {blocks} blocks of a cluster, each of which keeps "
                f"the share of its rank along {axis!r}, "
                + (
                    "which is a loop around the reduction"
                    if around
                    else f"of which there are {integers.constant(extent)}"
                ),
                code="WS1025",
                remedy="inline less deep, so that all shares are reduced together"
                if around
                else "split off as many shares as there are blocks",
            )
        buffers = tuple(
            Buffer(f"{each.name}_shares", each.dtype, MemoryType.local, Const(blocks * elements))
            for each in operation.outputs
        )
        return Shares(axis, Symbol("share", low=0, extent=Const(blocks)), elements, buffers)

    def _is_thread(self, symbol: Symbol) -> bool:
        return symbol in self._buffers.threads.symbols.values()

    def first_index(self, axis: IterDomain) -> Expr:
        """This thread's index on a thread axis, 0 on a loop."""
        if not axis.parallel.is_thread:
            return integers.ZERO
        single = self._buffers.extent(axis) == integers.ONE
        return integers.ZERO if single else self._buffers.threads.symbols[axis.parallel]

    def parts(
        self,
        operation: Reduction | Scan,
        indices: list[Expr],
        shares: Shares | None = None,
        first: Expr = integers.ZERO,
    ) -> list[Statement]:
        """This thread's part of each value, or the identity where it has none.

        With `shares`, those of all blocks, in their buffers; `first` is the place in the results'
        buffers of the first element.
        """
        output = operation.outputs[0]
        depth = len(indices)
        opened = list(indices)
        loops: list[Symbol] = []
        for position, axis in enumerate(output.loop[depth:]):
            extent = self._buffers.extent(axis)
            if extent == integers.ONE or self._buffers.skips(operation, axis):
                opened.append(integers.ZERO)
            elif shares is not None and axis is shares.axis:
                loops.append(shares.number)
                opened.append(shares.number)
            elif axis.parallel.is_thread:
                opened.append(self._buffers.threads.symbols[axis.parallel])
            else:
                loops.append(Symbol(f"e{position}", extent=extent))
                opened.append(loops[-1])
        access = self._buffers.access(operation, opened)
        condition: Expr = integers.TRUE
        if not _adds_fragments(operation):
            condition = self._predicates.predicate(access, operation, always=True)
        body: list[Statement] = []
        given = shares.buffers if shares else tuple(map(self._buffers.buffer, operation.outputs))
        for buffer, (target, source, start) in zip(given, self._shares(operation), strict=True):
            own = self._buffers.own(access, target)
            if shares is not None:
                own = integers.add(
                    integers.mul(shares.number, shares.elements), integers.sub(own, first)
                )
            value = source if isinstance(source, Const) else self._buffers.read(access, source)
            if condition != integers.TRUE:
                value = Apply("where", (condition, value, start), target.dtype)
            body.append(Store(buffer, own, value))
        statements: tuple[Statement, ...] = tuple(body)
        for symbol in reversed(loops):
            assert symbol.extent is not None
            statements = (For(symbol, symbol.extent, statements, unroll=True),)
        return [*(map(Declare, shares.buffers) if shares else ()), *statements]

    def _shares(self, operation: Reduction | Scan) -> list[tuple[TensorView, Value, Const]]:
        """(result, its part, identity) for each value of a state."""
        start = operation.carry.identity
        return list(zip(operation.outputs, operation.sources, start, strict=True))

    def _reduce(
        self,
        operation: Reduction,
        kinds: list[ParallelType],
        index: Expr,
        elements: int,
        shares: Shares | None = None,
    ) -> Reduce:
        output = operation.outputs[0]
        carry = operation.carry
        unit, parts = state_room(carry)
        block = tuple(kind for kind in BLOCK_TYPES if kind in kinds)
        grid = tuple(kind for kind in (*GRID_TYPES, PART) if kind in kinds)
        if grid and CLUSTER in kinds:
            raise ScheduleError(
                f"{output.name} is reduced over the grid and over the blocks of a cluster at once",
                code="WS0271",
                remedy="rfactor the loop that is bound to cluster_x first",
            )
        apart = self._buffers.threads.groups_along is not None
        writers = integers.mul(
            *(
                self._buffers.threads.extents.get(t, integers.ONE)
                for t in BLOCK_TYPES
                if apart or t not in block
            )
        )
        scratch = Buffer(
            f"{output.name}_scratch",
            unit,
            MemoryType.shared,
            self._scratch_size(block, shares.total if shares else elements, parts),
        )
        self._buffers.made.shared[scratch.name] = scratch
        buffers = tuple(self._buffers.buffer(out) for out in operation.outputs)
        if not grid:
            blocks = self._buffers.threads.cluster if CLUSTER in kinds else 1
            if shares is not None:
                return Reduce(
                    carry,
                    shares.buffers,
                    integers.ZERO,
                    shares.total,
                    block,
                    scratch,
                    blocks=blocks,
                    kept=buffers,
                    kept_index=index,
                )
            return Reduce(carry, buffers, index, elements, block, scratch, blocks=blocks)
        shared = self._sharing() if PART in grid else None
        splits = integers.mul(*(self._buffers.threads.extents[t] for t in grid))
        segments = integers.mul(
            *(
                extent
                for t, extent in self._buffers.threads.extents.items()
                if t.is_of_blocks and t not in grid
            )
        )
        workspace = Buffer(
            f"{output.name}_parts",
            unit,
            MemoryType.global_,
            integers.mul(writers, elements * parts, splits, segments),
        )
        groups_along = self._buffers.threads.groups_along
        groups = self._buffers.threads.extents[groups_along] if groups_along else integers.ONE
        words = integers.mul(segments, groups)
        semaphore = Buffer(f"{output.name}_arrivals", DataType.Int32, MemoryType.global_, words)
        self._buffers.made.workspaces[workspace.name] = workspace
        self._buffers.made.workspaces[semaphore.name] = semaphore
        made = Reduce(
            carry,
            buffers,
            index,
            elements,
            block,
            scratch,
            grid,
            workspace=workspace,
            semaphore=semaphore,
        )
        if output in self._buffers.for_all:
            self._check_meeting(output)
            return made
        last = Symbol(f"{output.name}_last", DataType.Bool)
        for out in operation.outputs:
            self._predicates.last[out] = (*self._predicates.last.get(out, ()), (last, grid))
        return replace(made, last=last, shared=shared)

    def _check_meeting(self, output: TensorView) -> None:
        """All threads of all blocks meet, which run at once."""
        threads = self._buffers.threads
        if threads.cluster > 1 or threads.groups_along is not None:
            other = "clusters" if threads.cluster > 1 else "groups of warps that take turns"
            raise ScheduleError(
                f"{output.name} is reduced over the grid, all blocks of which need it again, in a "
                f"kernel with {other}",
                code="WS0266",
                remedy="keep that axis within a block, or use a second kernel",
            )

    def _sharing(self) -> Sharing:
        """Which blocks have parts of the sums of a tile."""
        threads = self._buffers.threads
        assert threads.stream is not None, "`stream_k` found a loop that is bound to part"
        block, rank = (
            threads.symbols.get(kind, integers.ZERO) for kind in (GRID_TYPES[0], CLUSTER)
        )
        return threads.stream.sharing_of(block, rank)

    def _check_apart(self, output: TensorView, kinds: list[ParallelType]) -> None:
        """Groups that take turns meet in no loop: not all need come to each of its iterations."""
        if self._buffers.threads.groups_along in kinds:
            raise ScheduleError(
                f"{output.name} is reduced in a loop along an axis of the block along which groups "
                "of warps take turns and do not meet",
                code="WS0255",
                remedy="reduce within a group, or behind the loops in which they take turns, or "
                "move the slice position so that all groups share a stage",
            )

    def _scratch_size(self, reduced: tuple[ParallelType, ...], elements: int, parts: int) -> Expr:
        """Elements of shared memory for a reduction: exact for a constant block, else enough."""
        extents = [self._buffers.threads.extents.get(t, integers.ONE) for t in BLOCK_TYPES]
        known = [integers.constant(extent) for extent in extents]
        x, y, z = known
        if x is None or y is None or z is None:
            return integers.mul(*extents, elements * parts)
        gone = [kind in reduced for kind in BLOCK_TYPES]
        groups = self._buffers.threads.groups_along
        apart = None if groups is None or groups in reduced else BLOCK_TYPES.index(groups)
        axes = (gone[0], gone[1], gone[2])
        count = groups_reduce_scratch(elements, axes, (x, y, z), apart)
        return Const(max(1, count * parts))
