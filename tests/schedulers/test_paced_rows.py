"""Rows of many bytes whose blocks keep to the memory's pace, so that none runs ahead."""

from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.norms_backward import Case, layer_norm_backward, rms_norm_backward
from warpsmith import knobs
from warpsmith.runtime import arrays
from warpsmith.schedulers.rows import strategy
from warpsmith.schedulers.rows.strategy import PACE
from warpsmith.targets.hopper import H200

CALL = "ws_await_clock(ws_began, "


def interval(text: str) -> int:
    """Nanoseconds between two turns; 0 where the clock is not asked."""
    if CALL not in text:
        return 0
    return int(text.split(CALL)[1].split(");")[0].split(", ")[1])


def given(program: Any, shape: tuple[int, int], *, by_role: bool = False) -> str:
    """The CUDA of the kernels for bfloat16 of that shape."""
    rows, columns = shape
    kind = arrays.NUMPY_DTYPES["bfloat16"]
    x, dy, weight = (np.zeros(of, kind) for of in (shape, shape, columns))
    saved = np.zeros((2 if program is layer_norm_backward else 1, rows, 1), np.float32)
    fused = warpsmith.fuse(program, warp_specialize=by_role)
    kernels = fused.lower(x, dy, weight, *saved).compile().kernels
    return "".join(str(kernel.asm["cuda"]).split('extern "C"')[-1] for kernel in kernels)


@pytest.mark.few(2)
@pytest.mark.parametrize("shape", [(8192, 8192), (8192, 12288), (32768, 4096)])
def test_a_turn_takes_what_the_memory_takes_for_all_blocks(shape: tuple[int, int]) -> None:
    found = interval(given(rms_norm_backward, shape))
    one = 132 * shape[1] * 6 / (PACE * H200.rates.memory / 1000)
    assert any(abs(found - rows * one) <= 1 for rows in (1, 2, 4))


@pytest.mark.usefixtures("uncompiled")
def test_who_is_not_held_back() -> None:
    assert interval(given(rms_norm_backward, (8192, 5120))) == 0  # few bytes
    assert interval(given(layer_norm_backward, (8192, 8192))) == 0  # two sums a row
    assert interval(given(rms_norm_backward, (8192, 8192))) > 0
    assert interval(given(rms_norm_backward, (8192, 8192), by_role=True)) == 0


def test_the_knob_lets_them_go() -> None:
    with knobs.scope(pace=False):
        assert interval(given(rms_norm_backward, (8192, 8192))) == 0
        free = knobs.scoped_plan()
    with knobs.scope(pace=True):
        assert interval(given(rms_norm_backward, (8192, 8192))) > 0
        assert knobs.scoped_plan() != free


def test_paced_rows_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategy, "PACED_BYTES", 0)
    case = Case((300, 1024), "bfloat16")
    arguments = case.inputs(rms_norm_backward)
    fused = warpsmith.fuse(rms_norm_backward, warp_specialize=False)
    assert CALL in str(fused.lower(*arguments).compile().kernels[0].asm["cuda"])
    with knobs.scope(device="sim"):
        found = [np.asarray(result) for result in fused(*arguments)]
    for result, expected in zip(found, case.expected(rms_norm_backward), strict=True):
        np.testing.assert_allclose(result.astype(np.float64), expected, case.relative, 1e-4)
