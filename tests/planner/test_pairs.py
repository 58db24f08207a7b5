"""A product and what is behind it: one kernel or two, by what both are priced at."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from tests.support.binaries import uncompiled
from warpsmith import ops
from warpsmith.engine import fitting
from warpsmith.engine.executable import Executable
from warpsmith.planner.decided import Decided
from warpsmith.schedulers.matmul import heuristic as matmul
from warpsmith.schedulers.matmul.room import ONE_RESULT
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H200

BFLOAT = ml_dtypes.bfloat16
MEASURED = (4096, 14336, 4096)
"""m, n and k of the product whose epilogues were timed (redesign of 2026-11-22, one H200)."""


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + ops.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def bias_gelu(x: Any, w: Any, b: Any) -> Any:
    return gelu(ops.linear(x, w) + b)


def residual(x: Any, w: Any, r: Any) -> Any:
    return ops.linear(x, w) + r


def drawn(x: Any, w: Any, r: Any) -> Any:
    dropped, _ = ops.dropout(ops.linear(x, w), 0.1, rng_seed=7, rng_offset=0)
    return dropped + r


def empty(*shape: int, dtype: Any = BFLOAT) -> np.ndarray:
    return np.empty(shape, dtype)


def kernels(program: Callable[..., Any], *arrays: np.ndarray) -> list[str]:
    executable = Executable(warpsmith.fuse(program).lower(*arrays).fusion)
    with uncompiled():
        launches = executable.plan_for(arrays).launches
    return [launch.compiled.name.rpartition("_")[0] for launch in launches]


def one_kernel(program: Callable[..., Any], *arrays: np.ndarray) -> tuple[matmul.Work, Problem]:
    """What the product asks with all that is behind it."""
    with pytest.MonkeyPatch.context() as patch, uncompiled():
        patch.setattr(fitting, "faster", lambda *given: Decided())
        call = Executable(warpsmith.fuse(program).lower(*arrays).fusion).plan_for(arrays)
    (planned,) = call.segments
    assert planned.candidate is not None
    return matmul.work_of(planned.candidate.fusion, call.problem), call.problem


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("of", "turns", "rows", "added"),
    [("gelu", 0, 128, 112), ("gelu", 2, 128, 32), ("late", 0, 128, 230)],
)
def test_what_an_epilogue_adds_is_what_was_measured(
    of: str, turns: int, rows: int, added: float
) -> None:
    """Of tiles of 160 columns; of a residual as threads load it, where rows begin anywhere."""
    m, n, k = MEASURED
    program, third = (bias_gelu, empty(n)) if of == "gelu" else (residual, empty(m, n + 1)[:, 1:])
    work, problem = one_kernel(program, empty(m, k), empty(n, k), third)
    params = next(
        params
        for params in matmul.candidates(m, n, problem)
        if (params.tile[:2], params.ping_pong, params.cluster) == ((rows, 160), turns, (1, 1))
    )
    one = replace(work, operations={"gelu": 24, "late": 0}[of])
    alone = replace(work, operations=0, moved=ONE_RESULT)
    times = [each.predicted(params, H200) for each in (one, alone)]
    assert times[0] - times[1] == pytest.approx(added, rel=0.12)


def test_a_residual_that_is_loaded_ahead_saves_a_kernel() -> None:
    m, n, k = MEASURED
    assert kernels(residual, empty(m, k), empty(n, k), empty(m, n)) == ["matmul"]
    assert kernels(residual, empty(m, k), empty(n, k), empty(n, m).T) == ["matmul", "pointwise"]


def test_an_epilogue_of_few_elements_saves_a_launch() -> None:
    m, n, k = 256, 512, 512
    assert kernels(bias_gelu, empty(m, k), empty(n, k), empty(n)) == ["matmul"]


def test_an_epilogue_that_another_group_multiplies_beside_saves_a_kernel() -> None:
    """Random numbers, too: of 2048 rows one kernel takes 101 us, the product alone 91."""
    m, n, k = MEASURED
    arrays = empty(m, k), empty(n, k)
    assert kernels(bias_gelu, *arrays, empty(n)) == ["matmul"]
    assert kernels(drawn, *arrays, empty(m, n)) == ["matmul"]
    m, n = 2048, 4096
    assert kernels(drawn, empty(m, k), empty(n, k), empty(m, n)) == ["matmul"]


def test_two_kernels_are_to_be_clearly_faster() -> None:
    """Of 2048 rows two are predicted to take 101 us and one 105; one was measured to take 98."""
    m, n, k = 2048, 4096, 4096
    assert kernels(bias_gelu, empty(m, k), empty(n, k), empty(n)) == ["matmul"]


def test_a_cast_of_a_product_is_never_apart() -> None:
    m, n, k = MEASURED
    program = ops.linear
    assert kernels(program, empty(m, k), empty(n, k)) == ["matmul"]


def test_a_product_by_threads_keeps_what_is_behind_it() -> None:
    m, n, k = 4096, 4096, 64
    arrays = (empty(m, k, dtype="f4"), empty(n, k, dtype="f4"), empty(m, n, dtype="f4"))
    assert kernels(residual, *arrays) == ["matmul_by_threads"]


def test_a_product_apart_is_right() -> None:
    rng = np.random.default_rng(5)
    x, w, r = (rng.standard_normal(s).astype(BFLOAT) for s in ((64, 64), (64, 64), (64, 64)))
    fused = warpsmith.fuse(residual)
    everything_apart = Decided(apart=frozenset(range(100)))
    with pytest.MonkeyPatch.context() as patch, warpsmith.knobs.scope(device="sim"):
        patch.setattr(fitting, "faster", lambda *given: everything_apart)
        got = np.asarray(fused(x, w, r)).astype(np.float64)
    want = x.astype(np.float64) @ w.astype(np.float64).T + r.astype(np.float64)
    np.testing.assert_allclose(got, want, atol=0.25, rtol=0.02)


def test_what_tensor_cores_cannot_read_is_copied_where_warps_take_longer_as_it_lies() -> None:
    """`mma.sync` reads rows that begin anywhere: two copies pay for larger products only."""

    def product(size: int) -> list[str]:
        return kernels(ops.matmul, empty(size, size), empty(size, size))

    assert product(127) == ["matmul_by_threads"]
    assert product(4095) == ["pointwise", "pointwise", "matmul"]
