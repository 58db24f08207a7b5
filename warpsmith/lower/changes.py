"""Copies between registers whose loops deal elements to other threads than the source's do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import gcd, prod

from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, IterDomain, MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Pointwise, tensor_inputs
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.kernel.nodes import Buffer, CopyVector, For, If, Statement
from warpsmith.kernel.shuffles import Shuffle
from warpsmith.layouts.algebra import HELD, REGISTERS, composed, grouped, inverse
from warpsmith.layouts.changes import By, Change, change
from warpsmith.layouts.layout import Layout, Piece, Place
from warpsmith.layouts.memory import MemoryLayout, vector
from warpsmith.layouts.swizzle import HARDWARE
from warpsmith.lower.access import Access
from warpsmith.lower.buffers import Buffers
from warpsmith.lower.walked import index_of, layout_of
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass

SCRATCH_ALIGNMENT = 1024
"""Bytes: what the widest swizzle's pattern begins at multiples of."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a copy gets its elements.

    Attributes:
        depth: of the loops inside which all threads copy what they hold.
        held: over the copy's warps, lanes and registers, where the source keeps each element.
        memory: over the same, where it would lie in shared memory: in rows of the copy's tile.
        change: the cheapest way.
    """

    depth: int
    held: Layout
    memory: Layout
    change: Change


class Changes:
    """Makes the statements of one kernel that bring elements from one layout to another."""

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._known: dict[Operation, Way | None] = {}

    def way(self, operation: Operation) -> Way | None:
        """How a copy in registers gets what other threads hold.

        None for other operations, and where each thread copies what it has, or where the loops say
        of no element alone who is to have it.
        """
        if operation not in self._known:
            self._known[operation] = self._found(operation)
        return self._known[operation]

    def emit(self, operation: Operation, indices: list[Expr]) -> list[Statement]:
        """Shuffles, or stores to shared memory and loads from it."""
        way = self.way(operation)
        assert way is not None
        source, output = tensor_inputs(operation)[0], operation.outputs[0]
        inner = [each for each in self._inner(output, way.depth) if each is not None]
        access = self._buffers.access(operation, [*indices, *inner])
        access.check_same_groups(
            source, self._buffers.unused[source].union(self._thread_axes(source))
        )
        held, wanted = self._buffers.buffer(source), self._buffers.buffer(output)
        if way.change.by is By.SHUFFLES:
            return [Shuffle(wanted, held, way.change)]
        return self._through_shared(held, wanted, way)

    def _through_shared(self, held: Buffer, wanted: Buffer, way: Way) -> list[Statement]:
        """All store what they hold, and load what is theirs."""
        threads, back = self._buffers.threads, composed(way.memory, inverse(way.held))
        assert back is not None, f"{way.held} has other digits than {way.memory}"
        warps, lanes, registers = way.held.shape
        tile = warps * lanes * registers
        groups = [t for t in BLOCK_TYPES if t in threads.extents and t not in threads.of_warps]
        extents = [threads.extents[t] for t in groups]
        number: Expr = integers.ZERO
        for kind, extent in zip(groups, extents, strict=True):
            number = integers.add(integers.mul(number, extent), threads.symbols[kind])
        scratch = Buffer(
            f"{wanted.name}_scratch",
            wanted.dtype,
            MemoryType.shared,
            integers.mul(tile, *extents),
            alignment=SCRATCH_ALIGNMENT,
        )
        self._buffers.made.shared[scratch.name] = scratch
        self._buffers.made.exchanged.add(scratch.name)
        thread = threads.in_warps
        warp, lane = integers.floordiv(thread, WARP), integers.mod(thread, WARP)
        first = integers.mul(number, tile)
        swizzle = HARDWARE[way.change.swizzle]

        def place(index: Expr) -> Expr:
            row = integers.add(first, index)
            if not swizzle.pairs:
                return row
            line, lines, chunk = swizzle.terms(wanted.dtype.size)
            turned = integers.mul(integers.mod(integers.floordiv(row, line), lines), chunk)
            return Apply("xor", (row, turned), DataType.Index)

        memory = MemoryLayout(way.memory, wanted.dtype.size, swizzle)
        put = _width(back, vector(way.held, memory))
        take = _width(way.memory, vector(_own(way.memory.shape), memory))
        stored = Symbol("held", low=0, extent=Const(back.shape[2] // put))
        loaded = Symbol("kept", low=0, extent=Const(registers // take))
        first_held, first_kept = integers.mul(stored, put), integers.mul(loaded, take)
        there = place(index_of(back, warp, lane, first_held))
        here = place(index_of(way.memory, warp, lane, first_kept))
        return [
            self._by_first(back, _over(stored, CopyVector(scratch, there, held, first_held, put))),
            self._by_first(
                way.memory, _over(loaded, CopyVector(wanted, first_kept, scratch, here, take))
            ),
        ]

    def _by_first(self, layout: Layout, statement: Statement) -> Statement:
        """A statement of the threads that hold anything, which may be the first few of a block."""
        warps, lanes, _ = layout.shape
        threads = self._buffers.threads
        here = integers.less(threads.in_warps, warps * lanes)
        along = (threads.extents[kind] for kind in threads.of_warps)
        everybody = integers.mul(*along) == integers.index(warps * lanes)
        return statement if everybody else If(here, (statement,))

    # --- layouts -------------------------------------------------------------------------------

    def _found(self, operation: Operation) -> Way | None:
        output = operation.outputs[0]
        if not isinstance(operation, Pointwise) or operation.op != "set":
            return None
        source = tensor_inputs(operation)[0] if tensor_inputs(operation) else output
        buffers = self._buffers
        if source.definition is None or not self._are_registers(source, output):
            return None
        depth = source.compute_at
        if output.compute_at > depth or not buffers.threads.of_warps:
            return None
        inner = self._inner(output, depth)
        threads = buffers.threads
        symbols = [each for each in inner if isinstance(each, Symbol)]
        symbols.sort(key=lambda s: -threads.step_of(s))  # those of registers, which have 0, last
        registers = [axis for axis in output.loop[depth:] if axis in buffers.layouts[output]]
        if tuple(registers) != buffers.layouts[output] or None in inner:
            return None
        lanes = sum(threads.step_of(symbol) > 0 for symbol in symbols)
        if not lanes:
            return None
        outer: list[Expr] = [
            Symbol(f"outer{n}", low=0, extent=buffers.extent(axis))
            for n, axis in enumerate(output.loop[:depth])
        ]
        access = buffers.access(operation, [*outer, *(each for each in inner if each is not None)])
        held = self._layout(access, source, symbols, lanes)
        if held is None or not _is_one_to_one(held) or _keeps_threads(held):
            return None
        rows = self._rows(access, output, symbols, lanes) or Layout.row_major(held.shape)
        return Way(depth, held, rows, change(held, _own(held.shape), output.dtype.size, rows))

    def _are_registers(self, *tensors: TensorView) -> bool:
        return all(self._buffers.buffer(t).memory is MemoryType.local for t in tensors)

    def _inner(self, output: TensorView, depth: int) -> list[Expr | None]:
        """Symbols of the loops over threads and registers; 0 for loops that tell nothing apart, and
        None for what is neither.
        """
        found: list[Expr | None] = []
        for number, axis in enumerate(output.loop[depth:]):
            extent = self._buffers.extent(axis)
            constant = integers.constant(extent)
            if axis in self._buffers.unused[output] or constant == 1:
                found.append(integers.ZERO)
            elif axis.parallel in self._buffers.threads.of_warps:
                found.append(self._buffers.threads.symbols[axis.parallel])
            elif axis.parallel.is_thread or constant is None:
                found.append(None)
            else:
                found.append(Symbol(f"own{number}", low=0, extent=extent))
        return found

    def _thread_axes(self, tensor: TensorView) -> list[IterDomain]:
        return [axis for axis in tensor.loop if axis.parallel in self._buffers.threads.of_warps]

    def _layout(
        self, access: Access, source: TensorView, symbols: Sequence[Symbol], lanes: int
    ) -> Layout | None:
        """Over warps, lanes and registers of a copy, where its source keeps each element."""
        threads = self._buffers.threads
        if source.lanes is not None:
            thread = access.axis(source.lanes)
        else:
            steps = threads.of_warps
            axes = self._thread_axes(source)
            thread = integers.add(
                *(integers.mul(access.axis(axis), steps[axis.parallel]) for axis in axes)
            )
        register = access.allocated(source, self._buffers.layouts[source])
        by_thread, by_register = (self._over(expr, symbols, lanes) for expr in (thread, register))
        if by_thread is None or by_register is None:
            return None
        pieces = _merged(by_thread, by_register)
        return None if pieces is None else _by_warp(by_thread.shape, pieces)

    def _rows(
        self, access: Access, output: TensorView, symbols: Sequence[Symbol], lanes: int
    ) -> Layout | None:
        """The tile of a copy in rows of its last dimension; None if it is no whole box."""
        index: Expr = integers.ZERO
        step = 1
        for axis in reversed([a for a in output.logical if not a.is_broadcast]):
            own = self._over(access.axis(axis), symbols, lanes)
            if own is None:
                return None
            index = integers.add(index, integers.mul(access.axis(axis), step))
            step *= own.extent(Place.ADDRESS)
        rows = self._over(index, symbols, lanes)
        if rows is None or step != prod(rows.shape) or not rows.is_packed(Place.ADDRESS):
            return None
        return _by_warp(rows.shape, rows.pieces)

    def _over(self, index: Expr, symbols: Sequence[Symbol], lanes: int) -> Layout | None:
        """An index over the threads of a copy, of which there are as many loops as `lanes`, slowest
        first, and over its registers.
        """
        found = layout_of(index, symbols)
        return None if found is None else grouped(found, (lanes, len(symbols) - lanes))


def _own(shape: tuple[int, ...]) -> Layout:
    """Warps, lanes and registers, each where it is."""
    digits = enumerate(zip(shape, HELD, strict=True))
    return Layout(shape, tuple(Piece(d, size, 1, place, 1) for d, (size, place) in digits))


def _width(where: Layout, most: int) -> int:
    """Registers of a thread that follow each other in memory, too, and that one access moves."""
    width = 1
    for piece in (p for p in where.pieces if p.dim == REGISTERS):
        if piece.step != width or piece.stride != width or width == most:
            break
        width *= gcd(piece.size, most // width)
    return width


def _over(symbol: Symbol, statement: Statement) -> For:
    assert symbol.extent is not None
    return For(symbol, symbol.extent, (statement,), unroll=True)


def _is_one_to_one(held: Layout) -> bool:
    """Whether the source has each element once, and no other."""
    extents = [held.extent(place) for place in HELD]
    return all(map(held.is_packed, HELD)) and prod(extents) == prod(held.shape)


def _keeps_threads(held: Layout) -> bool:
    """Whether each thread finds all that it wants in its own registers."""
    return all(
        HELD[p.dim or 0] is p.place and (p.place is Place.REGISTER or p.stride == p.step)
        for p in held.pieces
    )


def _merged(by_thread: Layout, by_register: Layout) -> list[Piece] | None:
    """Digits that move an element along threads, or along registers; None if one does both."""
    found: list[Piece] = []
    for dim, extent in enumerate(by_thread.shape):
        own = [[p for p in part.pieces if p.dim == dim] for part in (by_thread, by_register)]
        bounds = sorted({1, extent, *(p.step for part in own for p in part)})
        if any(far % near for near, far in pairwise(bounds)):
            return None
        for near, far in pairwise(bounds):
            size = far // near
            thread, register = (part.stride(dim, near, size) for part in (by_thread, by_register))
            if thread is None or register is None or (thread and register):
                return None
            place = Place.WARP if thread else Place.REGISTER
            found.append(Piece(dim, size, near, place, thread or register))
    return found


def _by_warp(shape: tuple[int, ...], pieces: Sequence[Piece]) -> Layout | None:
    """Threads as warps of lanes: those of the copy, dimension 0, and those of the source, the place
    of warps.
    """
    moved: list[Piece] = []
    for piece in pieces:
        for part in _cut(piece, piece.stride, piece.place is Place.WARP):
            for each in _cut(part, part.step, part.dim == 0):
                inside = each.step < WARP
                if each.dim == 0:
                    dim, step = (1, each.step) if inside else (0, each.step // WARP)
                else:
                    dim, step = 2, each.step
                place, stride = each.place, each.stride
                if place is Place.WARP:
                    near = stride < WARP
                    place, stride = (Place.LANE, stride) if near else (place, stride // WARP)
                moved.append(Piece(dim, each.size, step, place, stride))
    try:
        return Layout((shape[0] // WARP, WARP, shape[1]), tuple(moved))
    except InternalError:
        return None


def _cut(piece: Piece, at: int, counts: bool) -> list[Piece]:
    """A digit that counts threads from `at` on, cut where a warp ends."""
    if not counts or at >= WARP or at * piece.size <= WARP:
        return [piece]
    near = WARP // at
    return [
        Piece(piece.dim, near, piece.step, piece.place, piece.stride),
        Piece(
            piece.dim,
            piece.size // near,
            piece.step * near,
            piece.place,
            piece.stride * near,
        ),
    ]
