"""Means and variances of rows of bfloat16: sums of distances to an element, in one pass."""

from typing import Any

import numpy as np
import pytest

import warpsmith
from bench import norms
from bench.batch_norm import batch_norm
from bench.images import Images
from bench.row_shapes import plan
from warpsmith import knobs, ops
from warpsmith.ir.dtypes import DataType
from warpsmith.runtime.arrays import NUMPY_DTYPES
from warpsmith.schedulers.rows.candidate import FEW_SPILLS
from warpsmith.schedulers.rows.params import RowParams

FLOAT, BF16 = DataType.Float, NUMPY_DTYPES["bfloat16"]


def normalized(x: Any) -> Any:
    wide = x.to(FLOAT)
    variance, mean = ops.var_mean(wide, [-1], 0, True)
    return (wide - mean) * ops.rsqrt(ops.add(variance, 1e-6))


def narrow(x: Any) -> Any:
    return normalized(x).to(x.dtype)


def of_sums(x: Any) -> Any:
    return normalized(x + x).to(x.dtype)


def text(program: Any, dtype: Any, columns: int = 4096, rows: int = 3000) -> str:
    with knobs.scope(target="h200"):
        compiled = warpsmith.fuse(program).lower(np.empty((rows, columns), dtype)).compile()
    (kernel,) = compiled.kernels
    return str(kernel.asm["cuda"]).split("__launch_bounds__")[1]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("program", "dtype", "meetings"),
    [
        (narrow, BF16, 1),
        (narrow, np.float16, 2),
        (narrow, np.float32, 2),
        (normalized, BF16, 2),
        (of_sums, BF16, 2),
    ],
)
def test_threads_meet_once_where_all_is_of_bfloat16(
    program: Any, dtype: Any, meetings: int
) -> None:
    """Not where results have more digits than one pass has, nor for rows that are computed."""
    assert text(program, dtype).count("ws_block_reduce<") == meetings


def test_rows_in_pieces_have_two_passes() -> None:
    with knobs.scope(target="h200"):
        launch = plan(batch_norm(Images(4, 128, 70, False), "bfloat16")).launches[0]
    assert isinstance(launch.params, RowParams)
    assert "= T0[" not in str(launch.compiled.asm["cuda"])


def test_nothing_is_divided() -> None:
    """A quotient's rare cases are a call, around which ptxas moves nothing. Floats keep the mean's
    last digit.
    """
    assert " / " not in text(narrow, BF16)
    assert " / " in text(narrow, np.float32)


def test_the_element_is_asked_for_before_the_row() -> None:
    """Behind weights it would be waited for as long as for them."""
    kernel = text(narrow, BF16)
    assert kernel.index("= T0[") < kernel.index("ws_load<")


@pytest.mark.parametrize(("columns", "passes"), [(64, 2), (128, 2), (192, 1), (736, 1), (1064, 2)])
def test_lanes_with_several_rows_or_many_accesses_have_two_passes(
    columns: int, passes: int
) -> None:
    """An element that is read apart is one access more: 245708 rows of 64 took 25.9 microseconds
    with it, 21.7 without, 14208 of 1064 23.7 and 21.8 (H200).
    """
    kernel = text(narrow, BF16, columns, 30000)
    assert kernel.count("ws_block_reduce<") == passes
    assert ("= T0[" in kernel) == (passes == 1)


@pytest.mark.parametrize("which", [0, 1])
def test_one_moment_alone(which: int) -> None:
    """Of lanes that would have two passes for both."""

    def program(x: Any) -> Any:
        wide = x.to(FLOAT)
        return (wide - ops.var_mean(wide, [-1], 0, True)[which]).to(x.dtype)

    x = np.random.default_rng(which).standard_normal((6, 64)).astype(BF16)
    with knobs.scope(device="sim"):
        found = np.asarray(warpsmith.fuse(program)(x)).astype(np.float64)
    exact = x.astype(np.float64)
    moment = exact.mean(1, keepdims=True) if which else exact.var(1, keepdims=True)
    np.testing.assert_allclose(found, exact - moment, rtol=2.0**-7, atol=1e-3)


@pytest.mark.parametrize("columns", [64, 520, 1001, 1064])
def test_no_row_is_too_hard(columns: int) -> None:
    """Far from 0, of one value, with an outlier in the place that distances are taken to."""
    x = np.random.default_rng(columns).standard_normal((6, columns))
    x[1] += 1000
    x[2] = 3.3
    x[3, 0] = 1e4
    x[4] *= 1e-3
    x[4, 0] = -7
    x[5] = np.where(np.arange(columns) % 2, 100, 99.5)
    given = x.astype(BF16)
    with knobs.scope(device="sim"):
        found = np.asarray(warpsmith.fuse(narrow)(given)).astype(np.float64)
    wide = given.astype(np.float64)
    centered = wide - wide.mean(1, keepdims=True)
    expected = centered / np.sqrt(wide.var(1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(found, expected, rtol=2.0**-8, atol=1e-3)


def test_rows_that_are_not_finite() -> None:
    x = np.ones((3, 520))
    x[0, 0], x[1, 100], x[2, 519] = np.inf, np.inf, np.nan
    with knobs.scope(device="sim"):
        found = np.asarray(warpsmith.fuse(narrow)(x.astype(BF16))).astype(np.float32)
    assert np.isnan(found).all()


@pytest.mark.parametrize(("rows", "columns"), [(3463, 7648), (5512, 19448)])
def test_what_is_widened_is_not_kept(rows: int, columns: int) -> None:
    """Kept as floats, these rows spilled 24 and 88 bytes; then their last loads came late."""
    with knobs.scope(target="h200"):
        kernel = plan(norms.layer_norm(rows, columns, "bfloat16")).launches[0].compiled
    assert kernel.n_spills <= FEW_SPILLS
    lines = str(kernel.asm["sass"]).splitlines()
    places = [number for number, line in enumerate(lines) if "LDG.E" in line and ".128" in line]
    first = next(number for number, line in enumerate(lines) if "FADD" in line)
    assert places[4] < first, "five loads of a row, of which the last is masked"
