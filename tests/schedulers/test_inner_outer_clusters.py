"""Norms backward whose rows the blocks of a cluster share."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.norms_backward import (
    PROGRAMS,
    Case,
    explained,
    layer_norm_backward,
    on_simulator,
    rms_norm_backward,
)
from warpsmith import knobs
from warpsmith.lower import exchanges
from warpsmith.runtime import arrays
from warpsmith.schedulers.rows import turns
from warpsmith.targets.hopper import H200


@pytest.fixture(autouse=True)
def in_waves() -> Iterator[None]:
    """A role would load rows that one block can keep."""
    with knobs.scope(warp_specialize=False):
        yield


def check(program: Any, case: Case, rings: Any = "auto") -> None:
    inputs = case.inputs(program)
    for result, expected in zip(
        on_simulator(program, inputs, rings), case.expected(program), strict=True
    ):
        np.testing.assert_allclose(result.astype(np.float64), expected, case.relative, 1e-4)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("program", "dtype", "shape"),
    [
        *(pytest.param(p, "bfloat16", (5, 1024), marks=pytest.mark.slow) for p in PROGRAMS),
        (layer_norm_backward, "float32", (300, 64)),
        (rms_norm_backward, "float32", (3, 1030)),
    ],
)
def test_against_float64_in_two_blocks(
    program: Any, dtype: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are loaded ahead, several a turn; more rows than clusters; rows of any length."""
    monkeypatch.setattr(turns, "CLUSTERS", (2,))
    case = Case(shape, dtype)
    check(program, case, "prefer")
    first = explained(program, case.inputs(program)).split("kernel 1")[0]
    assert "2 blocks run at once" in first


@pytest.mark.parametrize(
    ("blocks", "columns"), [(2, 272), pytest.param(4, 1056, marks=pytest.mark.slow)]
)
def test_such_parts_against_float64(
    blocks: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "CLUSTERS", (blocks,))
    check(layer_norm_backward, Case((5, columns), "bfloat16"), "prefer")


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [3, 16])
def test_any_number_of_blocks(blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "CLUSTERS", (blocks,))
    check(layer_norm_backward, Case((5, 48 * blocks), "float32"), "prefer")


@pytest.mark.parametrize(
    "program", [pytest.param(rms_norm_backward, marks=pytest.mark.slow), layer_norm_backward]
)
def test_any_order_of_blocks_is_clean(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "CLUSTERS", (4,))
    inputs = Case((70, 1024), "bfloat16").inputs(program)
    with knobs.scope(rings="prefer"):
        found = warpsmith.verify(warpsmith.fuse(program), list(inputs), schedules=4)
    assert found.verdict == "clean", found


def test_no_rows_sum_to_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "CLUSTERS", (2,))
    case = Case((0, 64), "float32")
    dx, dw, db = on_simulator(layer_norm_backward, case.inputs(layer_norm_backward))
    assert dx.shape == (0, 64)
    assert not dw.any()
    assert not db.any()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("program", "dtype", "columns", "blocks"),
    [
        (rms_norm_backward, "bfloat16", 8192, 1),
        (rms_norm_backward, "bfloat16", 24576, 2),
        (layer_norm_backward, "bfloat16", 32768, 8),
        (layer_norm_backward, "bfloat16", 262144, 16),
        (rms_norm_backward, "float32", 24576, 8),
        (layer_norm_backward, "float32", 65536, 8),
    ],
)
def test_blocks_that_have_a_row_and_spill_nothing(
    program: Any, dtype: str, columns: int, blocks: int
) -> None:
    compiled = warpsmith.fuse(program).lower(*Case((2, columns), dtype).inputs(program)).compile()
    first = compiled.explain().split("kernel 1")[0]
    assert f"cluster={blocks}" in first
    assert "no ring" not in first
    assert compiled.n_spills == 0


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.few(1)
@pytest.mark.parametrize(("columns", "blocks"), [(16384, 2), (14336, 1)])
def test_a_long_row_that_one_block_could_have_goes_to_several_where_that_is_faster(
    columns: int, blocks: int
) -> None:
    """LayerNorm of 8192 rows of 16384 takes 206 microseconds in two, and 217 in one."""
    rows = 8192
    kind = arrays.NUMPY_DTYPES["bfloat16"]
    x, dy, weight = (np.zeros(shape, kind) for shape in ((rows, columns), (rows, columns), columns))
    mean, scale = np.zeros((2, rows, 1), np.float32)
    found = explained(layer_norm_backward, (x, dy, weight, mean, scale))
    assert f"cluster={blocks}" in found


@pytest.mark.usefixtures("uncompiled")
def test_clusters_that_run_at_once_loop_over_the_rows() -> None:
    """Clusters of two lie on all 132 multiprocessors, of four or eight on 120: others would begin
    when these have ended, and LayerNorm of 4096 rows of 32768 floats took 598 microseconds in
    clusters of four, and not 392.
    """

    def grid(columns: int) -> str:
        x = np.zeros((660, columns), arrays.NUMPY_DTYPES["bfloat16"])  # as many for all of them
        inputs = (x, x, x[0], np.zeros((660, 1), np.float32))
        return next(s for s in explained(rms_norm_backward, inputs).splitlines() if "grid (" in s)

    assert "grid (66, 1, 2)" in grid(24576)
    assert "grid (30, 1, 8)" in grid(65536)  # two of a multiprocessor


@pytest.mark.usefixtures("uncompiled")
def test_a_device_gets_no_clusters_that_it_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = Case((5, 65536), "bfloat16").inputs(rms_norm_backward)
    assert "cluster=8" in explained(rms_norm_backward, inputs)
    target = replace(H200, clusters=((2, 66), (4, 0)))
    monkeypatch.setattr("warpsmith.engine.executable.call_target", lambda *_: target)
    assert "cluster=8" not in explained(rms_norm_backward, inputs)


def test_stages_of_exchanges_come_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """One cluster has all rows, and blocks meet again after two turns."""
    monkeypatch.setattr(turns, "CLUSTERS", (4,))
    target = replace(H200, clusters=((4, 1),))
    monkeypatch.setattr("warpsmith.engine.executable.call_target", lambda *_: target)
    monkeypatch.setattr(exchanges, "MOST_STAGES", 2)
    case = Case((29, 8192), "bfloat16")
    check(layer_norm_backward, case)
    compiled = (
        warpsmith.fuse(layer_norm_backward).lower(*case.inputs(layer_norm_backward)).compile()
    )
    assert "grid (3, 1, 4)" in compiled.explain()
    assert "_of_blocks is free again" in str(compiled.kernels[0].asm["cuda"])
