"""Executes the Kernel form on NumPy, every thread of every block as one lane of an array.

All threads run a statement before any runs the next; what that order hides is looked for
explicitly: shared memory that passes between threads without a barrier, elements of global memory
that two threads write, values that nobody computed, indices out of bounds or beyond the index
type, vector accesses that are not aligned, collective statements that some threads skip, and what a
kernel that starts early does to global memory before it has waited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tests.support.clustering import Peers
from tests.support.memory import NUMPY_TYPES, Cell, Fault, Memory, sure
from tests.support.multiplying import Operand, Products, by_warp, loaded_lanes, matrix_lanes
from tests.support.reducing import (
    close_batch,
    collect,
    combine,
    open_batch,
    reduce_across,
    scan_across,
    welford_step,
)
from tests.support.values import Evaluator, Mask, narrowed
from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, GRID_TYPES, MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Expr, evaluate
from warpsmith.kernel.clusters import (
    RANK,
    AnnounceStart,
    AwaitStart,
    LoadRemote,
    StoreRemote,
    SynchronizeCluster,
)
from warpsmith.kernel.kernel import Kernel, Reciprocal
from warpsmith.kernel.nodes import (
    Buffer,
    Comment,
    CopyVector,
    Declare,
    Element,
    For,
    If,
    Let,
    Statement,
    Store,
    Synchronize,
)
from warpsmith.kernel.products import (
    AwaitProducts,
    CommitProducts,
    FenceProducts,
    Fragment,
    LoadMatrix,
    MatrixTile,
    Multiply,
    MultiplyByWarp,
    StoreMatrix,
)
from warpsmith.kernel.reductions import Accumulate, Reduce, ScanElements, WelfordBatch, WelfordStep
from warpsmith.kernel.rings import ELECTED, FenceProxy
from warpsmith.kernel.succession import AdmitNext, AwaitPrevious
from warpsmith.kernel.tile_scheduler import ReadTile, TakeTile


@dataclass(frozen=True)
class Lanes:
    """The threads of a launch: block, place in the grid and in the block of each."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    places: Mapping[str, np.ndarray] = field(repr=False)
    block_of: np.ndarray = field(repr=False)

    @property
    def count(self) -> int:
        return len(self.block_of)

    @property
    def blocks(self) -> int:
        return int(np.prod(self.grid))


def lanes_of(kernel: Kernel, values: Mapping[str, int]) -> Lanes:
    """Dimensions of a launch; x is the fastest in grid and block."""
    grid = tuple(evaluate(e, dict(values)) for e in kernel.launch.grid)
    block = tuple(evaluate(e, dict(values)) for e in kernel.launch.block)
    if np.prod(block) > 1024:
        raise Fault(f"{block} is more than 1024 threads")
    shape = (*reversed(grid), *reversed(block))
    numbers = [axis.reshape(-1) for axis in np.indices(shape)]
    names = [*reversed(GRID_TYPES), *reversed(BLOCK_TYPES)]
    places = {kind.name: number for kind, number in zip(names, numbers, strict=True)}
    block_of = np.arange(int(np.prod(shape))) // int(np.prod(block))
    return Lanes(grid, block, places, block_of)


def run_kernel(
    kernel: Kernel,
    values: Mapping[str, float],
    memory: Mapping[str, Memory],
    *,
    alignment: Mapping[str, int] | None = None,
    seed: int = 0,
) -> None:
    """Run a kernel; results are left in `memory`.

    Args:
        values: sizes, strides, user's scalars and launch symbols by name.
        memory: inputs and outputs by name.
        alignment: bytes that addresses are multiples of, 16 where absent.
        seed: order in which the blocks arrive at grid reductions.
    """
    numbers = {name: v for name, v in values.items() if isinstance(v, int)}
    for expr, divisor in kernel.requirements:
        if evaluate(expr, numbers) % divisor:
            raise Fault(f"the launch needs {expr!r} to be a multiple of {divisor}")
    for name, size in kernel.alignments:
        if (alignment or {}).get(name, 16) % size:
            raise Fault(f"the launch needs {name} to be aligned to {size} bytes")
    lanes = lanes_of(kernel, numbers)
    if lanes.count:
        _Machine(kernel, values, dict(memory), lanes, seed).run()


def _derived(kernel: Kernel, numbers: Mapping[str, int]) -> dict[str, int]:
    """The scalars that a launch works out: for divisions, and what sizes alone decide."""
    found: dict[str, int] = {}
    for reciprocal in kernel.reciprocals:
        magic, shift = Reciprocal.values(evaluate(reciprocal.divisor, dict(numbers)))
        found |= {reciprocal.magic.name: magic, reciprocal.shift.name: shift}
    for symbol, value in kernel.derived:
        found[symbol.name] = evaluate(value, {**numbers, **found})
    return found


class _Machine:
    def __init__(
        self,
        kernel: Kernel,
        values: Mapping[str, float],
        memory: dict[str, Memory],
        lanes: Lanes,
        seed: int,
    ) -> None:
        self._kernel = kernel
        self._lanes = lanes
        self._numbers = {name: v for name, v in values.items() if isinstance(v, int)}
        self._threads = np.arange(lanes.count)
        self._may_touch = not kernel.early
        self._arrival = np.random.default_rng(seed).permutation(lanes.blocks)
        self._names = {name: sure(place) for name, place in lanes.places.items()}
        in_block = (lanes.places[kind.name] for kind in BLOCK_TYPES)
        self._names[ELECTED.name] = sure(np.logical_and.reduce([at == 0 for at in in_block]))
        given = {**values, **_derived(kernel, self._numbers)}
        for symbol in kernel.scalars:
            kind = np.int64 if symbol.dtype is DataType.Index else NUMPY_TYPES[symbol.dtype]
            self._names[symbol.name] = sure(np.asarray(given[symbol.name]).astype(kind))
        bits = 32 if kernel.index_type is DataType.Int32 else 64
        self._value = Evaluator(self._names, self._load, bits, lanes.count)
        self._memory = memory
        self._shared = [self._new(b, lanes.blocks) for b in kernel.shared]
        self._peers = Peers(lanes.grid, kernel.launch.cluster, int(np.prod(lanes.block)))
        self._names[RANK] = sure(self._peers.ranks[lanes.block_of])
        for shared in self._shared:
            self._peers.watch(shared)
        self._alignments = dict(kernel.alignments)
        self._products = Products(lanes.block_of, int(np.prod(lanes.block)))

    def run(self) -> None:
        self._all(self._kernel.body, None)
        self._products.end()
        self._peers.end()

    def _all(self, statements: tuple[Statement, ...], mask: Mask) -> None:
        for statement in statements:
            if statement.collective and mask is not None and not mask.all():
                raise Fault(f"{type(statement).__name__} is reached by some threads only")
            self._one(statement, mask)

    def _one(self, statement: Statement, mask: Mask) -> None:
        match statement:
            case Comment() | AdmitNext():
                pass
            case AwaitPrevious():
                self._may_touch = True
            case Declare(buffer=buffer):
                self._new(buffer, self._lanes.count)
                self._products.declared(buffer)
            case Let(symbol=symbol, value=value):
                self._names[symbol.name] = self._value(value, mask)
            case TakeTile(symbol=symbol, count=count, target=target, index=index):
                if count != integers.ZERO:
                    raise Fault("tiles are handed out to roles, which do not run here")
                number = self._arrival[self._lanes.block_of]
                self._names[symbol.name] = sure(number)
                self._store(target, index, sure(number.astype(np.int32)), mask)
            case ReadTile(symbol=symbol, source=source, index=index):
                number = self._load(Element(source, index), mask)
                self._names[symbol.name] = Cell(number.data.astype(np.int64), number.defined)
            case For():
                self._loop(statement, mask)
            case If(condition=condition, body=body):
                test = self._value(condition, mask)
                if not np.all(test.where(mask).defined):
                    raise Fault(f"the condition {condition!r} was never computed")
                inner = narrowed(mask, test, self._lanes.count)
                if inner is None or inner.any():
                    self._all(body, inner)
            case Store(buffer=buffer, index=index, value=value):
                self._store(buffer, index, self._typed(value, buffer, mask), mask)
            case Accumulate(carry=carry, buffers=buffers, index=index, part=part, ahead=ahead):
                old = tuple(self._load(Element(b, index), mask) for b in buffers)
                pairs = zip(part, buffers, strict=True)
                sides = (old, tuple(self._typed(p, b, mask) for p, b in pairs))
                new = combine(carry, *(reversed(sides) if ahead else sides))
                for buffer, cell in zip(buffers, new, strict=True):
                    self._store(buffer, index, cell, mask, update=True)
            case CopyVector():
                self._copy(statement, mask)
            case WelfordStep():
                self._welford_step(statement, mask)
            case Reduce():
                self._reduce(statement)
            case ScanElements():
                self._scan(statement)
            case Synchronize():
                for memory in self._shared:
                    memory.barrier()
                self._products.barrier()
            case SynchronizeCluster():
                self._one(Synchronize(), mask)
                self._peers.met()
            case AnnounceStart():
                self._peers.announced()
            case AwaitStart():
                self._peers.awaited()
            case StoreRemote(buffer=buffer, index=index, value=value, rank=rank):
                cell = self._typed(value, buffer, mask)
                self._store(buffer, index, cell, mask, rank=rank)
            case LoadRemote(target=target, target_index=to, source=source):
                element = Element(source, statement.source_index)
                self._store(target, to, self._load(element, mask, rank=statement.rank), mask)
            case FenceProxy():
                if mask is not None and not mask.all():
                    raise Fault("FenceProxy is reached by some threads only")
                self._products.fence_proxy()
            case FenceProducts():
                self._products.fence()
            case CommitProducts():
                self._products.commit()
            case AwaitProducts():
                self._products.wait(statement)
            case Multiply():
                self._multiply(statement)
            case StoreMatrix():
                self._store_matrix(statement)
            case LoadMatrix():
                self._load_matrix(statement)
            case MultiplyByWarp():
                self._multiply_by_warp(statement)
            case _:
                raise Fault(f"{type(statement).__name__} cannot be run")

    # --- memory --------------------------------------------------------------------------------

    def _new(self, buffer: Buffer, rows: int) -> Memory:
        size = evaluate(buffer.size, self._numbers)
        memory = self._memory[buffer.name] = Memory(buffer, rows, size)
        return memory

    def _rows(self, buffer: Buffer) -> np.ndarray:
        if buffer.memory is MemoryType.local:
            return self._threads
        if buffer.memory is MemoryType.shared:
            return self._lanes.block_of
        return np.zeros_like(self._threads)

    def _places(
        self, buffer: Buffer, index: Expr, mask: Mask, lane: int = 0, rank: Expr | None = None
    ) -> tuple[Memory, np.ndarray, np.ndarray]:
        """(memory, flat place and number of each thread that takes part)."""
        if buffer.memory is MemoryType.global_ and not self._may_touch:
            raise Fault(f"{buffer.name} is touched before the kernel before may have ended")
        memory = self._memory[buffer.name]
        data = np.broadcast_to(self._value.index(index, mask), (self._lanes.count,)) + lane
        threads, rows = self._threads, self._rows(buffer)
        if rank is not None:
            ranks = np.broadcast_to(self._value.index(rank, mask), (self._lanes.count,))
            taking_part = ranks if mask is None else np.where(mask, ranks, 0)
            rows = self._peers.rows(rows, taking_part)
        if mask is not None:
            data, threads, rows = data[mask], threads[mask], rows[mask]
        memory.check_inside(data)
        return memory, rows * memory.size + data, threads

    def _load(self, element: Element, mask: Mask, lane: int = 0, rank: Expr | None = None) -> Cell:
        memory, places, threads = self._places(element.buffer, element.index, mask, lane, rank)
        if element.buffer.memory is MemoryType.local:
            self._products.touched(element.buffer)
        return self._spread(memory.load(places, threads), mask)

    def _spread(self, cell: Cell, mask: Mask) -> Cell:
        """Cells of some threads, as cells of all; the others' are undefined."""
        if mask is None:
            return cell
        data = np.zeros(self._lanes.count, cell.data.dtype)
        defined = np.zeros(self._lanes.count, np.bool_)
        data[mask], defined[mask] = cell.data, cell.defined
        return Cell(data, defined)

    def _store(
        self,
        buffer: Buffer,
        index: Expr,
        cell: Cell,
        mask: Mask,
        *,
        update: bool = False,
        lane: int = 0,
        rank: Expr | None = None,
    ) -> None:
        memory, places, threads = self._places(buffer, index, mask, lane, rank)
        action = memory.update if update else memory.store
        action(places, threads, cell.where(mask))
        if buffer.memory is MemoryType.local:
            self._products.touched(buffer)
        if buffer.memory is MemoryType.shared:
            self._products.stored(memory, places)

    def _typed(self, value: Expr, buffer: Buffer, mask: Mask) -> Cell:
        if value.dtype is not buffer.dtype:
            raise Fault(f"{value!r} is {value.dtype}, and {buffer.name} is {buffer.dtype}")
        return self._value(value, mask)

    # --- statements ----------------------------------------------------------------------------

    def _loop(self, loop: For, mask: Mask) -> None:
        """Each thread goes round as often as its own extent says."""
        extents = np.broadcast_to(self._value.index(loop.extent, mask), (self._lanes.count,))
        if mask is not None:
            extents = np.where(mask, extents, 0)
        for number in range(int(extents.max(initial=0))):
            self._names[loop.symbol.name] = sure(number)
            inside = extents > number
            self._all(loop.body, mask if inside.all() else inside)

    def _copy(self, copy: CopyVector, mask: Mask) -> None:
        sides = ((copy.target, copy.target_index), (copy.source, copy.source_index))
        if copy.target.dtype is not copy.source.dtype:
            raise Fault(f"{copy.target.name} and {copy.source.name} differ in type")
        for buffer, index in sides:
            base = sure(self._value.index(index, mask)).where(mask).data
            if buffer.memory is MemoryType.local:
                continue
            if np.any(base % copy.width):
                raise Fault(f"{buffer.name}[{index!r}] is not aligned to {copy.width} elements")
            needed = min(copy.width * buffer.dtype.size, 16)
            known = self._alignments.get(buffer.name, 1)
            if buffer.memory is MemoryType.global_ and known % needed:
                raise Fault(f"{buffer.name} is moved by {needed} bytes, and aligned to {known}")
        for lane in range(copy.width):
            cell = self._load(Element(copy.source, copy.source_index), mask, lane)
            self._store(copy.target, copy.target_index, cell, mask, lane=lane)

    def _welford_step(self, step: WelfordStep, mask: Mask) -> None:
        """Values meet one triple each under one count, or all the same triple."""
        if step.batch is not None:
            self._welford_batch(step, step.batch, mask)
            return
        old = self._load(Element(step.count, step.count_index), mask)
        one = old.data.dtype.type(1)
        count = Cell(old.data + one, old.defined)
        for lane, value in enumerate(step.values):
            place = 0 if step.joined else lane
            buffers = (step.mean, step.m2)
            mean, m2 = (self._load(Element(b, step.index), mask, place) for b in buffers)
            new = welford_step(mean, m2, count, self._typed(value, step.mean, mask))
            for buffer, cell in zip(buffers, new, strict=True):
                self._store(buffer, step.index, cell, mask, update=True, lane=place)
            if step.joined and lane + 1 < len(step.values):
                count = Cell(count.data + one, count.defined)
        self._store(step.count, step.count_index, count, mask, update=True)

    def _welford_batch(self, step: WelfordStep, batch: WelfordBatch, mask: Mask) -> None:
        """Collect distances to a shift; the last step of a batch moves mean and m2 by them."""
        number = int(self._value.index(batch.step, mask))
        values = [self._typed(value, step.mean, mask) for value in step.values]
        count = self._load(Element(step.count, step.count_index), mask)
        added = batch.steps * (len(values) if step.joined else 1)
        for lane in range(1 if step.joined else len(values)):
            mine = values if step.joined else values[lane : lane + 1]
            mean, m2 = (
                self._load(Element(b, step.index), mask, lane) for b in (step.mean, step.m2)
            )
            places = [(b, integers.ZERO) for b in (batch.shift, batch.sum, batch.squares)]
            if number == 0:
                collected = open_batch(mine, mean, count, joined=step.joined)
            else:
                collected = tuple(self._load(Element(b, at), mask, lane) for b, at in places)
            collected = collect(collected, mine)
            results = list(zip(places, collected, strict=True))
            if number == batch.steps - 1:
                moved = close_batch(collected, m2, count, added)
                triple = [(b, step.index) for b in (step.mean, step.m2)]
                results += zip(triple, moved, strict=True)
            for (buffer, at), cell in results:
                self._store(buffer, at, cell, mask, update=True, lane=lane)
        if number == batch.steps - 1:
            total = Cell(count.data + count.data.dtype.type(added), count.defined)
            self._store(step.count, step.count_index, total, mask, update=True)

    def _reduce(self, reduce: Reduce) -> None:
        for buffer in reduce.buffers:
            if buffer.memory is not MemoryType.local:
                raise Fault(f"{buffer.name} is reduced across threads, and is not in registers")
        self._check_room(reduce)
        for lane in range(reduce.elements):
            elements = [Element(buffer, reduce.index) for buffer in reduce.buffers]
            cells = tuple(self._load(element, None, lane) for element in elements)
            cells, last = reduce_across(reduce, self._lanes, cells, self._arrival)
            for buffer, cell in zip(reduce.buffers, cells, strict=True):
                self._store(buffer, reduce.index, cell, None, lane=lane)
        if reduce.last is not None:
            self._names[reduce.last.name] = last

    def _scan(self, scan: ScanElements) -> None:
        for buffer in (*scan.buffers, *scan.states):
            if buffer.memory is not MemoryType.local:
                raise Fault(f"{buffer.name} is scanned, and is not in registers")
        values = [
            tuple(self._load(Element(b, scan.index), None, lane) for b in scan.buffers)
            for lane in range(scan.elements)
        ]
        running = tuple(self._load(Element(b, scan.state_index), None) for b in scan.states)
        row, part = self._lanes.block_of, self._lanes.block_of * 0
        if scan.block_number is not None:
            row, part = np.divmod(self._each(scan.block_number), self._each(scan.parts))
            self._check_words(scan)
        found, running = scan_across(scan, self._lanes, values, running, row, part)
        for lane, cells in enumerate(found):
            for buffer, cell in zip(scan.buffers, cells, strict=True):
                self._store(buffer, scan.index, cell, None, lane=lane)
        for buffer, cell in zip(scan.states, running, strict=True):
            self._store(buffer, scan.state_index, cell, None)

    def _check_words(self, scan: ScanElements) -> None:
        """A word for each block, and states of all its rows."""
        from warpsmith.kernel.scratch import kept_threads, state_room

        assert scan.workspace is not None
        assert scan.semaphore is not None
        x, y, z = (axis in scan.block_axes for axis in BLOCK_TYPES)
        blocks, states = self._lanes.blocks, kept_threads((x, y, z), self._lanes.block)
        states *= blocks * state_room(scan.carry)[1]
        for buffer, elements in ((scan.workspace, states), (scan.semaphore, blocks)):
            if evaluate(buffer.size, self._numbers) != elements:
                raise Fault(f"{buffer.name} has not room for {elements}, and no more")

    def _check_room(self, reduce: Reduce) -> None:
        """Scratch and workspace are as large as the prelude's functions need."""
        from warpsmith.kernel.scratch import (
            block_reduce_scratch,
            grid_workspace_elements,
            kept_threads,
            state_room,
        )

        block, grid = self._lanes.block, self._lanes.grid
        reduced = tuple(axis in reduce.block_axes for axis in BLOCK_TYPES)
        parts = state_room(reduce.carry)[1]
        needed = [(reduce.scratch, parts * block_reduce_scratch(reduce.elements, reduced, block))]
        if reduce.workspace is not None and reduce.semaphore is not None:
            split = [axis in reduce.grid_axes for axis in GRID_TYPES]
            splits = int(np.prod([n for n, gone in zip(grid, split, strict=True) if gone]))
            segments = self._lanes.blocks // splits
            kept = kept_threads(reduced, block)
            size = grid_workspace_elements(reduce.elements, kept, splits, segments)
            needed += [(reduce.workspace, parts * size), (reduce.semaphore, segments)]
        for buffer, elements in needed:
            size = evaluate(buffer.size, self._numbers)
            if size < elements:
                raise Fault(f"{buffer.name} has {size} elements, and {elements} are needed")

    # --- matrices ------------------------------------------------------------------------------

    def _each(self, index: Expr) -> np.ndarray:
        """An index in every thread."""
        return np.broadcast_to(self._value.index(index, None), (self._lanes.count,))

    def _operand(self, tile: MatrixTile) -> Operand:
        return Operand(tile, self._memory[tile.buffer.name], self._each(tile.index))

    def _multiply(self, product: Multiply) -> None:
        sums, index = self._memory[product.accumulators.name], self._each(product.index)
        a, b, keep = self._operand(product.a), self._operand(product.b), product.keep
        self._products.multiply(product, sums, index, a, b, self._value(keep, None))

    def _store_matrix(self, store: StoreMatrix) -> None:
        """Each element goes to the row that one lane names, and counts as stored by that lane."""
        target, starts = self._memory[store.target.name], self._each(store.target_index)
        if np.any(starts % 8):
            raise Fault(f"a row of {store.target.name} starts at no multiple of 16 bytes")
        for element in range(8):
            cell = self._load(Element(store.source, store.source_index), None, element)
            named, half = matrix_lanes(self._threads, element)
            places = starts[named] + 2 * (self._threads % 4) + half
            target.check_inside(places)
            places = places + self._rows(store.target) * target.size
            target.store(places, self._threads, cell)
            self._products.stored(target, places)

    def _load_matrix(self, load: LoadMatrix) -> None:
        """Each element comes from the row that one lane names."""
        source, starts = self._memory[load.source.name], self._each(load.source_index)
        if np.any(starts * load.source.dtype.size % 16):
            raise Fault(f"a row of {load.source.name} starts at no multiple of 16 bytes")
        for element in range(load.elements):
            named, place = loaded_lanes(self._threads, load.matrices, element)
            places = starts[named] + place
            source.check_inside(places)
            places = places + self._rows(load.source) * source.size
            cell = source.load(places, self._threads)
            self._store(load.target, load.target_index, cell, None, lane=element)

    def _multiply_by_warp(self, product: MultiplyByWarp) -> None:
        def held(buffer: Buffer, index: Expr, count: int) -> list[Cell]:
            return [self._load(Element(buffer, index), None, each) for each in range(count)]

        def operand(side: Fragment) -> list[Cell]:
            return held(side.buffer, side.index, side.count)

        old = held(product.sums, product.index, product.registers)
        for number, cell in enumerate(by_warp(old, operand(product.a), operand(product.b))):
            self._store(product.sums, product.index, cell, None, update=True, lane=number)
