"""Loads through rings, of every kind, for schedules by hand."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from warpsmith import LoadStoreOpType, MemoryType, ParallelType
from warpsmith.ir.tensor import TensorView

BLOCK_X, BLOCK_Y = ParallelType.block_x, ParallelType.block_y
TMA = ParallelType.tma


class Kind(Enum):
    """What carries a load, and where to."""

    registers = "registers"
    shared = "shared"
    cp_async = "cp_async"
    bulk = "bulk"
    tma = "tma"

    @property
    def op_type(self) -> LoadStoreOpType:
        if self in (Kind.registers, Kind.shared):
            return LoadStoreOpType.set
        return LoadStoreOpType[self.name]


ALL = tuple(Kind)
INTO_SHARED = (Kind.shared, Kind.cp_async, Kind.bulk, Kind.tma)
BY_THREADS = (Kind.registers, Kind.shared, Kind.cp_async)


@dataclass(frozen=True)
class Ring:
    """A load of one kind, through so many stages, so far ahead."""

    kind: Kind
    stages: int
    prefetch: int

    def __str__(self) -> str:
        return f"{self.kind.value}-{self.stages}-{self.prefetch}"

    def load(self, tensor: TensorView, *, ring: str = "") -> TensorView:
        """A copy of an input, to be bound and inlined, which this ring holds."""
        copy = tensor.cache_after(op_type=self.kind.op_type)
        if self.kind is not Kind.registers:
            copy.set_memory_type(MemoryType.shared)
        copy.circular_buffer(self.stages, self.prefetch, ring=ring)
        return copy

    def bind(self, copy: TensorView, threads: int, *, dims: int = 1, adjacent: int = 1) -> None:
        """Bind the last `dims` loops of a load, its tile, as its kind asks.

        Bulk copies of tiles of more dimensions are one a row; `threads` divide the last loop. Where
        other threads may read what one loads, each loads so many `adjacent` elements.
        """
        if self.kind is Kind.tma:
            for place in range(-dims, 0):
                copy.axis(place).parallelize(TMA)
        elif self.kind is Kind.bulk:
            copy.axis(-1).parallelize(TMA)
        elif self.kind is Kind.registers or adjacent == 1:
            split_threads(threads, copy)
        else:
            copy.split(-1, adjacent)
            copy.axis(-2).parallelize(BLOCK_X)


def rings(kind: Kind) -> Iterator[Ring]:
    """Every ring of the matrix."""
    for stages in (2, 4, 5, 9):
        for prefetch in range(stages):
            yield Ring(kind, stages, prefetch)


def bind_last(kind: ParallelType, *tensors: TensorView) -> None:
    """Bind the last loop of each tensor."""
    for tensor in tensors:
        tensor.axis(-1).parallelize(kind)


def split_threads(threads: int, *tensors: TensorView) -> None:
    """Divide the last loop of each tensor among the threads of a block's rows."""
    for tensor in tensors:
        tensor.split(-1, threads)
    bind_last(BLOCK_X, *tensors)
