"""Blocks that loop over rows that begin anywhere: vectors across their begins and ends."""

from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.norms_backward import (
    Case,
    layer_norm_backward,
    residual_backward,
    rms_norm_backward,
)
from warpsmith import knobs
from warpsmith.kernel.nodes import CopyVector
from warpsmith.kernel.traversal import walk
from warpsmith.schedulers.rows import across, strategy, turns

BLOCKS = 8
"""Of a launch, so that each has several turns: as many as a vector has elements."""


def choose(monkeypatch: pytest.MonkeyPatch, **wanted: int) -> None:
    """Shapes with such vectors, and these parameters, in few blocks; of shorter rows, too."""
    every = turns.candidates

    def candidates(*given: Any) -> Any:
        found = [params for params in every(*given) if params.across]
        return [p for p in found if all(getattr(p, k) == v for k, v in wanted.items())]

    monkeypatch.setattr(across, "LEAST_TURN_BYTES", 1024)
    monkeypatch.setattr(turns, "candidates", candidates)
    monkeypatch.setattr(strategy, "blocks", lambda *given: BLOCKS)


def held(program: Any, case: Case) -> Any:
    """Clean, and right, where many blocks have several rows."""
    inputs = case.inputs(program)
    fused = warpsmith.fuse(program, warp_specialize=False)
    made = fused.lower(*inputs).compile()
    assert "across=True" in made.explain()
    assert made.verify(schedules=2).verdict == "clean"
    with knobs.scope(device="sim", verify="protocol"):
        found = fused(*inputs)
    for result, wanted in zip(found, case.expected(program), strict=True):
        given = np.asarray(result).astype(np.float64)
        np.testing.assert_allclose(given, wanted, case.relative, 1e-3)
    return made


@pytest.mark.few(2)
@pytest.mark.parametrize("program", [rms_norm_backward, layer_norm_backward, residual_backward])
@pytest.mark.parametrize("columns", [1025, 1027, 1031, 2053])
@pytest.mark.parametrize("rows", [3, 27])
def test_rows_of_a_block_begin_alike(
    monkeypatch: pytest.MonkeyPatch, program: Any, columns: int, rows: int
) -> None:
    """Vectors are whole in shared memory, in results, and in sums of columns; lanes at the ends of
    rows compare one difference with numbers.
    """
    choose(monkeypatch)
    made = held(program, Case((rows, columns), "bfloat16"))
    copies = [s for s in walk(made.kernels[0].kernel.body) if isinstance(s, CopyVector)]
    assert {copy.width for copy in copies} == {4}
    assert "block_x * (-4)) < (i" in made.kernels[0].cuda
    assert len({copy.target for copy in copies}) == (5 if program is rms_norm_backward else 6)


@pytest.mark.few(1)
@pytest.mark.parametrize("kept", [{"block_y": 2}, {"rows_per_thread": 2}])
@pytest.mark.parametrize("program", [rms_norm_backward, layer_norm_backward])
def test_several_rows_of_a_turn(
    monkeypatch: pytest.MonkeyPatch, program: Any, kept: dict[str, int]
) -> None:
    """Each lies in lines of its own, as far behind their begin as in memory."""
    choose(monkeypatch, **kept)
    held(program, Case((43, 1501), "bfloat16"))


def test_parts_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each begins at a multiple of a vector in memory, the first before its row."""
    choose(monkeypatch, cluster=2)
    held(rms_norm_backward, Case((11, 17003), "bfloat16"))


def explained(rows: int, columns: int, dtype: str = "bfloat16") -> str:
    inputs = Case((rows, columns), dtype).inputs(layer_norm_backward)
    return str(warpsmith.fuse(layer_norm_backward).lower(*inputs).compile().explain())


@pytest.mark.usefixtures("uncompiled")
def test_as_many_blocks_as_begin_alike() -> None:
    """Of 66 clusters that run at once 64, or 36 where 35 take two rows each; each leaves a row of
    sums.
    """
    for rows, clusters in ((128, 64), (70, 36)):
        found = explained(rows, 27001)
        assert "across=True" in found
        assert "cluster=2" in found
        assert f"float[27001,{clusters}]" in found


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("columns", "dtype"), [(4099, "bfloat16"), (12346, "bfloat16"), (9001, "float32")]
)
def test_who_gets_none(columns: int, dtype: str) -> None:
    """Short rows, those that two elements divide, and longer elements."""
    assert "across=True" not in explained(8, columns, dtype)
