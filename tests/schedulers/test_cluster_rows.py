"""Rows that the blocks of a cluster share: which they are, and that they are right."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.schedulers.test_inner_persistent import (
    PROGRAMS,
    Build,
    check_one_kernel,
    inputs_of,
    layer_norm,
    rms_norm,
    softmax,
)
from tests.schedulers.test_persistent_registers import compiled, params_of
from tests.schedulers.test_persistent_results import normalized
from tests.support.launching import values_of
from tests.support.meeting_runs import mutants
from tests.support.simulating import reported
from warpsmith import knobs, ops
from warpsmith.ir.dtypes import DataType
from warpsmith.kernel.clusters import SynchronizeCluster
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.traversal import walk
from warpsmith.lower.pipeline import lower
from warpsmith.runtime import arrays
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows import few, once, role, strategy
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

BF16, HALF, FLOAT = DataType.BFloat16, DataType.Half, DataType.Float


@pytest.fixture
def two_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "CLUSTERS", (2,))
    monkeypatch.setattr(once, "CLUSTER_BYTES", 0)
    monkeypatch.setattr(role, "choose", lambda *given: None)
    monkeypatch.setattr(few, "MOST", 0)  # of many rows the shapes


# --- which rows --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "dtype", "columns", "blocks"),
    [
        (layer_norm, BF16, 32768, 2),
        (layer_norm, BF16, 131072, 8),
        (layer_norm, BF16, 1048576, 16),
        (softmax, BF16, 262144, 8),
        (softmax, BF16, 32768, 1),
        (softmax, FLOAT, 65536, 16),
        (layer_norm, FLOAT, 524288, 16),
        (rms_norm, FLOAT, 65537, 16),
    ],
)
def test_how_many_blocks_have_a_row(
    build: Build, dtype: DataType, columns: int, blocks: int
) -> None:
    params = params_of(build, dtype, columns)
    assert params.cluster == blocks
    covered = params.cluster * params.block_x * params.unroll * params.vector
    assert covered >= columns
    assert params.exact == (covered == columns)
    assert params.block_y == 1
    assert params.rows_per_thread == 1 or params.weights_in_shared


def test_rows_that_no_cluster_holds_are_cut() -> None:
    x = np.zeros((1, 2**20), np.float32)
    words = warpsmith.fuse(normalized).lower(x, x[0], x[0]).compile().explain()
    assert "kernels\n" in words
    assert "do not fit in the registers of 16 blocks" in words


LONG = [
    (BF16, 24576),
    (BF16, 32768),
    (BF16, 65536),
    (BF16, 65537),
    (BF16, 131072),
    (BF16, 262144),
    (BF16, 1048576),
    (FLOAT, 65536),
    (FLOAT, 131071),
    (FLOAT, 131072),
    (FLOAT, 524288),
]
QUICK = ((BF16, 65537), (BF16, 1048576), (FLOAT, 131072))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("dtype", "columns"),
    [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in LONG],
)
@pytest.mark.parametrize("build", [layer_norm, softmax])
def test_hardly_anything_spills(
    build: Build, dtype: DataType, columns: int, tmp_path: Path
) -> None:
    """Ten floats of a norm of floats, one time each, are 40 bytes; all others spill less, but for a
    norm of rows of floats that begin anywhere, since lanes are compared by one difference: 104.
    """
    anywhere = build is layer_norm and dtype is FLOAT and columns % 4 != 0
    assert compiled(build, dtype, columns, tmp_path).n_spills <= (104 if anywhere else 40)


# --- weights that wait in shared memory -----------------------------------------------------------


def with_weights_in_shared(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the first such way in two blocks, with so many rows of a thread."""

    def choose(rows: Rows, problem: Problem) -> RowParams:
        found = once.candidates(rows, problem)
        return next(p for p in found if p.weights_in_shared and p.rows_per_thread == kept)

    monkeypatch.setattr(strategy, "choose", choose)


@pytest.mark.few(2)
@pytest.mark.parametrize("columns", [4096, 4008])
@pytest.mark.parametrize("kept", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_in_shared_memory(
    dtype: str, kept: int, columns: int, two_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of three rows has no other beside it; the second block may have fewer columns."""
    with_weights_in_shared(kept, monkeypatch)
    kind = arrays.NUMPY_DTYPES["bfloat16"] if dtype == "bfloat16" else np.dtype(dtype)
    x = (np.random.default_rng(6).standard_normal((3, columns)) + 1).astype(kind)
    weight, bias = x[0], x[1]
    fused = warpsmith.fuse(normalized)
    compiled = fused.lower(x, weight, bias).compile()
    assert "weights_in_shared=True" in compiled.explain()
    with knobs.scope(device="sim"):
        found = np.asarray(fused(x, weight, bias)[0]).astype(np.float64)
    a, w, b = (t.astype(np.float64) for t in (x, weight, bias))
    expected = (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5) * w + b
    step = 2.0**-8 if dtype == "bfloat16" else 1e-4
    np.testing.assert_allclose(found, expected, rtol=step, atol=1e-4)
    found_clean = warpsmith.verify(fused, [x, weight, bias], schedules=4)
    assert found_clean.verdict == "clean", found_clean


def test_blocks_load_before_all_of_their_cluster_have_started(
    two_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_weights_in_shared(1, monkeypatch)
    x = np.ones((3, 4096), arrays.NUMPY_DTYPES["bfloat16"])
    compiled = warpsmith.fuse(normalized).lower(x, x[0], x[1]).compile()
    (kernel,) = compiled.kernels
    body = str(kernel.asm["cuda"]).split("__launch_bounds__")[1]
    order = ("barriers_ready", "cluster_started", "bulk_load", "ws_load<", "cluster_await_start")
    places = [body.index(f"ws_{name.removeprefix('ws_')}") for name in order]
    assert places == sorted(places)
    assert places[-1] < min(body.index(f"ws_{of}_wait(") for of in ("cluster", "barrier"))
    assert "ws_cluster_meet" not in body


@pytest.mark.parametrize("rings", ["never", "auto"])
def test_weights_that_the_tma_unit_may_not_bring_are_loaded_by_threads(
    rings: str, two_blocks: None
) -> None:
    x = np.ones((3, 131072), arrays.NUMPY_DTYPES["bfloat16"])
    weight = np.ones(131073, x.dtype)[1:] if rings == "auto" else x[0]
    with knobs.scope(rings=rings):
        words = warpsmith.fuse(normalized).lower(x, weight, x[1]).compile().explain()
    assert "weights_in_shared=True" not in words


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("shape", "weights"),
    [((3, 16384), (1, 16384)), ((2, 3, 16384), (3, 16384)), ((2, 3, 16384), (1, 1, 16384))],
)
def test_weights_that_are_not_one_row_are_loaded_by_threads(
    shape: tuple[int, ...], weights: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(8)
    x, w, b = (rng.standard_normal(s).astype(np.float32) for s in (shape, weights, shape[-1:]))
    fused = warpsmith.fuse(normalized)
    assert "weights_in_shared=True" not in fused.lower(x, w, b).compile().explain()
    with knobs.scope(device="sim"):
        found = np.asarray(fused(x, w, b)[0]).astype(np.float64)
    a = x.astype(np.float64)
    mean, variance = a.mean(-1, keepdims=True), a.var(-1, keepdims=True)
    np.testing.assert_allclose(found, (a - mean) / np.sqrt(variance + 1e-5) * w + b, 1e-4, 1e-4)


# --- results -----------------------------------------------------------------------------------


@pytest.mark.few(3)
@pytest.mark.parametrize("shape", [(2, 2203), (1, 4104)])
@pytest.mark.parametrize("build", PROGRAMS)
def test_right_in_two_blocks(build: Build, shape: tuple[int, int], two_blocks: None) -> None:
    dtype = (HALF, FLOAT)[shape[0] - 1]
    p = build(dtype)
    _, kernel = check_one_kernel(p, inputs_of(p, shape), terms=64 * shape[1])
    assert kernel.launch.cluster_blocks == 2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_long_odd_row_through_the_door(dtype: str) -> None:
    kind = arrays.NUMPY_DTYPES["bfloat16"] if dtype == "bfloat16" else np.dtype(dtype)
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((2, 66001)) + 3).astype(kind)
    weight, bias = x[0], x[1]
    fused = warpsmith.fuse(normalized)
    words = fused.lower(x, weight, bias).compile().explain()
    assert "1 kernel\n" in words
    assert "blocks run at once and reach each other's shared memory" in words
    with knobs.scope(device="sim"):
        found = [np.asarray(r).astype(np.float64) for r in fused(x, weight, bias)]
    a, w, b = (t.astype(np.float64) for t in (x, weight, bias))
    mean = a.mean(-1, keepdims=True)
    scale = 1 / np.sqrt(a.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(found[1], mean, rtol=1e-6)
    np.testing.assert_allclose(found[2], scale, rtol=1e-5)
    step = 2.0**-8 if dtype == "bfloat16" else 1e-4
    np.testing.assert_allclose(found[0], (a - mean) * scale * w + b, rtol=step, atol=1e-4)


def test_any_order_of_blocks_is_clean(two_blocks: None) -> None:
    x = np.random.default_rng(2).standard_normal((3, 3000)).astype(np.float32)
    found = warpsmith.verify(warpsmith.fuse(normalized), [x, x[0], x[1]], schedules=16)
    assert found.verdict == "clean", found


def test_row_counts_share_a_kernel_and_none_launches_nothing(two_blocks: None) -> None:

    def softmax_of(x: Any) -> Any:
        e = ops.exp(x - ops.max(x, [-1], True))
        return e / ops.sum(e, [-1], True)

    fused = warpsmith.fuse(softmax_of)
    with knobs.scope(device="sim"):
        for rows in (5, 4, 0):
            x = np.random.default_rng(rows).standard_normal((rows, 2500)).astype(np.float32)
            e = np.exp(x.astype(np.float64))
            np.testing.assert_allclose(fused(x), e / e.sum(-1, keepdims=True), rtol=1e-5)


# --- meetings ----------------------------------------------------------------------------------


def lowered(build: Build, arrays_: dict[str, np.ndarray]) -> tuple[Kernel, dict[str, int]]:
    p = build(FLOAT)
    values = values_of(p.fusion, arrays_)
    candidate = select(p.fusion, H200)
    params, _ = candidate.choose(Problem(values=values, alignment={}, target=H200))
    return lower(candidate.scheduled(params), "rows", DataType.Int32, target=H200), values


def clean(kernel: Kernel, values: dict[str, int], arrays_: dict[str, np.ndarray]) -> bool:
    report = reported(kernel, values, arrays_, schedules=16)
    assert report.verdict != "incomplete"
    return report.verdict == "clean"


@pytest.mark.parametrize(("build", "pipelines"), [(layer_norm, 3), (softmax, 2)])
def test_blocks_meet_nowhere_and_nothing_may_be_left_out(
    build: Build, pipelines: int, two_blocks: None
) -> None:
    """Both exchange twice; the weights of one wait in shared memory."""
    given = inputs_of(build(FLOAT), (2, 2100))
    kernel, values = lowered(build, given)
    assert not any(isinstance(s, SynchronizeCluster) for s in walk(kernel.body))
    assert clean(kernel, values, given)
    fewer = list(mutants(kernel))
    # barriers, the start in two steps; bytes and a wait for each
    assert len(fewer) == 3 + 2 * pipelines
    assert [m.name for m in fewer if clean(m.kernel, values, given)] == []
