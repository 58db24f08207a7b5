"""Kernels of rows with and without a role that loads, on a GPU: against float64, the same bits."""

import pytest
import torch

import warpsmith
from bench import norm_backward, norms
from bench.problem import outputs_of
from warpsmith.testing import relative_error

BACKWARD = (norm_backward.layer_norm_bwd, norm_backward.rms_norm_bwd)
FORWARD = (norms.layer_norm, norms.rms_norm, norms.residual, norms.softmax, norms.softmax_bwd)
SHAPES = (
    (2, 1024),
    (133, 1024),
    (4097, 1024),
    (300, 5120),
    (2048, 4096),
    (1000, 8192),
    (100000, 1024),
    (8, 1027),
    (1000, 4097),
    (8192, 5002),
    (2000, 12340),
)
LARGEST_ERROR = {"bfloat16": 2.0**-8, "float": 5e-6}
"""Relative to the norm of the result."""


def checked(problem, calls, again=1):
    inputs = problem.draw()
    exact = outputs_of(problem.eager(*(x.double() for x in inputs)))
    for call in calls:
        found = outputs_of(call(*inputs))
        for got, want in zip(found, exact, strict=True):
            assert relative_error(got, want) < LARGEST_ERROR[problem.dtype]
        for _ in range(again):
            for got, twice in zip(found, outputs_of(call(*inputs)), strict=True):
                assert torch.equal(got, twice)


@pytest.mark.parametrize("specialize", [True, False])
@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("make", [*BACKWARD, *FORWARD], ids=lambda make: make.__name__)
def test_right_and_the_same_again(make, shape, dtype, specialize):
    problem = make(*shape, dtype)
    checked(problem, [warpsmith.fuse(problem.fused, warp_specialize=specialize)], again=20)


@pytest.mark.parametrize("columns", [12288, 16384, 24576])
@pytest.mark.parametrize("make", BACKWARD, ids=lambda make: make.__name__)
def test_long_rows_that_are_read_again(make, columns):
    problem = make(1000, columns, "bfloat16")
    if make is norm_backward.layer_norm_bwd and columns == 24576:
        pytest.skip("refused: registers would spill")
    checked(problem, [warpsmith.fuse(problem.fused, warp_specialize=True)], again=20)


@pytest.mark.parametrize("make", [*BACKWARD, *FORWARD], ids=lambda make: make.__name__)
def test_row_counts_change_and_a_graph_replays(make):
    call = warpsmith.fuse(make(8, 4096, "bfloat16").fused, warp_specialize=True)
    for rows in (2, 131, 265, 529, 5000):
        checked(make(rows, 4096, "bfloat16"), [call])
    inputs = make(5000, 4096, "bfloat16").draw()
    found = outputs_of(call(*inputs))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = outputs_of(call(*inputs))
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(captured, found, strict=True))
