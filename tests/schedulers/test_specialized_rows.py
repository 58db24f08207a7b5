"""Rows beside sums of columns, specialized: a role loads rows, groups of warps take turns."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.norms_backward import (
    Case,
    explained,
    layer_norm_backward,
    on_simulator,
    residual_backward,
    rms_norm_backward,
)
from warpsmith import FusionDefinition, knobs
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows import role, strategy, turns
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.predict import Predictor
from warpsmith.schedulers.rows.rows import Rows


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have the heuristic choose as before, but for what is said here."""
    candidates = turns.candidates

    def force(**changes: object) -> None:
        def forced(rows: Rows, problem: Problem) -> list[RowParams]:
            best = min(candidates(rows, problem), key=Predictor(rows, problem))
            return [replace(best, **changes)]  # type: ignore[arg-type]

        monkeypatch.setattr(turns, "candidates", forced)

    return force


VARIANTS: dict[str, dict[str, object]] = {
    "one group": {"block_y": 1, "ring": 3},
    "two groups": {"block_y": 2, "ring": 4},
    "three groups": {"block_y": 3, "ring": 6},
    "sums of two groups joined": {"block_y": 2, "ring": 4, "joined": True},
    "sums of five groups joined": {"block_y": 5, "ring": 5, "joined": True, "reread": True},
    "two rows a turn": {"block_y": 2, "ring": 2, "rows_per_thread": 2},
    "rows read again": {"block_y": 2, "ring": 4, "reread": True},
    "weights in shared memory": {
        "block_y": 3,
        "ring": 3,
        "reread": True,
        "weights_in_shared": True,
    },
}


@pytest.mark.few(1)
@pytest.mark.parametrize("rows", [pytest.param(3, marks=pytest.mark.slow), 1001])
@pytest.mark.parametrize("variant", VARIANTS)
def test_against_float64(variant: str, rows: int, forced: Any) -> None:
    """Fewer rows than blocks have groups, and turns that some groups have and others do not."""
    program = layer_norm_backward if rows == 3 else rms_norm_backward
    case = Case((rows, 1024), "bfloat16")
    forced(warp_specialize=True, blocks_per_sm=1, block_x=64, unroll=2, **VARIANTS[variant])
    found = on_simulator(program, case.inputs(program))
    for result, expected in zip(found, case.expected(program), strict=True):
        np.testing.assert_allclose(result.astype(np.float64), expected, case.relative, 1e-4)


def test_sums_of_threads_past_the_end_of_a_row_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four groups of 128 threads have 3072 elements of a row of 2488, and all of their sums."""
    case = Case((1336, 2488), "bfloat16")
    tight = {"block_x": 128, "unroll": 3, "block_y": 4, "blocks_per_sm": 1, "rows_per_thread": 1}

    def deepest(rows: Rows, problem: Problem, **_: object) -> tuple[tuple[RowParams, float], ...]:
        found: list[RowParams] = []

        def time(params: RowParams) -> float:
            found.append(params)
            return 0.0

        role.choose(rows, problem, time)  # type: ignore[arg-type]
        mine = [each for each in found if all(getattr(each, k) == v for k, v in tight.items())]
        return ((max(mine, key=lambda each: each.ring), 0.0),)

    monkeypatch.setattr(strategy, "candidates", deepest)
    words = explained(residual_backward, case.inputs(residual_backward))
    assert "warp_specialize=True" in words
    assert "joined=True" in words


def test_dimensions_of_one_element_by_definition(forced: Any) -> None:
    """Which sums of columns keep, and no loop walks, where each group leaves sums of its own."""
    case = Case((9, 1024), "bfloat16")
    x, dy, weight, scale = case.inputs(rms_norm_backward)
    inputs = x[:, None], dy[:, None], weight, scale[:, None]
    with FusionDefinition() as fd:
        a, b, c, d = (fd.from_pytorch(array) for array in inputs)
        dx, _ = rms_norm_backward(a, b, c, d)
        fd.add_output(dx)
        fd.add_output(fd.ops.sum(b * (a * d), [0]))
    forced(warp_specialize=True, block_x=64, unroll=2, block_y=2, ring=4)
    with knobs.scope(device="sim"):
        found = fd.execute(list(inputs))
    assert "inner_outer" in fd.explain()
    for result, expected in zip(found, case.expected(rms_norm_backward), strict=True):
        held = result.astype(np.float64).reshape(expected.shape)
        np.testing.assert_allclose(held, expected, case.relative, 1e-4)


@pytest.mark.parametrize(
    "variant",
    [
        "two groups",
        *(pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS if name != "two groups"),
    ],
)
def test_no_order_of_warps_changes_anything(variant: str, forced: Any) -> None:
    case = Case((700, 256), "bfloat16")
    forced(warp_specialize=True, blocks_per_sm=1, block_x=32, unroll=1, **VARIANTS[variant])
    inputs = case.inputs(layer_norm_backward)
    with knobs.scope(rings="prefer"):
        compiled = warpsmith.fuse(layer_norm_backward).lower(*inputs).compile()
        assert "role        load: copy, warp 0, one thread" in compiled.explain()
        assert compiled.verify().verdict == "clean"


@pytest.mark.few(1)
@pytest.mark.parametrize("columns", [1032, pytest.param(2880, marks=pytest.mark.slow)])
@pytest.mark.parametrize("program", [layer_norm_backward, rms_norm_backward])
def test_rows_of_which_threads_have_unequal_parts(program: Any, columns: int) -> None:
    case = Case((300, columns), "bfloat16")
    with knobs.scope(device="sim"):
        found = warpsmith.fuse(program, warp_specialize=True)(*case.inputs(program))
    for result, expected in zip(found, case.expected(program), strict=True):
        np.testing.assert_allclose(
            np.asarray(result).astype(np.float64), expected, case.relative, 1e-4
        )


TWO_STAGES_FIT = [
    *(("bfloat16", columns) for columns in (1024, 4096, 8192, 16384)),
    *(pytest.param("float32", columns, marks=pytest.mark.slow) for columns in (1024, 4096, 8192)),
]


@pytest.mark.few(1)
@pytest.mark.parametrize(("dtype", "columns"), TWO_STAGES_FIT)
@pytest.mark.parametrize(
    "program", [layer_norm_backward, pytest.param(rms_norm_backward, marks=pytest.mark.slow)]
)
def test_nothing_spills(program: Any, dtype: str, columns: int) -> None:
    case = Case((3, columns), dtype)
    compiled = warpsmith.fuse(program, warp_specialize=True).lower(*case.inputs(program)).compile()
    assert "load: copy, warp 0, one thread" in compiled.explain()
    assert compiled.n_spills == 0


def test_float_rows_and_a_residual(forced: Any) -> None:
    case = Case((270, 1024), "float32")
    forced(
        warp_specialize=True, blocks_per_sm=1, block_x=128, unroll=2, block_y=2, ring=4, vector=4
    )
    for result, expected in zip(
        on_simulator(residual_backward, case.inputs(residual_backward)),
        case.expected(residual_backward),
        strict=True,
    ):
        np.testing.assert_allclose(result.astype(np.float64), expected, case.relative, 1e-4)


@pytest.mark.few(1)
@pytest.mark.parametrize("dims", [1, 2])
def test_weights_wait_in_shared_memory_where_one_copy_brings_them(dims: int) -> None:
    """LayerNorm of 12288 bfloat16 has no registers for them beside its sums."""
    x, dy, weight, mean, scale = Case((3, 12288), "bfloat16").inputs(layer_norm_backward)
    weight = weight.reshape((1,) * (dims - 1) + weight.shape[-1:])
    fused = warpsmith.fuse(layer_norm_backward, warp_specialize=True)
    words = fused.lower(x, dy, weight, mean, scale).compile().explain().split("kernel 1")[0]
    assert "warp_specialize=True" in words
    assert ("weights_in_shared=True" in words) == (dims == 1)
