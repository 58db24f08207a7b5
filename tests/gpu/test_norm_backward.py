"""Norms backward by blocks and by clusters, on a GPU against float64, and the same bits again."""

import pytest
import torch

import warpsmith
from bench import norm_backward
from bench.problem import outputs_of
from tests.gpu.support import right_and_the_same_again, the_same_bits_a_thousand_times
from warpsmith import knobs
from warpsmith.schedulers.rows import turns
from warpsmith.testing import relative_error

PROBLEMS = (norm_backward.layer_norm_bwd, norm_backward.rms_norm_bwd)
SHAPES = (
    (1, 64),
    (1000, 64),
    (17, 100),
    (33, 999),
    (4097, 1024),
    (512, 1030),
    (300, 5120),
    (1000, 4097),
    (4001, 4100),
    (8192, 5002),
    (2000, 12340),
    (2048, 8192),
    (8192, 8192),
    (264, 16384),
    (50000, 196),
    (100000, 256),
    (20, 131072),
)
LONG = (
    (1, 24576),
    (1000, 24576),
    (4099, 32768),
    (300, 40001),
    (333, 65536),
    (100, 131072),
    (40, 262144),
)
LARGEST_ERROR = {"bfloat16": 2.0**-8, "float": 5e-6}
"""Relative to the norm of the result."""

OF_LONG = LARGEST_ERROR | {"float": 8e-6}


@pytest.mark.parametrize("rings", ["auto", "never"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
def test_right_and_the_same_again(make, shape, dtype, rings):
    with knobs.scope(rings=rings):
        right_and_the_same_again(make(*shape, dtype), LARGEST_ERROR)


@pytest.mark.parametrize("shape", [(8192, 8192), (32768, 4096), (8192, 16384)], ids=str)
def test_blocks_that_keep_to_a_pace_leave_the_same_bits(shape):
    problem = norm_backward.rms_norm_bwd(*shape, "bfloat16")
    inputs = problem.draw()
    call = warpsmith.fuse(problem.fused)
    with knobs.scope(pace=True):
        assert "ws_await_clock" in str(call.lower(*inputs).compile().kernels[0].asm["cuda"])
        paced = outputs_of(call(*inputs))
    with knobs.scope(pace=False):
        assert "ws_await_clock" not in str(call.lower(*inputs).compile().kernels[0].asm["cuda"])
        free = outputs_of(call(*inputs))
    assert all(torch.equal(a, b) for a, b in zip(paced, free, strict=True))


@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
def test_row_counts_change_and_a_graph_replays(make):
    call = warpsmith.fuse(make(8, 4096, "bfloat16").fused)
    for rows in (1, 131, 132, 265, 5000):
        sized = make(rows, 4096, "bfloat16")
        inputs = sized.draw()
        found = outputs_of(call(*inputs))
        exact = outputs_of(sized.eager(*(x.double() for x in inputs)))
        for got, want in zip(found, exact, strict=True):
            assert relative_error(got, want) < LARGEST_ERROR["bfloat16"]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = outputs_of(call(*inputs))
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(captured, found, strict=True))


# --- clusters ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
@pytest.mark.parametrize("shape", LONG, ids=str)
@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
def test_long_rows_are_right_and_the_same_again(make, shape, dtype):
    right_and_the_same_again(make(*shape, dtype), OF_LONG, warp_specialize=False)


@pytest.mark.parametrize("cluster", [2, 4, 8, 16])
@pytest.mark.parametrize("shape", [(1000, 8192), (5000, 16384), (77, 12288), (50, 4100)], ids=str)
@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
def test_any_number_of_blocks(make, shape, cluster, monkeypatch):
    monkeypatch.setattr(turns, "CLUSTERS", (cluster,))
    right_and_the_same_again(make(*shape, "bfloat16"), OF_LONG, warp_specialize=False)


@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
def test_a_thousand_launches_give_the_same_bits(make):
    the_same_bits_a_thousand_times(make(1333, 32768, "bfloat16"))
