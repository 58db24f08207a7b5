"""Rows that neither begin nor end at multiples of 16 bytes: the TMA unit brings whole chunks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.schedulers import test_specialized_norms as forward
from tests.support.norms_backward import (
    Case,
    apart,
    layer_norm_backward,
    residual_backward,
    rms_norm_backward,
    shifted,
)
from warpsmith import knobs
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.scalar import Const
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.traversal import walk

BACKWARD = (rms_norm_backward, layer_norm_backward, residual_backward)
FORWARD = (forward.layer_norm, forward.rms_norm, forward.softmax, forward.softmax_backward)
SIZES = ((8, 1027, "bfloat16"), (12, 2050, "bfloat16"), (4, 1025, "float32"), (6, 517, "float64"))
"""Rows and columns of which all together are a multiple of 16 bytes, and one is none: 2, 4, 4 and 8
bytes an access."""


def compiled(program: Any, inputs: tuple[Any, ...], specialize: Any) -> Any:
    return warpsmith.fuse(program, warp_specialize=specialize).lower(*inputs).compile()


def chunks(made: Any) -> int:
    """Inputs of the first kernel, copied in sizes that follow from where a row begins."""
    copies = [s for s in walk(made.kernels[0].kernel.body) if isinstance(s, TileCopy)]
    bulk = [c for c in copies if c.how is LoadStoreOpType.bulk]
    return len({c.shared.name for c in bulk if not isinstance(c.inside, Const)})


def on_simulator(program: Any, inputs: tuple[Any, ...], specialize: Any) -> list[np.ndarray]:
    with knobs.scope(device="sim", verify="protocol"):
        found = warpsmith.fuse(program, warp_specialize=specialize)(*inputs)
    return [np.asarray(r) for r in (found if isinstance(found, tuple) else (found,))]


def close(found: list[np.ndarray], expected: list[np.ndarray], relative: float) -> None:
    for result, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(result.astype(np.float64), wanted, relative, 1e-3)


@pytest.mark.few(1)
@pytest.mark.parametrize(("rows", "columns", "dtype"), SIZES)
@pytest.mark.parametrize("specialize", [False, True])
@pytest.mark.parametrize("program", BACKWARD)
def test_backward(program: Any, specialize: bool, rows: int, columns: int, dtype: str) -> None:
    """With a ring in waves, and one that a role fills; 8 bytes the threads of waves copy."""
    case = Case((rows, columns), dtype)
    inputs = case.inputs(program)
    made = compiled(program, inputs, specialize)
    wanted = 3 if program is residual_backward else 2
    copied = () if specialize or dtype != "float64" else (0,)
    assert chunks(made) in (wanted, *copied)
    assert made.verify(schedules=4).verdict == "clean"
    close(on_simulator(program, inputs, specialize), case.expected(program), case.relative)


@pytest.mark.few(2)
@pytest.mark.parametrize(("rows", "columns", "dtype"), SIZES[:3])
@pytest.mark.parametrize("program", FORWARD)
def test_forward(program: Any, rows: int, columns: int, dtype: str) -> None:
    inputs = forward.drawn(program, rows, columns, dtype)
    made = compiled(program, inputs, True)
    assert chunks(made) == (2 if program in (forward.rms_norm, forward.softmax_backward) else 1)
    assert made.verify(schedules=4).verdict == "clean"
    relative = 2.0**-7 if dtype == "bfloat16" else 2e-5
    close(on_simulator(program, inputs, True), forward.exact(program, inputs), relative)


@pytest.mark.parametrize("columns", [3001, 5001])
def test_costly_values_of_narrow_elements_do_not_spill(columns: int) -> None:
    (x,) = forward.drawn(forward.softmax, 8, columns, "bfloat16")
    made = compiled(forward.softmax, (x,), True)
    assert chunks(made) == 1
    assert made.kernels[0].n_spills <= 8


@pytest.mark.few(2)
@pytest.mark.parametrize("rows", [2, 3, 5, 7])
@pytest.mark.parametrize("specialize", [False, True])
def test_the_last_chunk_may_end_behind_all_rows(specialize: bool, rows: int) -> None:
    case = Case((rows, 1027), "bfloat16")
    inputs = case.inputs(rms_norm_backward)
    made = compiled(rms_norm_backward, inputs, specialize)
    assert chunks(made) == 2
    assert made.verify(schedules=4).verdict == "clean"
    found = on_simulator(rms_norm_backward, inputs, specialize)
    close(found, case.expected(rms_norm_backward), case.relative)


def test_who_uses_what_lies_behind_all_rows_is_found(tmp_path: Path) -> None:
    """A kernel that takes rows to be one element longer than they are."""
    inputs = forward.drawn(forward.softmax, 2, 1027, "bfloat16")
    (kernel,) = compiled(forward.softmax, inputs, True).kernels
    longer = kernel.cuda.replace("block_x) < T0_size1)", "block_x) < T0_size1 + 1)")
    assert longer != kernel.cuda
    (tmp_path / f"{kernel.name}.cu").write_text(longer)
    with knobs.scope(override_dir=tmp_path):
        found = compiled(forward.softmax, inputs, True).verify(schedules=1)
    assert "wrong-output" in {finding.kind for finding in found.reports[0].findings}


@pytest.mark.parametrize("rows", [3, 16])
def test_parts_of_rows_that_a_cluster_shares(rows: int) -> None:
    """Each block has a part of the chunks, of which the first is all inside the row before it."""
    inputs = Case((rows, 24001), "bfloat16").inputs(rms_norm_backward)
    made = compiled(rms_norm_backward, inputs, False)
    assert "cluster" in made.explain()
    assert chunks(made) == 2
    assert made.verify(schedules=2).verdict == "clean"


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("change", ["shifted", "apart", "never", "short"])
def test_who_gets_none(change: str) -> None:
    """Tensors that begin elsewhere, or have room between rows; whose knob says so; short rows."""
    x, dy, *rest = Case((8, 67 if change == "short" else 1027), "bfloat16").inputs(
        rms_norm_backward
    )
    if change == "shifted":
        x = shifted(x)
    if change == "apart":
        x, dy = apart(x, 2), apart(dy, 2)
    with knobs.scope(rings="never" if change == "never" else "auto"):
        assert chunks(compiled(rms_norm_backward, (x, dy, *rest), "auto")) == 0


def test_several_dimensions_of_rows() -> None:
    case = Case((2, 4, 1027), "bfloat16")
    inputs = case.inputs(rms_norm_backward)
    made = compiled(rms_norm_backward, inputs, "auto")
    assert chunks(made) == 2
    assert made.verify(schedules=4).verdict == "clean"
    close(on_simulator(rms_norm_backward, inputs, "auto"), case.expected(rms_norm_backward), 0.02)
