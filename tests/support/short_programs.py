"""Programs of a few lines, run on the simulator and held against their meaning in float64."""

from collections.abc import Callable
from typing import Any

import numpy as np

from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.runtime.arrays import NUMPY_DTYPES

Body = Callable[..., tuple[Any, ...]]


def check(
    body: Body, *shapes: tuple[tuple[int, ...], list[int]], dtype: DataType = DataType.Float
) -> None:
    """Results on the simulator are those of float64; shapes are (of the call, as defined)."""
    draw = np.random.default_rng(0)
    arrays = [draw.random(shape).astype(NUMPY_DTYPES[dtype.value]) for shape, _ in shapes]
    with FusionDefinition() as fd:
        for result in body(*(fd.define_tensor(shape=d, dtype=dtype) for _, d in shapes)):
            fd.add_output(result)
    with knobs.scope(device="sim"):
        fd.validate(arrays)


def program(
    *shapes: tuple[tuple[int, ...], list[int]], dtype: DataType = DataType.Float
) -> Callable[[Body], Callable[[], None]]:
    """The test that `check`s the program it is written at."""

    def tested(body: Body) -> Callable[[], None]:
        def test() -> None:
            check(body, *shapes, dtype=dtype)

        test.__name__, test.__doc__ = body.__name__, body.__doc__
        return test

    return tested
