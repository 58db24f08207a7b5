"""Calls on the simulator: results, refusals, and what it says of a kernel that is wrong."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from warpsmith import DataType, knobs, ops
from warpsmith.errors import DefinitionError, SimulationError
from warpsmith.frontends.definition import FusionDefinition

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@pytest.fixture(autouse=True)
def on_the_simulator() -> Any:
    with knobs.scope(device="sim"):
        yield


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype(dtype)


def scale_and_sum(x: Any, factor: Any) -> Any:
    return x * factor, (x * factor).sum([0])


def test_results_are_those_of_the_reference() -> None:
    x, factor = normal(37, 130, dtype=BFLOAT16), normal(130, dtype=BFLOAT16)
    scaled, total = warpsmith.fuse(scale_and_sum)(x, factor)
    wide = x.astype(np.float64) * factor.astype(np.float64)
    np.testing.assert_allclose(scaled.astype(np.float64), wide, rtol=2**-8)
    np.testing.assert_allclose(total.astype(np.float64), wide.sum(0), rtol=2**-8, atol=2**-6)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[:, 3:],
        lambda a: a[::2],
        lambda a: a.T,
        lambda a: a[1:2],
        lambda a: a[:0],
    ],
    ids=["offset", "strided", "transposed", "one row", "no row"],
)
def test_views_are_read_where_they_lie(view: Any) -> None:
    x = view(normal(12, 11))
    y = warpsmith.fuse(lambda x: x * 2.0 + 1.0)(x)
    np.testing.assert_array_equal(y, x * np.float32(2) + np.float32(1))


def test_numbers_are_arguments() -> None:
    x = normal(5, 7)
    y = warpsmith.fuse(lambda x, s: x * s)(x, 3.0)
    np.testing.assert_array_equal(y, x * np.float32(3))


def test_an_alias_is_written_into() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], contiguity=True)
        fd.add_output(fd.ops.add(x, 1.0), x)
    given = normal(4, 6)
    expected = given + 1
    assert fd.execute([given]) == []
    np.testing.assert_array_equal(given, expected)


def test_intermediate_results_pass_between_kernels() -> None:
    x = normal(9, 33)
    centred = warpsmith.fuse(lambda x: x - ops.mean(ops.sum(x, [1], keepdim=True), [0]))(x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(centred, wide - wide.sum(1).mean(), rtol=1e-5, atol=1e-5)


def test_verify_reports_each_kernel_under_each_schedule() -> None:
    fused = warpsmith.fuse(scale_and_sum)
    inputs = [normal(16, 64), normal(64)]
    before = [array.copy() for array in inputs]
    verification = warpsmith.verify(fused, inputs, schedules=5)
    assert verification.verdict == "clean"
    assert [len(report.schedules) for report in verification.reports] == [5] * len(
        fused.lower(*inputs).compile().kernels
    )
    assert verification.to_json()["verdict"] == "clean"
    for array, old in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(array, old)


def test_verify_takes_a_definition() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], contiguity=True)
        fd.add_output(fd.ops.sum(x, [1]))
    assert fd.verify([normal(6, 40)]).verdict == "clean"
    assert warpsmith.verify(fd, [normal(3, 5)]).verdict == "clean"


def test_verify_refuses_what_is_no_fusion() -> None:
    with pytest.raises(DefinitionError, match=r"WS0158.*type int.*FusionDefinition"):
        warpsmith.verify(3, [])


def row_sums(x: Any) -> Any:
    return ops.sum(x, [1])


def edited(folder: Path, x: np.ndarray, old: str, new: str) -> Any:
    """The fused row sums with a line of their CUDA changed."""
    fused = warpsmith.fuse(row_sums)
    (kernel,) = fused.lower(x).compile().kernels
    assert old in kernel.cuda
    (folder / f"{kernel.name}.cu").write_text(kernel.cuda.replace(old, new))
    return warpsmith.fuse(row_sums)


def test_a_race_in_edited_cuda_is_found(tmp_path: Path) -> None:
    x = normal(4, 5000)
    with knobs.scope(override_dir=tmp_path):
        broken = edited(tmp_path, x, "__syncthreads();", "")
        with pytest.raises(SimulationError, match=r"(?s)WS0820.*not clean.*race") as caught:
            broken(x)
        assert "st.shared" in str(caught.value)
        assert "ld.shared" in str(caught.value)
        kinds = {f.kind for f in broken.lower(x).compile().verify().reports[0].findings}
        assert "race" in kinds
    np.testing.assert_allclose(warpsmith.fuse(row_sums)(x), x.sum(1), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("old", "new", "output", "values"),
    [
        ("+ 1.0f", "+ (block_x == 3 ? 1.01f : 1.0f)", "output 0", "8 of 360 elements differ"),
        ("ws_above((", "block_x == 3 || ws_above((", "output 1", "got True, expected False"),
        ("ws_store_by_pairs(T1 +", "if (grid_x) ws_store_by_pairs(T1 +", "output 0", "got nan"),
    ],
)
def test_a_wrong_result_in_edited_cuda_is_found(
    tmp_path: Path, old: str, new: str, output: str, values: str
) -> None:
    """Threads do what they may, and what comes of it is not what the program means."""
    x = np.linspace(-3, 1, 360, dtype=np.float32).reshape(9, 40)

    def program(x: Any) -> Any:
        return x + 1.0, ops.gt(x, 0.5)

    (kernel,) = warpsmith.fuse(program).lower(x).compile().kernels
    assert old in kernel.cuda
    (tmp_path / f"{kernel.name}.cu").write_text(kernel.cuda.replace(old, new))
    with knobs.scope(override_dir=tmp_path):
        verification = warpsmith.verify(warpsmith.fuse(program), [x], schedules=3)
    assert verification.verdict == "findings"
    (finding,) = verification.reports[0].findings
    assert finding.kind == "wrong-output"
    assert finding.schedule == "round-robin"
    assert output in finding.message
    assert values in finding.message
    assert "worst at (0, " in finding.message
    assert warpsmith.verify(warpsmith.fuse(program), [x], schedules=3).verdict == "clean"


def test_results_that_rounding_decides_are_right() -> None:
    """In float the sum of a row is 0.5 or not; in float64 it is less."""
    x = np.zeros((4, 8), np.float32)
    x[:, 0], x[1, 1] = 0.5, -(2.0**-27)

    def program(x: Any) -> Any:
        return ops.ge(ops.sum(x, [1]), 0.5)

    np.testing.assert_array_equal(warpsmith.fuse(program)(x), [True] * 4)
    assert warpsmith.verify(warpsmith.fuse(program), [x], schedules=2).verdict == "clean"


def test_doubles_that_come_of_floats_are_as_close_as_floats() -> None:
    def program(x: Any) -> Any:
        wide = ops.cast(x, DataType.Double)
        return ops.cast(ops.sum(x, [1]), DataType.Double), ops.sum(wide, [1])

    assert warpsmith.verify(warpsmith.fuse(program), [normal(9, 333)]).verdict == "clean"


@pytest.mark.parametrize(
    ("precision", "dtype"), [("tf32", np.float32), ("fast", ml_dtypes.float8_e4m3fn)]
)
def test_products_that_need_not_be_exact_are_right(precision: Any, dtype: Any) -> None:
    """What tensor cores may round was held against what floats lose: a wrong output."""
    x, w = normal(40, 96, dtype=dtype), normal(16, 96, dtype=dtype)
    product = warpsmith.fuse(lambda x, w: ops.linear(x, w, precision=precision))
    found = product.lower(x, w).compile().verify(schedules=1)
    assert str(found).startswith("matmul_")
    assert "by_threads" not in str(found)
    assert found.verdict == "clean", str(found)


def test_the_last_kernel_that_writes_an_output_is_the_one_that_is_judged() -> None:
    def program(x: Any) -> Any:
        row = ops.sum(x, [1], keepdim=True)
        return row, x - ops.mean(row, [0])

    assert (
        warpsmith.verify(warpsmith.fuse(program), [normal(9, 33)], schedules=2).verdict == "clean"
    )


def test_random_numbers_are_held_against_the_meaning_too() -> None:
    def program(x: Any, seed: Any) -> Any:
        return ops.dropout(x, 0.5, rng_seed=seed, rng_offset=0)

    found = warpsmith.verify(warpsmith.fuse(program), [normal(9, 33), 7], schedules=2)
    assert found.verdict == "clean", str(found)


def test_an_endless_loop_in_edited_cuda_ends(tmp_path: Path) -> None:
    x = normal(4, 5000)
    with knobs.scope(override_dir=tmp_path):
        line = "const int block_x = threadIdx.x;"
        stuck = edited(tmp_path, x, line, f"{line} while (block_x == 3) {{ __syncwarp(8u); }}")
        with pytest.raises(SimulationError, match="deadlock"):
            stuck(x)


@pytest.mark.parametrize("shape", [(6, 40), (9, 24)])
def test_loads_stay_under_the_condition_that_keeps_them_in_bounds(shape: tuple[int, int]) -> None:
    """The factor is the same in every pass; NVVM had moved its load before the condition."""

    def both(x: Any, factor: Any) -> Any:
        scale = ops.exp(factor)
        product = x * scale
        return ops.sum(product, [0]) + scale, product

    x, factor = normal(*shape), normal(shape[1], dtype=BFLOAT16)
    total, product = warpsmith.fuse(both)(x, factor)
    scale = np.exp(factor.astype(np.float64))
    np.testing.assert_allclose(product, x * scale, rtol=1e-5)
    np.testing.assert_allclose(total, (x * scale).sum(0) + scale, rtol=1e-4, atol=1e-4)
