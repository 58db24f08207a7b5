"""Each kernel that is chosen for the sizes of the norms' tables, on the simulator with few rows.

A norm's parameters do not depend on the number of rows but for few rows and few bytes, which are
taken for many here, so these are the kernels that docs/benchmarks.md times.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import warpsmith
from bench import dropout, norm_backward, norms, residual_backward
from bench.problem import Problem, outputs_of
from warpsmith import knobs
from warpsmith.schedulers import caching
from warpsmith.schedulers.inner_outer import predict, rows
from warpsmith.testing import relative_error

LARGEST_ERROR = {"bfloat16": 2.0**-7, "float": 2e-6}
COLUMNS = (1024, 2048, 4096, 5120, 8192, 12288, 16384, 24576, 32768)
QUICK = {
    *(("layer_norm", "bfloat16", columns) for columns in (1024, 8192, 16384)),
    *(("softmax", "bfloat16", columns) for columns in (5120, 32768)),
    ("rms_norm", "float", 24576),
    ("layer_norm_bwd", "bfloat16", 4096),
    ("rms_norm_bwd", "bfloat16", 8192),
}
"""Those that are run by default; the others are marked slow."""

FORWARD = (norms.layer_norm, norms.rms_norm, norms.residual, norms.softmax, norms.log_softmax)
BACKWARD = (
    norms.softmax_bwd,
    norm_backward.layer_norm_bwd,
    norm_backward.rms_norm_bwd,
    residual_backward.residual_bwd,
)


def cases() -> list[Any]:
    found = []
    for make in (*FORWARD, *BACKWARD):
        for dtype in ("bfloat16", "float"):
            for columns in COLUMNS:
                problem = make(3, columns, dtype)
                quick = (problem.name, dtype, columns) in QUICK
                marks = () if quick else pytest.mark.slow
                found.append(pytest.param(problem, id=problem.title, marks=marks))
    return found


@pytest.mark.parametrize("problem", cases())
def test_clean_and_right(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """As kernels of many rows and bytes, which most sizes of the tables take."""
    monkeypatch.setattr(caching, "STREAMING_BYTES", 0)
    monkeypatch.setattr(predict, "ROW_CLASSES", predict.ROW_CLASSES[-1:])
    monkeypatch.setattr(rows, "PACED_BYTES", 0)
    torch.manual_seed(0)
    inputs = problem.draw("cpu")
    expected = outputs_of(problem.eager(*(x.double() for x in inputs)))
    fused = warpsmith.fuse(problem.fused)
    assert fused.lower(*inputs).compile().verify().verdict == "clean"
    with knobs.scope(device="sim"):
        found = outputs_of(fused(*inputs))
    for result, exact in zip(found, expected, strict=True):
        assert relative_error(result, exact) < LARGEST_ERROR[problem.dtype]


def test_dropout_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is drawn differs from torch's, so the kernel alone is judged."""
    monkeypatch.setattr(caching, "STREAMING_BYTES", 0)
    problem = dropout.dropped_residual(3, 8192, "bfloat16")
    inputs = problem.draw("cpu")
    assert warpsmith.fuse(problem.fused).lower(*inputs).compile().verify().verdict == "clean"
