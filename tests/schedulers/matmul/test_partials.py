"""Reductions of what is computed of a product, which its kernel begins: right, and clean."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from tests.support.begun import all_begun
from tests.support.product_programs import forcing
from warpsmith import DataType, knobs, ops
from warpsmith.engine import fitting

M, N, K = 300, 264, 72
"""Rows, columns and k that tiles and steps do not divide."""

RNG = np.random.default_rng(3)
FLOAT, BFLOAT = DataType.Float, DataType.BFloat16


@pytest.fixture(autouse=True)
def _begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "faster", all_begun)


def drawn(*shape: int, dtype: Any = ml_dtypes.bfloat16) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def rounded(value: Any) -> Any:
    """What is stored, and the same in Float: past the end of the result it is 1, and no 0."""
    stored = ops.cast(ops.add(ops.relu(ops.cast(value, FLOAT)), 1.0), BFLOAT)
    return stored, ops.cast(stored, FLOAT)


def run(body: Callable[..., Any], *given: Any) -> tuple[list[Any], Any]:
    """Results in double of kernels that are clean under orders of warps; what was compiled."""
    with knobs.scope(device="sim"):
        fused = warpsmith.fuse(body)
        compiled = fused.lower(*given).compile()
        verified = compiled.verify(schedules=2)
        found = [np.asarray(each, np.float64) for each in fused(*given)]
    assert verified.verdict == "clean", verified
    return found, compiled


def of_tiles(compiled: Any) -> list[str]:
    """The tensors that pass from the product's kernel to others."""
    return [line.split()[2] for line in compiled.explain().splitlines() if line.startswith("cut")]


STRATEGIES: dict[str, dict[str, Any]] = {
    "shared tiles": {"tile": (128, 128, 64), "chunk": 64, "stages": 4},
    "turns": {"tile": (128, 128, 64), "chunk": 64, "stages": 4, "ping_pong": 2, "blocks": 2},
    "two passes": {"tile": (256, 64, 64), "chunk": 64, "passes": 2, "stages": 3},
    "a cluster": {"tile": (64, 64, 64), "chunk": 32, "cluster": (2, 1), "stages": 4},
    "three groups, more stages": {
        "tile": (192, 96, 64),
        "chunk": 32,
        "stages": 3,
        "store_stages": 3,
    },
    "turns of three": {"tile": (64, 48, 64), "chunk": 16, "stages": 4, "ping_pong": 3, "blocks": 1},
}
ALONE = {"splits": 1, "parts": 1, "stream": False, "ping_pong": 0, "cluster": (1, 1), "lines": 1}
force = forcing(**ALONE, passes=1, store_stages=2, group=1, blocks=3)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", STRATEGIES)
def test_strategies(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Sums of rows and of columns, of which those past the ends are left out."""
    force(monkeypatch, **STRATEGIES[name])

    def body(x: Any, w: Any) -> Any:
        stored, wide = rounded(ops.linear(x, w))
        return stored, ops.sum(wide, [0]), ops.max(ops.abs(wide), [1])

    x, w = drawn(M, K), drawn(N, K)
    (result, columns, rows), compiled = run(body, x, w)
    wanted = np.maximum(x.astype(np.float64) @ w.astype(np.float64).T, 0) + 1
    np.testing.assert_allclose(result, wanted, rtol=2**-7)
    np.testing.assert_allclose(columns, result.sum(0), rtol=1e-6)
    np.testing.assert_array_equal(rows, result.max(1))
    high, wide, _ = STRATEGIES[name]["tile"]
    part = STRATEGIES[name]["chunk"] // 2
    tiles = -(-M // high), -(-N // wide)
    assert of_tiles(compiled) == [
        f"float[{N},{tiles[0]},{high // 64},{64 // part}],",
        f"float[{M},{tiles[1]},4],",
    ]


PROGRAMS: dict[str, tuple[Any, list[int], tuple[int, ...]]] = {
    "columns of three dimensions": ((3, 70, K), [0, 1], ()),
    "rows of three dimensions": ((3, 70, K), [2], ()),
    "batches, their columns": ((3, 70, K), [1], (3,)),
    "batches, all columns": ((3, 70, K), [0, 1], (3,)),
    "batches, all of them": ((3, 70, K), [0, 1, 2], (3,)),
    "one row and a tile": ((129, K), [0], ()),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_which_dimensions_are_reduced(name: str) -> None:
    shape, dims, batches = PROGRAMS[name]

    def body(x: Any, w: Any) -> Any:
        stored, wide = rounded(ops.matmul(x, w) if batches else ops.linear(x, w))
        return stored, ops.sum(wide, dims)

    x, w = drawn(*shape), drawn(*batches, K, 136) if batches else drawn(136, K)
    (result, total), compiled = run(body, x, w)
    np.testing.assert_allclose(total, result.sum(tuple(dims)), rtol=1e-6)
    assert all(each.startswith("float") for each in of_tiles(compiled))


def test_rows_that_the_tma_unit_does_not_take() -> None:
    """Threads store what is staged, and read it for sums."""

    def body(x: Any, w: Any) -> Any:
        stored, wide = rounded(ops.linear(x, w))
        return stored, ops.sum(wide, [0]), ops.sum(wide, [1])

    (result, columns, rows), compiled = run(body, drawn(150, K), drawn(135, K))
    np.testing.assert_allclose(columns, result.sum(0), rtol=1e-6)
    np.testing.assert_allclose(rows, result.sum(1), rtol=1e-6)
    assert len(of_tiles(compiled)) == 2


def test_gradients_behind_what_is_loaded() -> None:
    """As of a bias before an activation: a product, what was kept, and the sum of columns."""

    def body(dy: Any, w: Any, kept: Any) -> Any:
        wide = ops.where(kept > 0, ops.cast(ops.matmul(dy, w), FLOAT), 0.0)
        gradient: Any = ops.cast(wide, BFLOAT)
        again: Any = ops.cast(gradient, FLOAT)
        return gradient, ops.sum(again, [0])

    dy, w, kept = drawn(M, K), drawn(K, 136), drawn(M, 136)
    (gradient, bias), compiled = run(body, dy, w, kept)
    np.testing.assert_allclose(bias, gradient.sum(0), rtol=1e-5, atol=1e-5)
    wanted = dy.astype(np.float64) @ w.astype(np.float64) * (kept > 0)
    np.testing.assert_allclose(gradient, wanted, rtol=2**-7, atol=1e-2)
    said = compiled.explain()
    assert said.startswith("2 kernels")
    assert "matmul: threads reduce what they have of a tile, which others join" in said


def test_what_is_no_number_is_the_largest() -> None:
    def body(x: Any, w: Any) -> Any:
        stored, wide = rounded(ops.linear(x, w))
        return stored, ops.max(ops.abs(wide), [0, 1]), ops.max(wide, [1])

    x, w = drawn(70, K), drawn(40, K)
    x[3, 5] = np.nan
    (result, largest, rows), _ = run(body, x, w)
    assert np.isnan(largest)
    assert list(np.flatnonzero(np.isnan(rows))) == [3]
    np.testing.assert_array_equal(rows[4:], result.max(1)[4:])


def test_what_is_not_stored_is_no_source_of_columns() -> None:
    """They are read from what is staged; so is what was rounded to another type."""

    def squares(x: Any, w: Any) -> Any:
        stored, wide = rounded(ops.linear(x, w))
        return stored, ops.sum(wide * wide, [0])

    def unrounded(x: Any, w: Any) -> Any:
        wide: Any = ops.add(ops.cast(ops.linear(x, w), FLOAT), 1.0)
        return ops.cast(wide, DataType.Float8_e4m3fn), ops.sum(wide, [0])

    x, w = drawn(70, K), drawn(48, K)
    for body in (squares, unrounded):
        _, compiled = run(body, x, w)
        assert not any("," in each[:-2] and each.count(",") > 2 for each in of_tiles(compiled))
