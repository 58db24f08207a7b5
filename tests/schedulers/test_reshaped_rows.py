"""Rows that a reshape makes of inputs: which kernels have them, and what loads them ahead."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import warpsmith
from warpsmith import knobs, ops
from warpsmith.errors import PlanWarning

ROWS, LENGTH = (4, 9), 256
COUNT = ROWS[0] * ROWS[1]

Form = Callable[[Any], Any]


def backward(x: Any, dy: Any, w: Any) -> tuple[Any, Any]:
    """Of an RMSNorm: the input's gradient, and the weight's, which sums columns."""
    root = ops.rsqrt(ops.mean(x * x, [-1], keepdim=True) + 1.0)
    along = ops.mean(dy * w * x, [-1], keepdim=True)
    gradient = root * dy * w - x * (root * root * root) * along
    return gradient, ops.sum(dy * x * root, list(range(x.rank - 1)))


def rows(x: Any) -> Any:
    return ops.reshape(x, [-1, LENGTH])


IN_ORDER: dict[str, tuple[tuple[int, ...], Form]] = {
    "rows of two dimensions": ((*ROWS, LENGTH), rows),
    "a row of two": ((COUNT, 4, LENGTH // 4), rows),
    "all of one": ((COUNT * LENGTH,), rows),
}
TORN: dict[str, tuple[tuple[int, ...], Form]] = {
    "rows in another order": ((ROWS[1], ROWS[0], LENGTH), lambda x: rows(ops.transpose(x, 0, 1))),
    "across memory": ((ROWS[0], LENGTH, ROWS[1]), lambda x: rows(ops.transpose(x, 1, 2))),
    "in pieces": ((4, COUNT, LENGTH // 4), lambda x: rows(ops.transpose(x, 0, 1))),
    "in another order behind a reshape": (
        (16, COUNT // 4 * LENGTH),
        lambda x: rows(ops.transpose(ops.reshape(x, [16, -1, LENGTH]), 0, 1)),
    ),
    "of elements in another order": (
        (*ROWS, LENGTH),
        lambda x: rows(ops.transpose(ops.reshape(x, [-1, 16, LENGTH // 16]), 1, 2)),
    ),
    "of one dimension to two": ((COUNT, LENGTH), lambda x: ops.reshape(x, [4, -1, LENGTH])),
}


@pytest.fixture(autouse=True)
def _no_plan_fails() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", PlanWarning)
        yield


def compiled(shape: tuple[int, ...], form: Form, **asked: Any) -> Any:
    """The kernels of inputs that are all reshaped, right under several orders of warps."""
    draw = np.random.default_rng(0)
    x, dy = (draw.random(shape, dtype=np.float32) for _ in range(2))
    w = draw.random(LENGTH, dtype=np.float32)
    fused = warpsmith.fuse(lambda x, dy, w: backward(form(x), form(dy), w))
    with knobs.scope(device="sim", **asked):
        made = fused.lower(x, dy, w).compile()
        assert warpsmith.verify(fused, [x, dy, w], schedules=2).verdict == "clean"
    return made


@pytest.mark.few(2)
@pytest.mark.parametrize("role", [False, True])
@pytest.mark.parametrize("case", IN_ORDER)
def test_rows_that_lie_in_order_are_loaded_ahead(case: str, role: bool) -> None:
    text = compiled(*IN_ORDER[case], rings="prefer", warp_specialize=role).explain()
    first, *_ = text.split("kernel 1:")
    assert "scheduler   inner_outer" in first
    assert "ring        ring0" in first
    assert ("load to compute" in first) == role


@pytest.mark.few(1)
@pytest.mark.parametrize("case", TORN)
def test_rows_that_lie_anywhere_are_loaded_by_threads(case: str) -> None:
    text = compiled(*TORN[case], rings="prefer").explain()
    first, *_ = text.split("kernel 1:")
    assert "scheduler   inner_outer" in first
    assert "ring        ring0" not in first
    assert "T0 is reshaped to rows, which may lie anywhere in it" in first
