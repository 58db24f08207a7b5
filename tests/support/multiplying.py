"""What the interpreter does for products of matrices: those on their way, and what may touch them.

All warp groups run in step, so the groups of products that are on their way are those of all.
Registers that take part are undefined until a wait names them; what a product reads must be
fenced if threads wrote it, and may not be written until the product is done and threads have met.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tests.sim.support.fragments import TABLES, Place, accumulator
from tests.support.memory import Cell, Fault, Memory
from warpsmith.kernel.nodes import Buffer
from warpsmith.kernel.products import AwaitProducts, MatrixTile, Multiply
from warpsmith.layouts.matrices import Matrices
from warpsmith.targets.atoms import ROWS

GROUP, WARP = 128, 32
ROW_BYTES = 32
"""Bytes of a row that one product multiplies."""
TENSOR_CORES = -3
"""What reads operands, as if it were a thread; it is none of the block's."""


@dataclass
class Batch:
    """Products that are awaited together: places that they read, registers that they write."""

    reads: list[tuple[Memory, np.ndarray]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Operand:
    """A matrix tile, the memory that it lies in, and its index in each thread."""

    tile: MatrixTile
    memory: Memory
    index: np.ndarray


class Products:
    """Products on their way.

    Args:
        rows: of shared memory, for each thread: the number of its block.
        threads: of a block.
    """

    def __init__(self, rows: np.ndarray, threads: int) -> None:
        self._rows = rows
        self._whole = threads % GROUP == 0
        self._open = Batch()
        self._batches: list[Batch] = []
        self._results: dict[str, tuple[Memory, np.ndarray]] = {}
        """Registers that no wait has named yet, and which will be defined then."""
        self._touched: set[str] = set()
        """Registers that threads accessed since the last fence."""
        self._unfenced: dict[str, np.ndarray] = {}
        """Shared elements that threads wrote since the last proxy fence."""

    # --- what threads do -----------------------------------------------------------------------

    def declared(self, buffer: Buffer) -> None:
        """Registers came into being."""
        self._results.pop(buffer.name, None)
        self._touched.add(buffer.name)

    def touched(self, buffer: Buffer) -> None:
        """Threads accessed registers."""
        if buffer.name in self._results:
            raise Fault(f"{buffer.name} is accessed, and its products were not awaited for it")
        self._touched.add(buffer.name)

    def stored(self, memory: Memory, places: np.ndarray) -> None:
        """Threads wrote shared memory."""
        nothing = np.zeros(len(memory.data), np.bool_)
        self._unfenced.setdefault(memory.buffer.name, nothing)[places] = True

    def fence_proxy(self) -> None:
        self._unfenced.clear()

    def barrier(self) -> None:
        """Threads have met; products on their way go on reading."""
        for batch in (*self._batches, self._open):
            for memory, places in batch.reads:
                _read(memory, places)

    def end(self) -> None:
        if self._open.reads or any(batch.reads for batch in self._batches):
            raise Fault("the kernel ends while products are on their way")

    # --- statements ----------------------------------------------------------------------------

    def fence(self) -> None:
        self._touched.clear()

    def commit(self) -> None:
        self._batches.append(self._open)
        self._open = Batch()

    def wait(self, statement: AwaitProducts) -> None:
        done = max(len(self._batches) - statement.pending, 0)
        self._batches = self._batches[done:]
        busy = {name for batch in (*self._batches, self._open) for name in batch.results}
        for buffer in statement.accumulators:
            if buffer.name in self._results and buffer.name not in busy:
                memory, defined = self._results.pop(buffer.name)
                memory.defined[:] = defined

    def multiply(
        self, product: Multiply, sums: Memory, index: np.ndarray, a: Operand, b: Operand, keep: Cell
    ) -> None:
        """One product of each warp group.

        Args:
            index: of the first accumulator in each thread.
        """
        name, count, columns = sums.buffer.name, len(self._rows), product.columns
        if not self._whole:
            raise Fault("a product is for whole warp groups")
        if name in self._touched:
            raise Fault(f"{name} was accessed, and no fence stands before the product into it")
        if columns not in range(8, 257, 8):
            raise Fault(f"no product has {columns} columns")
        (left, left_defined), (right, right_defined) = self._read(a, ROWS), self._read(b, columns)
        places = index[:, None] + np.arange(columns // 2)
        sums.check_inside(places)
        places = places + np.arange(count)[:, None] * sums.size
        known = self._results.setdefault(name, (sums, sums.defined.copy()))[1]
        added = np.broadcast_to(keep.data, count)[:, None]
        defined = _fragments(left_defined.all(2)[:, :, None] & right_defined.all(2)[:, None, :])
        known[places] = defined & keep.defined & (known[places] | ~added)
        new = _fragments(np.einsum("grk,gck->grc", left, right))
        old = np.where(added, sums.data[places].astype(np.float64), 0.0)
        sums.data[places] = (old + new).astype(np.float32)
        sums.defined[places] = False
        self._open.results.append(name)

    def _read(self, operand: Operand, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Elements, and whether they are defined, by warp group, row and place in it."""
        tile, memory = operand.tile, operand.memory
        name, size, swizzle = tile.buffer.name, tile.dtype.size, tile.descriptor.swizzle
        if tile.buffer.alignment % (8 * swizzle):
            raise Fault(f"eight rows of {name} start at no multiple of their bytes")
        by_group = operand.index.reshape(-1, GROUP)
        if np.any(by_group != by_group[:, :1]):
            raise Fault(f"the threads of a warp group disagree about where {name} starts")
        if np.any(by_group * size % 16):
            raise Fault(f"{name} starts at no multiple of 16 bytes")
        places = by_group[:, :1, None] + np.arange(rows)[:, None] * (swizzle // size)
        places = places + np.arange(ROW_BYTES // size)
        places ^= places // (128 // size) % (swizzle // 16) * (16 // size)
        memory.check_inside(places)
        places = places + self._rows[::GROUP, None, None] * memory.size
        if name in self._unfenced and self._unfenced[name][places].any():
            raise Fault(f"{name} was written, and no proxy fence stands before the product of it")
        flat = places.reshape(-1)
        cell = _read(memory, flat)
        self._open.reads.append((memory, flat))
        return cell.data.astype(np.float64).reshape(places.shape), cell.defined.reshape(
            places.shape
        )


def _read(memory: Memory, places: np.ndarray) -> Cell:
    return memory.load(places, np.full(places.shape, TENSOR_CORES))


def _fragments(values: np.ndarray) -> np.ndarray:
    """Values by warp group, row and column, as each thread holds them: [thread, register]."""
    thread, register = np.arange(GROUP)[:, None], np.arange(values.shape[2] // 2)
    rows = 16 * (thread // WARP) + 8 * (register // 2 % 2) + thread % WARP // 4
    columns = 8 * (register // 4) + 2 * (thread % 4) + register % 2
    return values[:, rows, columns].reshape(-1, len(register))


def matrix_lanes(thread: np.ndarray, element: int) -> tuple[np.ndarray, int]:
    """Where `stmatrix` puts one of a thread's eight elements.

    Returns:
        The thread that says where the element's row lies, and the place in that row, whose second
        half of the pair is one on: row `lane / 4` of matrix `element / 2`.
    """
    lane = thread % WARP
    return thread - lane + element // 2 * 8 + lane // 4, element % 2


def loaded_lanes(
    thread: np.ndarray, matrices: Matrices, element: int
) -> tuple[np.ndarray, np.ndarray]:
    """Which thread names the row of one of a thread's elements that `ldmatrix` loads, and where in
    that row it lies.
    """
    lane, (number, part) = thread % WARP, divmod(element, matrices.each)
    row, place = lane // 4, lane % 4 * matrices.each + part
    if matrices.transposed:
        row, place = place, row
    return thread - lane + 8 * number + row, place


def by_warp(sums: list[Cell], a: list[Cell], b: list[Cell]) -> list[Cell]:
    """Sums of all threads after one `mma.sync`, by the manual's tables; as exact as doubles are."""
    bits = 8 * a[0].data.dtype.itemsize
    (m, k, table) = next(
        (m, k, table)
        for (size, m, k), table in TABLES.items()
        if (size, table.a_count, table.b_count) == (bits, len(a), len(b))
    )
    left, left_defined = _whole(a, table.a, (m, k))
    right, right_defined = _whole(b, table.b, (k, 8))
    place = accumulator(m, 8)[1]
    old, known = _whole(sums, place, (m, 8))
    new = old + left @ right
    defined = known & left_defined.all(2)[:, :, None] & right_defined.all(1)[:, None, :]
    found = []
    for number, cell in enumerate(sums):
        rows, columns = _places(place, number)
        values, sure = (each[:, rows, columns].reshape(-1) for each in (new, defined))
        found.append(Cell(values.astype(cell.data.dtype), sure))
    return found


def _whole(
    cells: list[Cell], place: Place, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """A matrix of each warp in doubles, and which of its elements are defined."""
    warps = len(cells[0].data) // WARP
    data, defined = np.zeros((warps, *shape)), np.zeros((warps, *shape), np.bool_)
    for number, cell in enumerate(cells):
        rows, columns = _places(place, number)
        data[:, rows, columns] = cell.data.astype(np.float64).reshape(warps, WARP)
        defined[:, rows, columns] = cell.defined.reshape(warps, WARP)
    return data, defined


def _places(place: Place, number: int) -> tuple[np.ndarray, np.ndarray]:
    found = [place(lane // 4, lane % 4, number) for lane in range(WARP)]
    return np.array([row for row, _ in found]), np.array([column for _, column in found])
