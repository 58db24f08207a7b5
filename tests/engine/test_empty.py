"""Results that have elements are computed in calls in which others have none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warpsmith
from warpsmith import knobs, ops
from warpsmith.errors import ArgumentError
from warpsmith.ir.domains import ParallelType


def beside(x: Any, w: Any) -> tuple[Any, ...]:
    return x * w, ops.neg(w)


def summed(x: Any, w: Any) -> tuple[Any, ...]:
    return x * w, ops.sum(x, [0]) + w, ops.exp(w)


def normed(x: Any, w: Any) -> tuple[Any, ...]:
    return (x - ops.mean(x, [1], keepdim=True)) * w, ops.sum(x * w, [0]), w + 1.0


@pytest.mark.parametrize("function", [beside, summed, normed])
def test_what_has_elements_is_written(function: Callable[..., Any]) -> None:
    x, w = np.ones((0, 12), np.float32), np.arange(12, dtype=np.float32)
    fused = warpsmith.fuse(function)
    with knobs.scope(device="reference"):
        expected = warpsmith.fuse(function)(x, w)
    with knobs.scope(device="sim"):
        found = fused(x, w)
        again = fused(np.ones((3, 12), np.float32), w)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert again[0].shape == (3, 12)


def test_sizes_that_are_0_by_definition() -> None:
    with warpsmith.FusionDefinition() as fd, knobs.scope(device="sim"):
        w = fd.define_tensor(shape=[-1])
        fd.add_output(w * fd.define_tensor(shape=[0, -1]))
        fd.add_output(w)
        _, found = fd.execute([np.ones(5, np.float32), np.ones((0, 5), np.float32)])
    np.testing.assert_array_equal(found, np.ones(5))


def test_a_schedule_by_hand_that_would_leave_a_result_out_is_refused() -> None:
    with warpsmith.FusionDefinition() as fd:
        x, w = fd.define_tensor(shape=[-1, 8]), fd.define_tensor(shape=[8])
        both, alone = x * w, ops.neg(w)
        fd.add_output(both)
        fd.add_output(alone)
    fd.sched.transform_like(both)
    for tensor in (both, alone):
        tensor.axis(0).parallelize(ParallelType.grid_x)
    inputs = [np.ones((0, 8), np.float32), np.ones(8, np.float32)]
    with knobs.scope(device="sim"):
        with pytest.raises(ArgumentError, match="WS0327.*has elements, and the grid of its kernel"):
            fd.manual_execute(inputs)
        _, found = fd.manual_execute([np.ones((2, 8), np.float32), inputs[1]])
    np.testing.assert_array_equal(found, -np.ones(8))


def test_nothing_is_launched_where_all_is_empty() -> None:
    x, w = np.ones((0, 12), np.float32), np.ones(12, np.float32)
    compiled = warpsmith.fuse(lambda x, w: (x * w, x + w)).lower(x, w).compile()
    assert compiled.kernels == ()
