"""Tiles that are left for less than half a round, of which several blocks have parts of k."""

import re
from typing import Any

import numpy as np
import pytest

from tests.support.machine_code import machine_lines
from tests.support.product_programs import Array, check_behind_batches, close, forcing, values, wide
from warpsmith import DataType, FusionDefinition, ParallelType, ScheduleError, knobs
from warpsmith.codegen.cuda import cuda_text
from warpsmith.engine.executable import Executable
from warpsmith.ir import integers
from warpsmith.ir.rounds import last_parts
from warpsmith.schedulers.matmul.heuristic import Work
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H200

USUAL = {"splits": 1, "parts": 1, "ping_pong": 0, "cluster": (1, 1), "stages": 2, "group": 2}
force = forcing(**USUAL, stream=True, once=False)
"""Groups share a tile, of few stages, and blocks the last tiles, but for what is said."""


def operands(m: int, n: int, k: int) -> tuple[Array, Array]:
    return values((m, k), 1), values((n, k), 2)


def linear(x: Array, weight: Array) -> FusionDefinition:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.linear(fd.from_pytorch(x), fd.from_pytorch(weight)))
    return fd


@pytest.mark.few(1)
@pytest.mark.parametrize("k", [264, 520, 64, 0])
@pytest.mark.parametrize(
    "given",
    [
        {"tile": (64, 32, 64), "chunk": 32, "blocks": 4},  # two rounds of 9 tiles, and 4 parts
        {"tile": (64, 32, 64), "chunk": 32, "blocks": 7},  # a round, and 3 parts of two tiles
        {"tile": (64, 32, 64), "chunk": 32, "blocks": 5},  # a round, and a tile for most blocks
        {"tile": (64, 32, 64), "chunk": 32, "blocks": 20},  # 2 parts of all tiles
        {"tile": (64, 32, 64), "chunk": 32, "blocks": 8, "cluster": (2, 1)},
        {"tile": (128, 64, 64), "chunk": 32, "blocks": 3},
        {"tile": (64, 32, 64), "chunk": 0, "store_stages": 0, "staged": (), "blocks": 4},
    ],
)
def test_sums_are_whole(monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], k: int) -> None:
    """Tiles of edges; rounds of whole tiles or none; parts of several steps, of one and of none."""
    force(monkeypatch, **given)
    x, weight = operands(136, 72, k)
    fd = linear(x, weight)
    with knobs.scope(device="sim"):
        (result,) = fd.execute([x, weight])
        assert fd.verify([x, weight], schedules=2).verdict == "clean"
    close(result, wide(x) @ wide(weight).T, max(k, 1))
    assert "stream=True" in fd.explain()
    assert "DistributeTilesAcrossSMs, stream-K\n" in fd.explain()


def test_batches_and_what_is_behind_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of a residual and a bias come ahead in all blocks; two results leave one."""
    force(monkeypatch, tile=(64, 32, 64), chunk=16, blocks=7)
    check_behind_batches("stream=True")


def test_one_kernel_for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many rounds there are, and parts of the last tiles, each call says."""
    force(monkeypatch, tile=(64, 32, 64), chunk=32, blocks=7)
    with FusionDefinition() as fd:
        tensors = [fd.define_tensor([-1, -1], True, DataType.BFloat16) for _ in range(2)]
        fd.add_output(fd.ops.linear(*tensors))
    for m, n, k in ((136, 72, 264), (72, 40, 136), (520, 72, 72)):
        x, weight = operands(m, n, k)
        with knobs.scope(device="sim"):
            (result,) = fd.execute([x, weight])
        close(result, wide(x) @ wide(weight).T, k)


def test_sums_stay_where_tensor_cores_left_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers for both would be twice as many: 128 x 256 of two groups spilled 1160 bytes."""
    force(monkeypatch, tile=(64, 32, 64), chunk=32, blocks=7)
    x, weight = operands(136, 72, 264)
    (launch,) = Executable(linear(x, weight).fusion).plan_for([x, weight]).launches
    text = cuda_text(launch.compiled.kernel, H200)
    (reduced,) = re.findall(r"ws_grid_reduce<[^>]*>\((\w+), ", text)
    (multiplied,) = set(re.findall(r"ws_multiply_bfloat16_32\((\w+), ", text))
    assert reduced == multiplied
    assert "ws_await_products<1>();" in text


def test_whole_warps_know_who_adds_up_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each lane was told, ptxas had warps gather in front of all products: 31 times in 128 x
    208, which took 166 registers, not 130.
    """
    force(monkeypatch, tile=(64, 32, 64), chunk=32, blocks=7)
    x, weight = operands(136, 72, 264)
    (launch,) = Executable(linear(x, weight).fusion).plan_for([x, weight]).launches
    compiled = launch.compiled
    lines = machine_lines(compiled.binary.cubin, compiled.kernel.name)
    assert any("HGMMA" in line for line in lines)
    assert not [line for line in lines if "WARPSYNC" in line]


@pytest.mark.parametrize(
    ("tiles", "blocks", "steps", "parts"),
    [(9, 4, 5, 4), (9, 7, 5, 3), (9, 5, 5, 1), (8, 4, 5, 4), (133, 132, 64, 8), (9, 4, 2, 2)],
)
def test_parts_of_the_last_tiles(tiles: int, blocks: int, steps: int, parts: int) -> None:
    """As many as there are blocks for each, and steps; never more than one block should add up."""
    assert integers.constant(last_parts(tiles, blocks, steps)) == parts


def test_a_last_round_that_is_nearly_empty_is_predicted_to_be_short() -> None:
    """5112 x 1384 x 8360 in tiles of 128 x 208, 280 of them: 225 us, and 185 where blocks share the
    last 16 of them (an H200, 2026-11-26).
    """
    problem = Problem(values={}, alignment={}, target=H200)
    work = Work(m=5112, n=1384, k=8360, turned=(True, False))
    ways = {
        params.stream: us
        for params, us in work.ranked(problem)
        if params.tile[:2] == (128, 208) and params.cluster == (2, 1)
        if params.splits == params.parts == 1 and not params.ping_pong
    }
    assert ways[False] == pytest.approx(225, rel=0.2)
    assert ways[True] / ways[False] == pytest.approx(185 / 225, rel=0.06)


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        ({1: ParallelType.part}, "no loop over tiles is bound to it, though one is to part"),
        ({0: ParallelType.stream_k}, "and T1 has the loops"),
    ],
)
def test_loops_of_which_nobody_can_have_parts(bound: dict[int, ParallelType], words: str) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        y = fd.ops.sum(x, [1])
        fd.add_output(y)
        y.split(0, 4)
        for place, kind in bound.items():
            y.axis(place).parallelize(kind)
    with pytest.raises(ScheduleError, match=f"WS0384.*{words}"):
        fd.manual_execute([np.ones((8, 3), np.float32)])
