"""Each kernel that is chosen for the sizes of the norms' tables, on the simulator with few rows.

A norm's parameters depend on the number of rows only by its class and by whether bytes are many.
Both are set here to those of the table's size, so these are the kernels that docs/benchmarks.md
times.
"""

from typing import Any

import pytest
import torch

import warpsmith
from bench import dropout, lengths, norm_backward, norms, residual_backward
from bench.problem import Problem, outputs_of
from warpsmith import knobs
from warpsmith.schedulers import caching
from warpsmith.schedulers.rows import predict, strategy
from warpsmith.targets.target import Target
from warpsmith.testing import relative_error

LARGEST_ERROR = {"bfloat16": 2.0**-7, "float": 2e-6}
FEW_ROWS = 2048
"""Rows of a size whose bytes are few."""

ODD_ROWS = 8
"""Rows simulated of lengths of no multiple of 8: all of them together are one, as in the tables."""

SHORT_ROWS = 70
"""Rows simulated of short ones: a block has up to 64 at a time."""

QUICK = {
    *(("layer_norm", "bfloat16", (8192, columns)) for columns in (1024, 8192, 16384)),
    ("softmax", "bfloat16", (8192, 5120)),
    ("softmax", "bfloat16", (4096, 32768)),
    ("rms_norm", "float", (8192, 24576)),
    ("layer_norm_bwd", "bfloat16", (8192, 4096)),
    ("rms_norm_bwd", "bfloat16", (8192, 8192)),
    ("rms_norm_bwd", "bfloat16", (2048, 4096)),
    ("layer_norm", "bfloat16", (8192, 5002)),
    ("rms_norm_bwd", "bfloat16", (8192, 4097)),
    ("layer_norm_bwd", "bfloat16", (524288, 64)),
    ("rms_norm_bwd", "bfloat16", (131072, 196)),
}
"""Those that are run by default; the others are marked slow."""

FORWARD = (norms.layer_norm, norms.rms_norm, norms.residual, norms.softmax, norms.log_softmax)
BACKWARD = (
    norms.softmax_bwd,
    norm_backward.layer_norm_bwd,
    norm_backward.rms_norm_bwd,
    residual_backward.residual_bwd,
    residual_backward.dropped_residual_bwd,
)


def cases() -> list[Any]:
    found = []
    for make in (*FORWARD, *BACKWARD):
        for dtype in ("bfloat16", "float"):
            few = dict.fromkeys(norms.SIZES, 3)
            if make in lengths.MAKES:
                few |= dict.fromkeys(lengths.SIZES[lengths.ODD], ODD_ROWS)
                few |= dict.fromkeys(lengths.SIZES[lengths.SHORT], SHORT_ROWS)
            for size, count in few.items():
                problem = make(count, size[1], dtype)
                quick = (problem.name, dtype, size) in QUICK
                marks = () if quick else pytest.mark.slow
                name = f"{problem.name}-{'x'.join(map(str, size))}-{dtype}"
                found.append(pytest.param(problem, size[0], id=name, marks=marks))
    return found


@pytest.mark.few(2)
@pytest.mark.parametrize(("problem", "rows_timed"), cases())
def test_clean_and_right(
    problem: Problem, rows_timed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = predict.class_of

    def timed(_: int, target: Target, *, beside: bool) -> int:
        return real(rows_timed, target, beside=beside)

    monkeypatch.setattr(predict, "class_of", timed)
    if rows_timed != FEW_ROWS:
        monkeypatch.setattr(caching, "STREAMING_SHARE", 0)
        monkeypatch.setattr(strategy, "PACED_BYTES", 0)
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
    monkeypatch.setattr(caching, "STREAMING_SHARE", 0)
    problem = dropout.dropped_residual(3, 8192, "bfloat16")
    inputs = problem.draw("cpu")
    assert warpsmith.fuse(problem.fused).lower(*inputs).compile().verify().verdict == "clean"
