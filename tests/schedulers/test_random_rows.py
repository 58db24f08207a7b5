"""Random programs over rows: reductions of reductions, row results, shared rows, all mixed."""

import random

import pytest

from tests.support.launching import check_segments, random_inputs
from tests.support.program import Program
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.tensor import TensorView
from warpsmith.planner.plan import cut
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

TYPES = (DataType.Float, DataType.BFloat16, DataType.Half)
EXTENTS = ((1, 64), (5, 33), (3, 40), (7, 130), (2, 1056), (19, 8))


class RandomRows:
    """A program grown by random steps from one seed; `shapes` are those of its inputs."""

    def __init__(self, seed: int) -> None:
        self.program = Program()
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._random = random.Random(seed)
        self._rows, self._columns = self._random.choice(EXTENTS)
        self._full = [self._whole()]
        if self._random.random() < 0.5:
            self._full.append(self.program.op("add", self._full[0], self._whole()))
        self._narrow: list[TensorView] = []
        self._shared = [
            self.program.broadcast(self._input((self._columns,)), [True, False])
            for _ in range(self._random.randint(0, 2))
        ]
        for _ in range(self._random.randint(3, 9)):
            self._step()
        self._reduce()
        full, narrow = self._full, self._narrow
        last = self.program.op("add", full[-1], self._wide(narrow[-1]))
        chosen = [t for t in (*full, *narrow) if not t.is_input and self._random.random() < 0.2]
        for tensor in dict.fromkeys((last, *chosen)):
            dtype = self._random.choice((DataType.Float, self._random.choice(TYPES)))
            self.program.output(self.program.cast(self.program.copy(tensor), dtype))

    def _input(self, shape: tuple[int, ...]) -> TensorView:
        tensor = self.program.input(self._random.choice(TYPES), (None,) * len(shape))
        self.shapes[tensor.name] = shape
        return self.program.cast(tensor, DataType.Float)

    def _whole(self) -> TensorView:
        return self._input((self._rows, self._columns))

    def _wide(self, narrow: TensorView) -> TensorView:
        return self.program.broadcast(narrow, [False, True])

    def _step(self) -> None:
        kind = self._random.choice(("unary", "binary", "shared", "narrow", "reduce", "reduce"))
        p, x = self.program, self._random.choice(self._full)
        if kind == "reduce":
            self._reduce()
        elif kind == "unary":
            self._full.append(p.op(self._random.choice(("tanh", "abs", "neg", "sigmoid")), x))
        elif kind == "shared" and self._shared:
            self._full.append(p.op("mul", x, self._random.choice(self._shared)))
        elif kind == "narrow" and self._narrow:
            first = self._random.choice(self._narrow)
            second = self._random.choice((*self._narrow, self._input((self._rows,))))
            self._narrow.append(p.op("add", first, second))
        else:
            other = self._random.choice((*self._full, *map(self._wide, self._narrow)))
            self._full.append(p.op(self._random.choice(("sub", "add", "maximum")), x, other))

    def _reduce(self) -> None:
        p, x = self.program, self._random.choice(self._full)
        kind = self._random.choice(("sum", "max", "min", "welford"))
        if kind == "welford":
            mean, m2, _ = p.welford(x, [1])
            self._narrow += [mean, p.op("mul", m2, 1.0 / self._columns)]
            return
        found = p.reduce(kind, x, [1])
        self._narrow.append(p.op("mul", found, 1.0 / self._columns) if kind == "sum" else found)


@pytest.mark.few(1)
@pytest.mark.parametrize("block", range(5))
def test_one_kernel_and_right(block: int) -> None:
    for seed in range(8 * block, 8 * block + 8):
        made = RandomRows(seed)
        fusion = made.program.fusion
        (part,) = cut(fusion, target=H200)
        assert select(part.fusion, H200, part.refusals).scheduler == "inner_persistent", (
            f"seed {seed}"
        )
        arrays = random_inputs(fusion, made.shapes, seed)
        assert check_segments(fusion, arrays, terms=20000) == 1
