"""Norms and softmaxes whose rows stay in registers, on a GPU against float64."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)

import warpsmith  # noqa: E402
from bench import norms  # noqa: E402
from bench.problem import outputs_of  # noqa: E402
from warpsmith.testing import relative_error  # noqa: E402

PROBLEMS = (
    norms.layer_norm,
    norms.rms_norm,
    norms.residual,
    norms.softmax,
    norms.log_softmax,
    norms.softmax_bwd,
)
SHAPES = (
    (1, 64),
    (1000, 64),
    (17, 100),
    (33, 999),
    (4097, 1024),
    (512, 1030),
    (1000, 4097),
    (8192, 5002),
    (4096, 10001),
    (300, 5120),
    (77, 8191),
    (264, 16384),
    (150, 32768),
    (20, 131072),
)
LARGEST_ERROR = {"bfloat16": 2.0**-8, "float": 2e-6}
"""Relative to the norm of the result; the float ones of log-softmax cancel a little."""


@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
def test_right_and_the_same_again(make, shape, dtype):
    problem = make(*shape, dtype)
    inputs = problem.draw()
    call = warpsmith.fuse(problem.fused)
    found = outputs_of(call(*inputs))
    exact = outputs_of(problem.eager(*(x.double() for x in inputs)))
    for got, want in zip(found, exact, strict=True):
        assert relative_error(got, want) < LARGEST_ERROR[dtype]
    for got, again in zip(found, outputs_of(call(*inputs)), strict=True):
        assert torch.equal(got, again)


@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
def test_one_program_takes_short_rows_and_long_ones(make):
    """Rows of 2097152 do not fit in registers, and are cut; then short ones come again."""
    problem = make(8, 1024, "bfloat16")
    call = warpsmith.fuse(problem.fused)
    for columns in (1024, 1 << 21, 1024, 2048, 131072, 2048):
        sized = make(8, columns, "bfloat16")
        inputs = sized.draw()
        for got, want in zip(
            outputs_of(call(*inputs)),
            outputs_of(sized.eager(*(x.double() for x in inputs))),
            strict=True,
        ):
            assert relative_error(got, want) < LARGEST_ERROR["bfloat16"]
