"""Rows of many bytes whose blocks keep to the memory's pace, so that none runs ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.schedulers.test_inner_outer import (
    Case,
    layer_norm_backward,
    rms_norm_backward,
)
from tests.schedulers.test_lasting_rows import loads
from warpsmith import knobs
from warpsmith.engine import executable
from warpsmith.schedulers.inner_outer import rows as inner_outer_rows
from warpsmith.schedulers.inner_outer.rows import PACE
from warpsmith.schedulers.problem import Target

CALL = r"ws_await_clock(ws_began, "


def interval(text: str) -> int:
    """Nanoseconds between two turns; 0 where the clock is not asked."""
    if CALL not in text:
        return 0
    return int(text.split(CALL)[1].split(");")[0].split(", ")[1])


def given(program: Any, shape: tuple[int, int]) -> str:
    """The CUDA of the kernels for bfloat16 of that shape, without such arrays."""
    rows, columns = shape
    few = Case((2, 8), "bfloat16")
    shapes = {0: shape, 1: shape, 2: (columns,), 3: (rows, 1), 4: (rows, 1)}
    made = []
    for place, array in enumerate(few.inputs(program)):
        one = np.zeros(1, array.dtype)
        wanted = shapes[place]
        strides = [one.itemsize * int(np.prod(wanted[d + 1 :])) for d in range(len(wanted))]
        made.append(np.lib.stride_tricks.as_strided(one, wanted, strides))
    kernels = warpsmith.fuse(program, warp_specialize=False).lower(*made).compile().kernels
    return "".join(str(kernel.asm["cuda"]).split('extern "C"')[-1] for kernel in kernels)


@pytest.mark.parametrize("shape", [(8192, 8192), (8192, 12288), (32768, 4096)])
def test_a_turn_takes_what_the_memory_takes_for_all_blocks(shape: tuple[int, int]) -> None:
    found = interval(given(rms_norm_backward, shape))
    one = 132 * shape[1] * 6 / (PACE * Target().memory_bytes_per_us / 1000)
    assert any(abs(found - rows * one) <= 1 for rows in (1, 2, 4))


def test_who_is_not_held_back() -> None:
    assert interval(given(rms_norm_backward, (8192, 5120))) == 0  # few bytes
    assert interval(given(layer_norm_backward, (8192, 8192))) == 0  # two sums a row
    assert interval(given(rms_norm_backward, (8192, 8192))) > 0
    assert CALL not in loads(rms_norm_backward_by_role, 8192, 8192, warp_specialize=True)


def rms_norm_backward_by_role(x: Any, weight: Any, other: Any) -> Any:
    """One sum a row and one a column, of one matrix."""
    return rms_norm_backward(x, x, weight, 2.0)


def test_the_knob_lets_them_go() -> None:
    with knobs.scope(pace=False):
        assert interval(given(rms_norm_backward, (8192, 8192))) == 0
        free = knobs.scoped_plan()
    with knobs.scope(pace=True):
        assert interval(given(rms_norm_backward, (8192, 8192))) > 0
        assert knobs.scoped_plan() != free


def test_memory_of_unknown_speed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = Target(memory_bytes_per_us=0)
    monkeypatch.setattr(executable, "_target", lambda _: unknown)
    assert interval(given(rms_norm_backward, (8192, 8192))) == 0


def test_paced_rows_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inner_outer_rows, "PACED_BYTES", 0)
    case = Case((300, 1024), "bfloat16")
    arguments = case.inputs(rms_norm_backward)
    fused = warpsmith.fuse(rms_norm_backward, warp_specialize=False)
    assert CALL in str(fused.lower(*arguments).compile().kernels[0].asm["cuda"])
    with knobs.scope(device="sim"):
        found = [np.asarray(result) for result in fused(*arguments)]
    for result, expected in zip(found, case.expected(rms_norm_backward), strict=True):
        np.testing.assert_allclose(result.astype(np.float64), expected, case.relative, 1e-4)
