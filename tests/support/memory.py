"""Memory of the interpreter: contents, what was written yet, and who touched what.

Local memory has one row per thread, shared memory one per block, global memory one in all. Nothing
is defined until it is written; what is read before carries "undefined" along through arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.kernel.nodes import Buffer

if TYPE_CHECKING:
    from tests.support.clustering import Accesses

NUMPY_TYPES: dict[DataType, np.dtype] = {
    DataType.Double: np.dtype(np.float64),
    DataType.Float: np.dtype(np.float32),
    DataType.Half: np.dtype(np.float16),
    DataType.BFloat16: np.dtype(ml_dtypes.bfloat16),
    DataType.Float8_e4m3fn: np.dtype(ml_dtypes.float8_e4m3fn),
    DataType.Float8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
    DataType.Int: np.dtype(np.int64),
    DataType.Int32: np.dtype(np.int32),
    DataType.Int8: np.dtype(np.int8),
    DataType.Bool: np.dtype(np.bool_),
    DataType.Index: np.dtype(np.int64),
}

NOBODY, SEVERAL = -1, -2


class Fault(AssertionError):
    """The kernel does something that it must not."""


@dataclass(frozen=True)
class Cell:
    """A value per thread, or one for all; `defined` tells where it was ever written."""

    data: np.ndarray
    defined: np.ndarray

    def where(self, mask: np.ndarray | None) -> Cell:
        """The cells of some threads only."""
        if mask is None:
            return self
        return Cell(_pick(self.data, mask), _pick(self.defined, mask))


def _pick(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return values[mask] if values.ndim else values


ALWAYS = np.bool_(True)


def sure(data: object, dtype: np.dtype | None = None) -> Cell:
    """A defined value."""
    return Cell(np.asarray(data, dtype), ALWAYS)


class Memory:
    """Contents of one buffer in all its rows.

    Args:
        buffer: what it is.
        rows: threads, blocks or 1.
        size: elements of a row.

    Attributes:
        between: what blocks of a cluster do to it; None without clusters.
    """

    def __init__(self, buffer: Buffer, rows: int, size: int) -> None:
        self.buffer = buffer
        self.size = size
        self.data = np.zeros(rows * size, NUMPY_TYPES[buffer.dtype])
        self.defined = np.zeros(rows * size, np.bool_)
        self.between: Accesses | None = None
        watched = buffer.memory is not MemoryType.local
        self._writer = np.full(rows * size if watched else 0, NOBODY)
        self._reader = np.full(rows * size if watched else 0, NOBODY)

    def load(self, places: np.ndarray, threads: np.ndarray) -> Cell:
        """Read flat places, one for each thread."""
        if self.between is not None:
            self.between.read(places, threads)
        if self.buffer.memory is MemoryType.shared:
            writer = self._writer[places]
            self._expect(
                (writer == NOBODY) | (writer == threads),
                places,
                "RAW: read without a barrier after another thread wrote it",
            )
            reader = self._reader[places]
            alone = (reader == NOBODY) | (reader == threads)
            self._reader[places] = np.where(alone, threads, SEVERAL)
            self._reader[places[self._reader[places] != threads]] = SEVERAL
        return Cell(self.data[places], self.defined[places])

    def store(self, places: np.ndarray, threads: np.ndarray, cell: Cell) -> None:
        """Write flat places, one for each thread."""
        buffer = self.buffer
        data = np.broadcast_to(cell.data, places.shape)
        defined = np.broadcast_to(cell.defined, places.shape)
        if buffer.memory is MemoryType.global_:
            if not buffer.written:
                raise Fault(f"{buffer.name} is an input and is written")
            self._expect(defined, places, "gets a value that was never computed")
            self._expect(self._writer[places] == NOBODY, places, "is written a second time")
            self._writer[places] = threads
            self._expect(self._writer[places] == threads, places, "is written by two threads")
        if self.between is not None:
            self.between.write(places, threads)
        if buffer.memory is MemoryType.shared:
            reader, writer = self._reader[places], self._writer[places]
            self._expect(
                (reader == NOBODY) | (reader == threads),
                places,
                "WAR: written without a barrier after another thread read it",
            )
            same = _equal(self.data[places], data) & self.defined[places]
            mine = (writer == NOBODY) | (writer == threads)
            self._expect(mine | same, places, "WAW: written by two threads without a barrier")
            self._writer[places] = threads
        self.data[places] = data
        self.defined[places] = defined
        if buffer.memory is MemoryType.shared:
            stored = _equal(self.data[places], data)
            self._expect(stored | ~defined, places, "WAW: gets two values at once")

    def barrier(self) -> None:
        """All threads of all blocks have met: earlier accesses are ordered before later ones."""
        self._writer[:] = NOBODY
        self._reader[:] = NOBODY

    def update(self, places: np.ndarray, threads: np.ndarray, cell: Cell) -> None:
        """Write places that were read just before; two threads may not do that to one element."""
        if self.buffer.memory is not MemoryType.local and len(np.unique(places)) != len(places):
            raise Fault(f"{self.buffer.name} is updated by two threads at once")
        self.store(places, threads, cell)

    def check_inside(self, index: np.ndarray) -> None:
        """Fault for an index outside the row."""
        if index.size and (int(index.min()) < 0 or int(index.max()) >= self.size):
            raise Fault(
                f"{self.buffer.name}[{int(index.min())} .. {int(index.max())}] is out of its "
                f"{self.size} elements"
            )

    def _expect(self, good: np.ndarray, places: np.ndarray, what: str) -> None:
        if not np.all(good):
            place = int(places[np.argmin(np.broadcast_to(good, places.shape))])
            raise Fault(f"{self.buffer.name}[{place % self.size}] {what}")


def _equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Equality in which NaN equals NaN."""
    return np.asarray((a == b) | ((a != a) & (b != b)))
