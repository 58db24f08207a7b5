"""Copies of 8 x 8 matrices between registers and shared memory: `ldmatrix` and `stmatrix`."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain, MemoryType, ParallelType
from warpsmith.ir.exprs import Matmul, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.kernel.nodes import For, Statement
from warpsmith.kernel.products import LoadMatrix, StoreMatrix
from warpsmith.layouts.algebra import REGISTERS, composed, grouped
from warpsmith.layouts.layout import Layout
from warpsmith.layouts.matrices import LOOPS, PARTS, ROWS, Matrices, matrices
from warpsmith.layouts.swizzle import CHUNK
from warpsmith.lower.boxes import without
from warpsmith.lower.buffers import Buffers, constant_of
from warpsmith.lower.fills import copies, is_tensorized
from warpsmith.lower.predicates import Predicates
from warpsmith.lower.threads import Threads
from warpsmith.lower.walked import index_of, layout_of
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Loading:
    """How `ldmatrix` brings an operand to the registers of a warp.

    Attributes:
        depth: of the loops inside which each warp loads all that its threads hold.
        way: over a warp's lanes and registers, where elements lie in shared memory.
        moved: the matrices that one instruction brings.
    """

    depth: int
    way: Layout
    moved: Matrices


class MatrixCopies:
    """Makes the statements of one kernel by which warps move matrices."""

    def __init__(self, buffers: Buffers, predicates: Predicates) -> None:
        self._buffers = buffers
        self._predicates = predicates
        self._known: dict[Operation, Loading | None] = {}

    # --- ldmatrix ------------------------------------------------------------------------------

    def loading(self, operation: Operation) -> Loading | None:
        """How matrices bring a copy of shared memory that tensor cores read from registers; None
        for other operations, and where elements do not lie as matrices do: each thread loads its
        own then.
        """
        if operation not in self._known:
            self._known[operation] = self._found(operation)
        return self._known[operation]

    def load(self, operation: Operation, indices: list[Expr]) -> list[Statement]:
        """As many matrices at once as fit, as often as a lane's registers need."""
        loading = self.loading(operation)
        assert loading is not None
        (source,), output = tensor_inputs(operation), operation.outputs[0]
        lane = integers.mod(self._buffers.threads.in_warps, WARP)
        first = integers.sub(self._buffers.threads.in_warps, lane)
        held = self._held(operation, len(indices))
        inside = self._inside(output, held, first, [integers.ZERO] * len(held))
        access = self._buffers.access(operation, [*indices, *inside])
        way, moved = loading.way, loading.moved
        each = moved.count * moved.each
        count = Const(way.shape[REGISTERS] // each)
        turn = Symbol("matrix", low=0, extent=count)
        start = integers.mul(turn, each) if count != integers.ONE else integers.ZERO
        index = integers.add(
            self._buffers.index_row_major(access, source),
            index_of(
                way, integers.ZERO, index_of(moved.lane, lane), index_of(moved.register, lane)
            ),
            index_of(way, integers.ZERO, integers.ZERO, start),
        )
        self._buffers.made.exchanged.add(source.name)
        loaded = LoadMatrix(
            target=self._buffers.buffer(output),
            target_index=integers.add(self._buffers.own(access), start),
            source=self._buffers.buffer(source),
            source_index=self._buffers.swizzled(source, index),
            matrices=moved,
        )
        if count == integers.ONE:
            return [loaded]
        return [For(turn, count, (loaded,), unroll=True)]

    def _found(self, operation: Operation) -> Loading | None:
        output = operation.outputs[0]
        buffers, threads = self._buffers, self._buffers.threads
        if not self._is_operand(output) or not copies(operation) or not threads.of_warps:
            return None
        (source,) = tensor_inputs(operation)
        kinds = [buffers.buffer(tensor).memory for tensor in (source, output)]
        depth = self._depth(output)
        if kinds != [MemoryType.shared, MemoryType.local] or source.compute_at > depth:
            return None
        held = self._held(operation, depth)
        registers = [
            Symbol(f"own{number}", low=0, extent=buffers.extent(axis))
            for number, axis in enumerate(held)
        ]
        lane = Symbol("lane", low=0, extent=Const(WARP))
        warps = integers.floordiv(threads.in_warps, WARP)
        outer = [
            threads.symbols[axis.parallel]
            if axis.parallel.is_thread
            else Symbol(f"outer{number}", low=0, extent=buffers.extent(axis))
            for number, axis in enumerate(output.loop[:depth])
        ]
        thread = integers.add(integers.mul(warps, WARP), lane)
        access = buffers.access(operation, [*outer, *self._inside(output, held, thread, registers)])
        index = access.allocated(source, buffers.layouts[source])
        walked = layout_of(index, [lane, *registers])
        way = walked and grouped(walked, (0, 1, len(registers)))
        moved = way and matrices(way, output.dtype.size)
        first = without(index, [lane, *registers])
        aligned = integers.divides(CHUNK // output.dtype.size, first, buffers.facts)
        free = self._predicates.predicate(access, operation, always=False) == integers.TRUE
        if not way or not moved or not aligned or not free:
            return None
        return Loading(depth, way, moved)

    def _is_operand(self, tensor: TensorView) -> bool:
        """Whether tensor cores read it, from registers."""
        if tensor not in self._buffers.filled and tensor not in self._buffers.ends:
            return False
        readers = Fusion.of(tensor).uses(tensor)
        return any(isinstance(use, Matmul) and is_tensorized(use.output) for use in readers)

    def _depth(self, output: TensorView) -> int:
        """The first loop from which on there are only those over threads and over registers."""
        depth = len(output.loop)
        while depth > output.compute_at and self._is_of_lanes(output, output.loop[depth - 1]):
            depth -= 1
        return depth

    def _is_of_lanes(self, output: TensorView, axis: IterDomain) -> bool:
        if axis.parallel in self._buffers.threads.of_warps:
            return axis not in self._buffers.unused[output]
        return axis.parallel in (ParallelType.serial, ParallelType.unroll) and (
            axis in self._buffers.layouts[output]
            and integers.constant(self._buffers.extent(axis)) is not None
        )

    def _held(self, operation: Operation, depth: int) -> list[IterDomain]:
        """Loops over the registers of a thread."""
        steps = self._buffers.threads.of_warps
        return [a for a in operation.outputs[0].loop[depth:] if a.parallel not in steps]

    def _inside(
        self,
        output: TensorView,
        held: Sequence[IterDomain],
        thread: Expr,
        registers: Sequence[Expr],
    ) -> list[Expr]:
        """Indices of the last loops of a tensor: over threads of warps, and over registers."""
        steps = self._buffers.threads.of_warps
        extents = self._buffers.threads.extents
        own = dict(zip(held, registers, strict=True))
        inner = [a for a in output.loop if a in own or a.parallel in steps]
        return [
            own[axis]
            if axis in own
            else integers.mod(
                integers.floordiv(thread, steps[axis.parallel]), extents[axis.parallel]
            )
            for axis in inner
        ]

    # --- stmatrix ------------------------------------------------------------------------------

    def store(self, operation: Operation, indices: list[Expr]) -> StoreMatrix:
        """Two or four matrices of a warp."""
        output, (source,) = operation.outputs[0], tensor_inputs(operation)
        if list(self._buffers.threads.of_warps) != [ParallelType.block_x]:
            raise wrong_threads(output, self._buffers.threads, WARP)
        lanes = lanes_of(operation, len(indices), self._buffers)
        access = self._buffers.access(operation, [*indices, *lanes])
        condition = self._predicates.predicate(access, operation, always=False)
        if condition != integers.TRUE:
            raise ScheduleError(
                f"{output.name} is stored by stmatrix where {condition!r}, and whole warps store",
                code="WS1008",
                remedy="split by factors that divide, or store it with LoadStoreOpType.set",
            )
        own = self._buffers.index_row_major(access, source)
        first = without(own, [*lanes])
        loops = tuple(constant_of(self._buffers.extent(a)) for a in output.loop[len(indices) :])
        if loops not in LOOPS or layout_of(own, lanes) != Layout.row_major(loops):
            raise self._no_matrix(output, f"registers {own!r} of {source.name}")
        row, moved = self._row(operation, indices, lanes, loops)
        return StoreMatrix(
            target=self._buffers.buffer(output),
            target_index=self._buffers.swizzled(output, row),
            source=self._buffers.buffer(source),
            source_index=first,
            matrices=moved,
        )

    def _row(
        self,
        operation: Operation,
        indices: list[Expr],
        lanes: tuple[Symbol, ...],
        loops: tuple[int, ...],
    ) -> tuple[Expr, Matrices]:
        """Where the row lies whose address a lane gives, and what is stored."""
        output, place = operation.outputs[0], _thread_axis(operation.outputs[0])
        warps = constant_of(self._buffers.extent(output.loop[place])) // WARP

        def stored(thread: Expr, ends: Sequence[Expr]) -> Expr:
            at = [*indices[:place], thread, *indices[place + 1 :], *ends]
            return self._buffers.own_row_major(self._buffers.access(operation, at), output)

        warp, quad, part = (
            Symbol(name, low=0, extent=Const(extent))
            for name, extent in (("warp", warps), ("quad", ROWS), ("part", PARTS))
        )
        thread = integers.add(integers.mul(warp, WARP), integers.mul(quad, PARTS), part)
        index = stored(thread, lanes)
        walked = layout_of(index, [quad, part, *lanes])
        moved = walked and matrices(grouped(walked, (0, 2, len(lanes))), output.dtype.size)
        if not moved or (moved.count, moved.each) != (2 * loops[0], 2):
            raise self._no_matrix(output, f"elements {index!r} of its rows")
        own = indices[place]
        warp_start = integers.mul(integers.floordiv(own, WARP), WARP)
        first = integers.add(warp_start, index_of(moved.lane, own))
        return stored(first, _ends(moved, integers.mod(own, WARP), loops)), moved

    def _no_matrix(self, output: TensorView, what: str) -> ScheduleError:
        return ScheduleError(
            f"the loops of {output.name} are no matrices of stmatrix: {what}",
            code="WS1003",
            remedy="call split_fragments, split the n / 8 by 2 or 1, and tensorize",
        )


def _ends(moved: Matrices, lane: Expr, loops: tuple[int, ...]) -> list[Expr]:
    """The loops at the element that begins the row whose address a lane gives."""
    found = []
    for dim in range(len(loops)):
        only = Layout.strided(loops, tuple(int(d == dim) for d in range(len(loops))))
        digit = composed(only, moved.register)
        assert digit is not None, f"{moved} has other registers than {loops}"
        found.append(index_of(digit, lane))
    return found


def lanes_of(operation: Operation, depth: int, buffers: Buffers) -> tuple[Symbol, Symbol, Symbol]:
    """The loops of one instruction."""
    first, second, third = (
        Symbol(f"lane{number}", low=0, extent=buffers.extent(axis))
        for number, axis in enumerate(operation.outputs[0].loop[depth:])
    )
    return first, second, third


def _thread_axis(output: TensorView) -> int:
    return next(p for p, a in enumerate(output.loop) if a.parallel is ParallelType.block_x)


def wrong_threads(output: TensorView, threads: Threads, count: int) -> ScheduleError:
    """What is said where no such threads run together as the instruction takes them."""
    extent = threads.extents.get(ParallelType.block_x, integers.ONE)
    who = "a warp" if count == WARP else "a warp group"
    return ScheduleError(
        f"{output.name} is computed by {extent!r} threads along block_x, and tensor cores take "
        f"{who} of {count}",
        code="WS1006",
        remedy="bind the first loop that split_fragments makes to block_x, and no other"
        + (
            ", or with quads the first two to block_y and block_x"
            if not threads.along(count // WARP)
            else ""
        ),
    )
