"""Programs of one product, to run on the simulator and to hold against float64."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from warpsmith import FusionDefinition, knobs

Array = np.ndarray


def values(shape: Sequence[int], seed: int, dtype: Any = ml_dtypes.bfloat16) -> Array:
    """Fresh numbers of -2 to 2."""
    return np.random.default_rng([*shape, seed]).uniform(-2, 2, shape).astype(dtype)


def wide(array: Array) -> Array:
    return array.astype(np.float64)


def run(
    inputs: Sequence[Array], body: Callable[..., Any], schedulers: Sequence[str] = ("matmul",)
) -> list[Array]:
    """What a kernel of each of the schedulers gives on the simulator.

    `body(ops, *inputs)` gives a tensor, or a tuple of them.
    """
    with FusionDefinition() as fd:
        result = body(fd.ops, *(fd.from_pytorch(array) for array in inputs))
        for tensor in result if isinstance(result, tuple) else (result,):
            fd.add_output(tensor)
    with knobs.scope(device="sim"):
        results = list(fd.execute(list(inputs)))
    assert re.findall(r"scheduler +(\w+)", fd.explain()) == list(schedulers)
    return results


def close(result: Array, wanted: Array, depth: int) -> None:
    """Hold what was made of sums of `depth` products of numbers up to 2 against float64.

    One rounding to the result's type, and what sums in float of any order lose.
    """
    eps = float(ml_dtypes.finfo(result.dtype).eps)
    assert result.shape == wanted.shape
    allowed = eps * np.abs(wanted) + 2.0**-21 * 4 * depth
    worst = np.max(np.abs(wide(result) - wanted) - allowed, initial=-1.0)
    assert worst <= 0, f"{worst} beyond what rounding allows"
