"""Rows beside sums of columns that the TMA unit cannot bring: threads copy them to the ring."""

from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.norms_backward import (
    Case,
    apart,
    explained,
    layer_norm_backward,
    on_simulator,
    rms_norm_backward,
    shifted,
)
from warpsmith import knobs
from warpsmith.kernel.nodes import CopyVector
from warpsmith.kernel.rings import Await
from warpsmith.kernel.traversal import walk

PROGRAMS = (rms_norm_backward, layer_norm_backward)
COPIED = ((4100, "bfloat16"), (12340, "bfloat16"), (5002, "float32"), (7182, "float32"))
"""Rows of 8 bytes a thread, of no multiple of 16, which begin at such."""


def compiled(program: Any, inputs: tuple[Any, ...]) -> Any:
    return warpsmith.fuse(program, warp_specialize=False).lower(*inputs).compile()


def copies(program: Any, inputs: tuple[Any, ...]) -> int:
    """Statements of the first kernel that copy to shared memory by `cp.async`."""
    body = compiled(program, inputs).kernels[0].kernel.body
    return sum(isinstance(s, CopyVector) and s.asynchronous for s in walk(body))


@pytest.mark.few(1)
@pytest.mark.parametrize(("columns", "dtype"), COPIED)
@pytest.mark.parametrize("program", PROGRAMS)
def test_clean_and_right(program: Any, columns: int, dtype: str) -> None:
    case = Case((3, columns), dtype)
    x, dy, *others = case.inputs(program)
    step = 8 // x.itemsize
    inputs = (shifted(x, step), shifted(dy, step), *others)
    made = compiled(program, inputs)
    assert copies(program, inputs) > 0
    assert not any(isinstance(s, Await) for s in walk(made.kernels[0].kernel.body))
    assert made.verify(schedules=4).verdict == "clean"
    with knobs.scope(warp_specialize=False):
        found = on_simulator(program, inputs)
    for result, expected in zip(found, case.expected(program), strict=True):
        np.testing.assert_allclose(result.astype(np.float64), expected, case.relative, 1e-4)


@pytest.mark.parametrize(
    ("columns", "padding"),
    [(2048, 4), *(pytest.param(16384, room, marks=pytest.mark.slow) for room in (4, 12))],
)
def test_rows_with_room_between_them(columns: int, padding: int) -> None:
    """A thread's vectors are there, rows of whole 16 bytes are not; long rows are of a cluster."""
    case = Case((5, columns), "bfloat16")
    x, dy, *others = case.inputs(layer_norm_backward)
    inputs = (apart(x, padding), apart(dy, padding), *others)
    assert copies(layer_norm_backward, inputs) > 0
    found = on_simulator(layer_norm_backward, inputs)
    for result, expected in zip(found, case.expected(layer_norm_backward), strict=True):
        np.testing.assert_allclose(result.astype(np.float64), expected, case.relative, 1e-4)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("columns", "dtype"),
    [
        (4097, "bfloat16"),
        (5002, "bfloat16"),
        (4097, "float32"),
        (12340, "float32"),
        (4096, "bfloat16"),
        (260, "bfloat16"),
    ],
)
def test_who_does_not(columns: int, dtype: str) -> None:
    """Copies of four bytes are slower than loads, the TMA unit is faster, and rows are short; what
    it could bring but for the threads' vectors is left to roles.
    """
    inputs = Case((3, columns), dtype).inputs(rms_norm_backward)
    assert copies(rms_norm_backward, inputs) == 0


def test_an_input_that_vectors_cannot_be_loaded_from_is_loaded_as_before() -> None:
    x, *others = Case((3, 4100), "bfloat16").inputs(rms_norm_backward)
    assert copies(rms_norm_backward, (shifted(x), *others)) == 0


def test_the_knob_says_never() -> None:
    inputs = Case((3, 4100), "bfloat16").inputs(rms_norm_backward)
    with knobs.scope(rings="never"):
        assert copies(rms_norm_backward, inputs) == 0
        assert "the knob `rings` says never" in explained(rms_norm_backward, inputs)


@pytest.mark.few(1)
@pytest.mark.parametrize(("columns", "dtype"), [(1818, "float32"), (4100, "bfloat16")])
def test_the_last_pass_alone_is_masked(columns: int, dtype: str) -> None:
    """Copies do not wait for one another, as loads into registers behind predicates do."""
    case = Case((140, columns), dtype)
    x, dy, *others = case.inputs(layer_norm_backward)
    step = 8 // x.itemsize
    inputs = (shifted(x, step), shifted(dy, step), *others)
    kernel = compiled(layer_norm_backward, inputs).kernels[0].kernel
    assert copies(layer_norm_backward, inputs) > 0
    assert kernel.least
    found = on_simulator(layer_norm_backward, inputs)
    for result, expected in zip(found, case.expected(layer_norm_backward), strict=True):
        np.testing.assert_allclose(result.astype(np.float64), expected, case.relative, 1e-4)


@pytest.mark.parametrize(("columns", "dtype"), [(1818, "float32"), (4100, "bfloat16")])
def test_chunks_come_before_copies(columns: int, dtype: str) -> None:
    """Rows whose first element is where the TMA unit takes it come in chunks."""
    inputs = Case((140, columns), dtype).inputs(layer_norm_backward)
    assert copies(layer_norm_backward, inputs) == 0
    assert any(
        isinstance(s, Await)
        for s in walk(compiled(layer_norm_backward, inputs).kernels[0].kernel.body)
    )
