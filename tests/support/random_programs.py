"""Random programs for the automatic schedulers: pointwise work, moves, reductions, any layout."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support.program import Program
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.tensor import TensorView

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 33, 40, 64)
TYPES = (
    DataType.Float,
    DataType.Float,
    DataType.BFloat16,
    DataType.Half,
    DataType.Double,
    DataType.Int,
    DataType.Int32,
    DataType.Bool,
)

Dims = tuple[int | None, ...]
"""Which of the program's dimensions each dimension of a tensor is; None is a broadcast one."""


@dataclass
class RandomProgram:
    """A program grown by random steps from one seed; `shapes` are those of its inputs."""

    seed: int
    program: Program = field(default_factory=Program)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._extents = [
            self._random.choice(EXTENTS) for _ in range(self._random.choice((1, 2, 3)))
        ]
        self._pool: list[tuple[TensorView, Dims]] = []
        whole: Dims = tuple(range(len(self._extents)))
        self._pool.append(self._input(whole))
        for _ in range(self._random.randint(0, 2)):
            self._pool.append(self._input(self._part_of(whole)))
        for _ in range(self._random.randint(1, 6)):
            self._step(*self._random.choice(self._pool))
        made = [tensor for tensor, _ in self._pool if not tensor.is_input]
        made = made or [self.program.op("neg", self._float(self._pool[0][0]))]
        chosen = [made[-1], *(t for t in made[:-1] if self._chance(0.35))]
        for tensor in dict.fromkeys(chosen):
            order = self._shuffled(tensor.rank) if self._chance(0.25) else None
            self.program.output(tensor, stride_order=order)

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _shuffled(self, count: int) -> tuple[int, ...]:
        return tuple(self._random.sample(range(count), count))

    def _part_of(self, whole: Dims) -> Dims:
        """All of the dimensions, some of them, or some of them as broadcast ones."""
        match self._random.randint(0, 3):
            case 0:
                return tuple(d for d in whole if self._chance(0.6))
            case 1:
                return tuple(d if self._chance(0.6) else None for d in whole)
        return whole

    def _input(self, dims: Dims) -> tuple[TensorView, Dims]:
        name = self.program.fusion.next_tensor_name
        shape = tuple(1 if d is None else self._extents[d] for d in dims)
        sizes: list[int | None] = [
            1 if d is None else extent if self._chance(0.25) else None
            for d, extent in zip(dims, shape, strict=True)
        ]
        contiguity = None
        if self._chance(0.3):
            contiguity = [None if size == 1 else self._chance(0.6) for size in sizes]
        order = self._shuffled(len(dims)) if self._chance(0.4) else None
        dtype = self._random.choice(TYPES)
        self.shapes[name] = shape
        tensor = self.program.input(dtype, sizes, contiguity=contiguity, stride_order=order)
        return tensor, dims

    def _float(self, tensor: TensorView) -> TensorView:
        wide = tensor.dtype in (DataType.Float, DataType.Double)
        return tensor if wide else self.program.cast(tensor, DataType.Float)

    def _step(self, tensor: TensorView, dims: Dims) -> None:
        steps = [self._unary, self._cast, self._binary, self._binary, self._widen]
        if dims:
            steps += [self._permute, self._reduce, self._reduce, self._welford]
        self._random.choice(steps)(tensor, dims)

    def _unary(self, tensor: TensorView, dims: Dims) -> None:
        name = self._random.choice(("neg", "tanh", "abs"))
        self._pool.append((self.program.op(name, self._float(tensor)), dims))

    def _cast(self, tensor: TensorView, dims: Dims) -> None:
        dtype = self._random.choice((DataType.Float, DataType.Double))
        self._pool.append((self.program.cast(self._float(tensor), dtype), dims))

    def _binary(self, tensor: TensorView, dims: Dims) -> None:
        fitting = [(t, other) for t, other in self._pool if _fit(dims, other)]
        partner, other = self._random.choice(fitting)
        name = self._random.choice(("add", "mul", "sub", "maximum"))
        result = self.program.op(name, self._float(tensor), self._float(partner))
        joined = tuple(b if a is None else a for a, b in zip(dims, other, strict=True))
        self._pool.append((result, joined))

    def _widen(self, tensor: TensorView, dims: Dims) -> None:
        """Add the dimensions that the tensor lacks, where its own are in order."""
        present = [d for d in dims if d is not None]
        if len(present) < len(dims) or sorted(present) != present:
            return
        flags = [d not in present for d in range(len(self._extents))]
        wide = tuple(None if flag else d for d, flag in enumerate(flags))
        self._pool.append((self.program.broadcast(tensor, flags), wide))

    def _permute(self, tensor: TensorView, dims: Dims) -> None:
        order = self._shuffled(len(dims))
        self._pool.append((self.program.permute(tensor, order), tuple(dims[d] for d in order)))

    def _some(self, dims: Dims) -> list[int]:
        chosen = [d for d in range(len(dims)) if self._chance(0.5)]
        return chosen or [self._random.randrange(len(dims))]

    def _reduce(self, tensor: TensorView, dims: Dims) -> None:
        gone = self._some(dims)
        name = self._random.choice(("sum", "max"))
        result = self.program.reduce(name, self._float(tensor), gone)
        self._pool.append((result, _without(dims, gone)))
        if self._chance(0.5):
            wide = self.program.broadcast(result, [d in gone for d in range(len(dims))])
            kept = tuple(None if place in gone else d for place, d in enumerate(dims))
            self._pool.append((wide, kept))

    def _welford(self, tensor: TensorView, dims: Dims) -> None:
        gone = self._some(dims)
        mean, m2, count = self.program.welford(self._float(tensor), gone)
        self._pool.append((mean, _without(dims, gone)))
        self._pool.append((self.program.op("div", m2, count), _without(dims, gone)))


def _fit(a: Dims, b: Dims) -> bool:
    return len(a) == len(b) and all(
        x == y or x is None or y is None for x, y in zip(a, b, strict=True)
    )


def _without(dims: Dims, gone: Sequence[int]) -> Dims:
    return tuple(d for place, d in enumerate(dims) if place not in gone)
