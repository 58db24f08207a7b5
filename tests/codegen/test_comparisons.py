"""Comparisons with what ptxas believes to know: no number is not above anything."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.machine_code import machine_lines
from warpsmith import knobs, ops

CHOICES: dict[str, Callable[[Any], Any]] = {
    "a square": lambda x: chosen(ops.ge, x * x, 0),
    "above a square": lambda x: chosen(ops.gt, x * x, -1),
    "a magnitude": lambda x: chosen(ops.ge, ops.abs(x), 0),
    "a negative square": lambda x: chosen(ops.le, ops.neg(x * x), 0),
    "above a negative square": lambda x: chosen(ops.lt, ops.neg(x * x), 1),
}


def chosen(question: Callable[[Any, Any], Any], value: Any, bound: float) -> Any:
    """The value if it is a number."""
    return ops.where(question(value, bound), value, -1.5)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CHOICES)
def test_ptxas_leaves_each_comparison_of_floats(name: str) -> None:
    """It took these to be true of NaN, too: the PTX was right, and the machine code was not."""
    x = np.array([np.nan, 1, 2, -0.0] * 32, np.float32)
    with knobs.scope(device="sim"):
        call = warpsmith.fuse(CHOICES[name])
        found = np.asarray(call(x))
        (kernel,) = call.lower(x).compile().kernels
    np.testing.assert_array_equal(found == -1.5, np.isnan(x))
    lines = machine_lines(kernel.binary.cubin, kernel.name)
    loaded = sum(4 if ".128" in line else 1 for line in lines if re.search(r"\bLDG", line))
    assert sum("FSETP" in line for line in lines) == loaded


@pytest.mark.parametrize("extreme", [ops.max, ops.min])
def test_extremes_of_negated_integers_keep_their_signs(extreme: Callable[..., Any]) -> None:
    """ptxas (13.0) makes one instruction of two, in which an operand's minus sign is lost.

    It does not where the order is that of unsigned numbers, of which nothing is the negation.
    """

    def least_distance(x: Any) -> Any:
        away = ops.neg(ops.remainder(x, 16))
        return away - extreme(away, [0], keepdim=True)

    x = np.arange(-9, 55, dtype=np.int32)
    with knobs.scope(device="sim"):
        call = warpsmith.fuse(least_distance)
        found = np.asarray(call(x))
        (kernel,) = call.lower(x).compile().kernels
    np.testing.assert_array_equal(found, -(x % 16) + (0 if extreme is ops.max else 15))
    lines = machine_lines(kernel.binary.cubin, kernel.name)
    joined = [line for line in lines if "MNMX" in line]
    assert joined
    assert all(".U32" in line for line in joined)
