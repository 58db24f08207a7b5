"""Blocks of a grid that meet, on a GPU: bits, graphs, streams side by side, grids without room."""

from typing import Any

import numpy as np
import pytest

import warpsmith
from bench.batch_norm import batch_norm, batch_norm_bwd
from bench.group_norm import group_norm, group_norm_bwd
from bench.images import Images
from bench.problem import Problem, outputs_of
from tests.support.grid_meetings import ROWS, shares
from warpsmith.testing import relative_error

torch = pytest.importorskip("torch")

PROBLEMS = (
    batch_norm(Images(16, 64, 73, True), "bfloat16"),
    batch_norm_bwd(Images(64, 128, 28, True), "float"),
    batch_norm_bwd(Images(49, 96, 40, True), "bfloat16"),
    group_norm(Images(16, 32, 153, True), "bfloat16"),
    group_norm_bwd(Images(44, 288, 35, True), "bfloat16"),
)
LARGEST = {"bfloat16": 2e-2, "float": 1e-4}


def ready(problem: Problem) -> tuple[Any, Any, Any]:
    """The call, its inputs, and what comes of them in float64."""
    inputs = problem.draw()
    function = warpsmith.fuse(problem.fused)
    said = function.lower(*inputs).compile().explain()
    assert "scheduler   outer_grid" in said or "scheduler   outer_groups" in said
    return function, inputs, outputs_of(problem.eager(*(x.double() for x in inputs)))


def check(problem: Problem, found: Any, wanted: Any) -> None:
    for got, want in zip(outputs_of(found), wanted, strict=True):
        assert relative_error(got, want) < LARGEST[problem.dtype]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.title)
def test_right_and_the_same_bits_each_time(problem: Problem) -> None:
    function, inputs, wanted = ready(problem)
    first = outputs_of(function(*inputs))
    check(problem, first, wanted)
    for _ in range(50):
        again = outputs_of(function(*inputs))
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_graphs_hold_their_launches() -> None:
    function, inputs, wanted = ready(PROBLEMS[0])
    function(*inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = function(*inputs)
    for _ in range(20):
        graph.replay()
    torch.cuda.synchronize()
    check(PROBLEMS[0], found, wanted)


def test_streams_side_by_side_do_not_hold_each_other_up() -> None:
    """Each grid takes most of the GPU: none of them may start in part, and wait for the rest."""
    function, inputs, wanted = ready(PROBLEMS[0])
    streams = [torch.cuda.Stream() for _ in range(3)]
    found = []
    torch.cuda.synchronize()
    for turn in range(40):
        with torch.cuda.stream(streams[turn % 3]):
            found.append(function(*inputs))
    torch.cuda.synchronize()
    for each in found[-3:]:
        check(PROBLEMS[0], each, wanted)


def test_by_hand() -> None:
    rows = np.random.default_rng(0).uniform(1, 2, (30, ROWS)).astype(np.float32)
    given = torch.from_numpy(rows).cuda()
    (found,) = shares().manual_execute([given])
    np.testing.assert_allclose(found.cpu(), rows / rows.sum(1, keepdims=True), rtol=1e-5)
