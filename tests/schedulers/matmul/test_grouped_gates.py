"""Gated units of experts: two products of the same rows."""

import warnings
from typing import Any

import ml_dtypes
import numpy as np

from tests.support.grouped import by_group, drawn
from warpsmith import DataType, fuse, ops
from warpsmith.errors import PlanWarning

BFLOAT16 = ml_dtypes.bfloat16


def gated(gate: Any, up: Any) -> Any:
    gate, up = (ops.cast(each, DataType.Float) for each in (gate, up))
    return ops.cast(ops.silu(gate) * up, DataType.BFloat16)


def test_two_products_of_the_same_rows() -> None:
    """Each chose matrices of its own, so no loop had both: three kernels, and a warning."""
    x, w = drawn(120, 64, 72, 3, BFLOAT16)
    v, ends = w[::-1].copy(), np.array([50, 50, 110], np.int32)

    def both(x: Any, w: Any, v: Any, ends: Any) -> Any:
        return gated(*(ops.grouped_matmul(x, each, ends) for each in (w, v)))

    given = x, w, v, ends
    with warnings.catch_warnings():
        warnings.simplefilter("error", PlanWarning)
        compiled = fuse(both).lower(*given).compile()
    assert compiled.explain().startswith("1 kernel\n")
    assert compiled.verify(schedules=2).verdict == "clean"
    y = np.asarray(fuse(both)(*given)).astype(np.float64)
    gate, up = (by_group(x, each, ends) for each in (w, v))
    np.testing.assert_allclose(y, gate / (1 + np.exp(-gate)) * up, rtol=2**-6, atol=2e-2)


def test_two_products_whose_groups_end_elsewhere() -> None:
    """They were tried as one kernel, whose schedule failed with a warning."""
    x, w = drawn(120, 64, 72, 3, BFLOAT16)
    v, ends, others = w[::-1].copy(), np.array([50, 50, 110]), np.array([10, 90, 120])

    def both(x: Any, w: Any, v: Any, ends: Any, others: Any) -> Any:
        return gated(ops.grouped_matmul(x, w, ends), ops.grouped_matmul(x, v, others))

    given = x, w, v, ends, others
    with warnings.catch_warnings():
        warnings.simplefilter("error", PlanWarning)
        y = np.asarray(fuse(both)(*given)).astype(np.float64)
    gate, up = by_group(x, w, ends), by_group(x, v, others)
    np.testing.assert_allclose(y, gate / (1 + np.exp(-gate)) * up, rtol=2**-5, atol=5e-2)
