"""Random products with strided operands, batches, epilogues and outputs of all kinds."""

import random
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.product_programs import run, wide
from warpsmith import DataType

Array = np.ndarray
OUTPUTS = (DataType.BFloat16, DataType.Half, DataType.Float, DataType.Double, DataType.Bool)


@dataclass(frozen=True)
class Program:
    """A product of `arrays[0]` and the transpose of `arrays[1]`, and what follows it.

    `steps` name what is done to it, with the array that is added where one is.
    """

    arrays: list[Array]
    steps: list[tuple[str, int]]
    outputs: list[DataType]
    order: list[int]
    """The product's dimensions as the outputs have them."""

    def body(self, ops: Any, *tensors: Any) -> Any:
        made = ops.matmul(tensors[0], ops.transpose(tensors[1]))
        for step, place in self.steps:
            made = ops.add(made, tensors[place]) if place else getattr(ops, step)(made)
        kinds = [
            ops.gt(made, 0.0) if dtype is DataType.Bool else ops.cast(made, dtype)
            for dtype in self.outputs
        ]
        return tuple(ops.permute(tensor, self.order) for tensor in kinds)

    def meaning(self) -> Array:
        known = {"relu": lambda a: np.maximum(a, 0), "tanh": np.tanh, "neg": np.negative}
        made = wide(self.arrays[0]) @ wide(self.arrays[1]).swapaxes(-1, -2)
        for step, place in self.steps:
            made = made + wide(self.arrays[place]) if place else known[step](made)
        return made.transpose(self.order)


def drawn(seed: int) -> Program:
    source = random.Random(seed)
    batches = [source.choice((1, 2, 3)) for _ in range(source.choice((0, 0, 1, 2)))]
    m, n = (source.choice((2, 7, 17, 64, 65, 130)) for _ in "mn")
    k = source.choice((8, 13, 40, 64, 72, 130))
    alone = [] if source.random() < 0.3 else batches
    arrays = [operand(source, (*batches, m, k)), operand(source, (*alone, n, k))]
    whole = (*batches, m, n)
    steps = []
    for _ in range(source.randrange(4)):
        step = source.choice(("relu", "tanh", "neg", "residual", "bias", "row"))
        shapes = {"residual": whole, "bias": (n,), "row": (*[1] * len(batches), m, 1)}
        steps.append((step, len(arrays) if step in shapes else 0))
        if step in shapes:
            arrays.append(beside(source, shapes[step]))
    order = list(range(len(whole)))
    if source.random() < 0.3:
        source.shuffle(order)
    outputs = [source.choice(OUTPUTS) for _ in range(source.choice((1, 1, 2)))]
    return Program(arrays, steps, outputs, order)


def numbers(source: random.Random, shape: tuple[int, ...], dtype: Any) -> Array:
    return np.random.default_rng(source.getrandbits(32)).uniform(-2, 2, shape).astype(dtype)


def operand(source: random.Random, shape: tuple[int, ...]) -> Array:
    """Rows of a multiple of 16 bytes, of which the first elements count, in any order."""
    slower = list(range(len(shape) - 1))
    if source.random() < 0.5:
        source.shuffle(slower)
    pitch = -(-shape[-1] // 8) * 8 + source.choice((0, 0, 8))
    lying = numbers(source, (*(shape[d] for d in slower), pitch), ml_dtypes.bfloat16)
    places = [slower.index(d) for d in range(len(slower))]
    return lying[..., : shape[-1]].transpose([*places, len(slower)])


def beside(source: random.Random, shape: tuple[int, ...]) -> Array:
    """An array that lies in memory in any way."""
    dtype = source.choice((ml_dtypes.bfloat16, np.float32))
    if source.random() < 0.3:
        return numbers(source, (*shape[:-1], shape[-1] + 3), dtype)[..., 1 : shape[-1] + 1]
    order = list(range(len(shape)))
    source.shuffle(order)
    lying = numbers(source, tuple(shape[d] for d in order), dtype)
    return lying.transpose([order.index(d) for d in range(len(shape))])


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "seed", [*range(16), *(pytest.param(s, marks=pytest.mark.slow) for s in range(16, 200))]
)
def test_a_random_program(seed: int) -> None:
    program = drawn(seed)
    wanted = program.meaning()
    for result, dtype in zip(run(program.arrays, program.body), program.outputs, strict=True):
        assert result.shape == wanted.shape
        if dtype is DataType.Bool:
            clear = np.abs(wanted) > 0.1
            np.testing.assert_array_equal(result[clear], wanted[clear] > 0)
        else:
            np.testing.assert_allclose(wide(result), wanted, rtol=2**-7, atol=2**-7)
