"""Norms and softmaxes whose rows stay in registers, of blocks and clusters, against float64."""

import pytest
import torch

import warpsmith
from bench import norms
from bench.problem import outputs_of
from tests.gpu.support import right_and_the_same_again, the_same_bits_a_thousand_times
from warpsmith.schedulers.rows import once
from warpsmith.testing import relative_error

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
LONG = (
    (300, 65536),
    (133, 65537),
    (50, 100001),
    (264, 131072),
    (1, 131072),
    (65, 200002),
    (40, 262144),
    (9, 524288),
    (3, 1048576),
    (2, 1048573),
)
SPREAD = ((1, 16384), (1000, 24576), (77, 24571), (333, 32768))
LARGEST_ERROR = {"bfloat16": 2.0**-8, "float": 2e-6}
"""Relative to the norm of the result; the float ones of log-softmax cancel a little."""

OF_LONG = LARGEST_ERROR | {"float": 4e-6}


@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
def test_right_and_the_same_again(make, shape, dtype):
    right_and_the_same_again(make(*shape, dtype), LARGEST_ERROR)


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


# --- clusters ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
@pytest.mark.parametrize("shape", LONG, ids=str)
@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
def test_long_rows_are_right_and_the_same_again(make, shape, dtype):
    right_and_the_same_again(make(*shape, dtype), OF_LONG)


@pytest.mark.parametrize("cluster", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("shape", SPREAD, ids=str)
@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
def test_any_number_of_blocks(make, shape, cluster, monkeypatch):
    monkeypatch.setattr(once, "CLUSTERS", (cluster,))
    right_and_the_same_again(make(*shape, "bfloat16"), OF_LONG)


@pytest.mark.parametrize("cluster", [2, 16])
def test_a_thousand_launches_give_the_same_bits(cluster, monkeypatch):
    monkeypatch.setattr(once, "CLUSTERS", (cluster,))
    the_same_bits_a_thousand_times(norms.layer_norm(1333, 32768, "bfloat16"))


def test_no_rows_and_any_number_of_them():
    call = warpsmith.fuse(norms.softmax(1, 131072, "bfloat16").fused)
    for rows in (5, 0, 1, 131, 1000):
        problem = norms.softmax(rows, 131072, "bfloat16")
        (x,) = problem.draw()
        (found,) = outputs_of(call(x))
        assert found.shape == x.shape
        if rows:
            assert relative_error(found, torch.softmax(x.double(), -1)) < 2.0**-8
