"""Calls in which a product has one row or column: sums, as where the definition says 1."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.engine.executable import Executable
from warpsmith.errors import ArgumentError


def residual(turned: bool) -> FusionDefinition:
    """`x @ w` and a residual, all sizes the call's."""
    with FusionDefinition() as fd:
        x, w, r = (fd.define_tensor([-1, -1], True, DataType.BFloat16) for _ in range(3))
        y = fd.ops.matmul(x, fd.ops.permute(w, [1, 0])) if turned else fd.ops.linear(x, w)
        fd.add_output(fd.ops.cast(fd.ops.add(y, r), DataType.BFloat16))
    return fd


def arguments(m: int, n: int, k: int = 256) -> list[Any]:
    random = np.random.default_rng(0)
    shapes = (m, k), (n, k), (m, n)
    return [random.standard_normal(s).astype(ml_dtypes.bfloat16) for s in shapes]


@pytest.mark.few(3)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("m", "n"), [(1, 72), (64, 1), (8, 72)])
def test_a_product_of_one_row_is_a_reduction(m: int, n: int, turned: bool) -> None:
    x, w, r = given = arguments(m, n)
    fd = residual(turned)
    with knobs.scope(device="sim"):
        (got,) = fd.execute(given)
        (launch,) = Executable(fd.fusion).plan_for(given).launches
    assert launch.compiled.name.startswith("matmul" if m > 1 and n > 1 else "reduction")
    wide = x.astype(np.float64) @ w.astype(np.float64).T + r.astype(np.float64)
    assert got.shape == (m, n)
    np.testing.assert_allclose(got.astype(np.float64), wide, rtol=2**-7, atol=2**-3)


def test_the_same_program_takes_many_rows_behind_one() -> None:
    executable = Executable(residual(False).fusion)
    names = [executable.plan_for(arguments(m, 72)).launches[0].compiled.name for m in (1, 8, 1)]
    assert [name.split("_")[0] for name in names] == ["reduction", "matmul", "reduction"]


def test_sizes_are_asked_for_as_before() -> None:
    x, w, _ = arguments(1, 72)
    r = np.zeros((5, 72), ml_dtypes.bfloat16)
    with knobs.scope(device="sim"), pytest.raises(ArgumentError, match="WS03"):
        residual(False).execute([x, w, r])


def test_a_product_by_group_beside_one_of_a_single_row_keeps_where_groups_end() -> None:
    """Rows behind the last group are 0, of one row, too."""
    with FusionDefinition() as fd:
        x, other = (fd.define_tensor([-1, -1], True, DataType.Float) for _ in range(2))
        weights = fd.define_tensor([-1, -1, -1], True, DataType.Float)
        ends = fd.define_tensor([-1], True, DataType.Int32)
        fd.add_output(fd.ops.grouped_matmul(x, weights, ends))
        fd.add_output(fd.ops.matmul(other, x))
    random = np.random.default_rng(0)
    x, other, weights = (random.standard_normal(s, np.float32) for s in ((1, 1), (2, 1), (1, 2, 1)))
    for end in (0, 1):
        with knobs.scope(device="sim"):
            by_group, plain = fd.execute([x, other, weights, np.array([end], np.int32)])
        np.testing.assert_allclose(by_group, end * (x @ weights[0].T), rtol=1e-6)
        np.testing.assert_allclose(plain, other @ x, rtol=1e-6)
