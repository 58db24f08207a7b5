"""Loads by roles of their own, of every kind that goes to shared memory, for schedules by hand."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tests.support.ring_loads import BLOCK_X, TMA, Kind
from warpsmith import DataType, FusionDefinition, MemoryType, ParallelType
from warpsmith.ir.tensor import TensorView

VECTOR = 4
"""Elements that a thread of a synchronous producer stores at once."""


@dataclass(frozen=True)
class Feed:
    """A load of one kind through so many stages, which a role fills."""

    kind: Kind
    stages: int

    def __str__(self) -> str:
        return f"{self.kind.value}-{self.stages}"

    @property
    def by_tma(self) -> bool:
        return self.kind in (Kind.bulk, Kind.tma)

    def copy(self, tensor: TensorView, *readers: TensorView) -> TensorView:
        """A copy of an input in shared memory, which has no stages yet.

        Args:
            readers: that read the copy; all of the input's if none is named.
        """
        copy = tensor.cache_after(op_type=self.kind.op_type, cached_uses=list(readers))
        copy.set_memory_type(MemoryType.shared)
        return copy

    def load(self, tensor: TensorView, role: str = "load", *, ring: str = "") -> TensorView:
        """A copy of an input through stages that a role fills."""
        copy = self.copy(tensor)
        copy.circular_buffer(self.stages, ring=ring, role=role)
        return copy

    def bind(self, copy: TensorView, *, dims: int = 1, vector: int = VECTOR) -> None:
        """Bind the last `dims` loops of a load, its tile, as its kind asks.

        Bulk copies of tiles of more dimensions are one a row; threads walk rows by a loop, of which
        each loads `vector` elements.
        """
        if self.kind is Kind.tma:
            for place in range(-dims, 0):
                copy.axis(place).parallelize(TMA)
        elif self.kind is Kind.bulk:
            copy.axis(-1).parallelize(TMA)
        else:
            if vector > 1:
                copy.split(-1, vector)
                copy.axis(-1).parallelize(ParallelType.vectorize)
            copy.axis(-2 if vector > 1 else -1).parallelize(BLOCK_X)


def defined(
    shapes: Sequence[Sequence[int]],
    meaning: Callable[..., TensorView],
    dtype: DataType = DataType.Float,
) -> tuple[FusionDefinition, list[TensorView], TensorView]:
    """A fusion of inputs of these extents, -1 where calls decide; its inputs, and its output.

    Args:
        meaning: makes the output from the definition and the inputs.
    """
    with FusionDefinition() as fd:
        inputs = [fd.define_tensor(list(shape), True, dtype) for shape in shapes]
        output = meaning(fd, *inputs)
        fd.add_output(output)
    return fd, inputs, output


def others(fd: FusionDefinition, loads: Iterable[TensorView]) -> list[TensorView]:
    """What the fusion computes besides its loads."""
    known = {id(tensor) for tensor in loads}
    return [t for t in fd.fusion.tensors if not t.is_input and id(t) not in known]


def bound_to_threads(tensors: Iterable[TensorView], threads: int) -> None:
    """Divide the last loop of each tensor among threads along x."""
    for tensor in tensors:
        tensor.split(-1, threads)
        tensor.axis(-1).parallelize(BLOCK_X)
