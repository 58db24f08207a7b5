"""Images whose channels are summed, then groups of them: vectors go across the ends of groups."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.group_norm import group_norm, group_norm_bwd
from bench.images import Images
from bench.instance_norm import instance_norm_bwd
from bench.problem import Problem as Bench
from bench.row_shapes import plan
from tests.schedulers.test_parts import Make, check_right, schedulers
from tests.support.launching import check_scheduled, random_inputs, values_of
from tests.support.program import Program
from warpsmith import FusionDefinition, fuse, knobs, ops
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Reduction
from warpsmith.ir.tensor import TensorView
from warpsmith.schedulers.outer_groups.applicability import refusal
from warpsmith.schedulers.outer_groups.heuristic import Groups
from warpsmith.schedulers.outer_groups.shapes import (
    OuterGroupsParams,
    Work,
    best,
    grid_of,
    shapes,
)
from warpsmith.schedulers.parts import heuristic as parts
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.apply import SPLITS
from warpsmith.schedulers.reduction.recompute import clone_of
from warpsmith.schedulers.select import refusals, select
from warpsmith.targets.hopper import H200

FLOAT = DataType.Float
ELSEWHERE = (("parts", "channels are to be summed first here"),)

WAYS = {
    "a grid": {"cluster": 0, "block_y": 4, "kept": 1},
    "a grid that keeps nothing": {"cluster": 0, "block_y": 4, "kept": 0},
    "rounds of a grid": {"cluster": 0, "block_y": 4, "kept": 9, "rounds": True},
    "a cluster": {"cluster": 2, "block_y": 4, "kept": 9},
    "a block": {"cluster": 1, "block_y": 3, "kept": 9},
}


def force(monkeypatch: pytest.MonkeyPatch, **given: int) -> None:
    """Group norms go this way."""

    def best(groups: Groups, problem: Problem) -> tuple[float, OuterGroupsParams]:
        work, vector = groups.images(problem), groups.run.vector(problem)
        return 0.0, replace(next(shapes(work, vector, problem.target)), unroll=2, **given)

    monkeypatch.setattr(parts, "unsupported_sizes", lambda *given, **named: "not here")
    monkeypatch.setattr(Groups, "best", best)


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
@pytest.mark.parametrize("make", [group_norm, group_norm_bwd])
@pytest.mark.parametrize("way", WAYS)
def test_elements_are_read_once(
    way: str, make: Make, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of three channels, in vectors of eight and of four; the last turn is not whole."""
    force(monkeypatch, **WAYS[way])
    problem = make(Images(2, 96, 7, True), dtype)
    call = plan(problem)
    assert schedulers(problem)[0] == "outer_groups"
    params, kernel = call.launches[0].params, call.launches[0].compiled.kernel
    assert isinstance(params, OuterGroupsParams)
    assert {"T0", "T0 after the reduction"} <= set(params.vectorized)
    assert any(buffer.name.endswith("_kept") for buffer in kernel.shared) == (params.kept > 0)
    check_right(problem)


def gradient(*, twice: bool = False) -> Program:
    """Of a norm of groups, with an input for each of them that both sides need, and one for their
    channels that all groups share.
    """
    p = Program()
    x, dy = (p.input(FLOAT, (None, None, 4, None)) for _ in range(2))
    scale, weight = p.input(FLOAT, (None, 4)), p.input(FLOAT, (None,))
    shared = p.broadcast(weight, [True, True, True, False])
    wide = p.op("mul", p.broadcast(scale, [False, True, False, True]), shared)
    product = p.op("mul", p.op("mul", x, wide), dy)
    sums = [p.reduce("sum", t, [1]) for t in (dy, product)]
    first, second = (p.reduce("sum", t, [2]) for t in sums)
    scaled = p.op("mul", p.op("mul", first, scale), second)
    over = p.broadcast(scaled, [False, True, False, True])
    p.output(p.op("sub", p.op("mul", dy, wide), over), *sums, scaled)
    if twice:
        p.output(p.reduce("sum", p.op("mul", dy, over), [1]))
    return p


SHAPES = {"T0": (2, 19, 4, 6), "T1": (2, 19, 4, 6), "T2": (2, 4), "T3": (6,)}


@pytest.mark.parametrize("cluster", [0, 2])
def test_what_groups_and_channels_need_is_loaded_for_both(cluster: int) -> None:
    p = gradient()
    arrays = random_inputs(p.fusion, SHAPES)
    candidate = select(p.fusion, H200, refusals(p.fusion, H200, ELSEWHERE))
    assert candidate.scheduler == "outer_groups"
    problem = Problem(values=values_of(p.fusion, arrays), alignment={}, target=H200)
    params, _ = candidate.choose(problem)
    assert isinstance(params, OuterGroupsParams)
    assert {"T0", "T1"} <= set(params.vectorized), "groups lie side by side there"
    assert "T3" not in params.vectorized
    scheduled = candidate.scheduled(replace(params, block_y=4, cluster=cluster, kept=1))
    symbols = {SPLITS: 3} if not cluster else {}
    check_scheduled(scheduled, p.fusion, arrays, launch_values=symbols, terms=19 * 6)


def test_statistics_that_are_results_are_those_of_the_norm() -> None:
    """Both are read where groups have a value each, and spread: they come from one reduction."""
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[2, 19, 4, 6], contiguity=True, dtype=FLOAT)
        variance, mean = fd.ops.var_mean(x, [1, 3], 0, True)
        for result in (mean, variance, fd.ops.mul(fd.ops.sub(x, mean), variance)):
            fd.add_output(result)
    candidate = select(fd.fusion, H200, refusals(fd.fusion, H200, ELSEWHERE))
    assert candidate.scheduler == "outer_groups"
    arrays = random_inputs(fd.fusion, {"T0": (2, 19, 4, 6)})
    params, _ = candidate.choose(
        Problem(values=values_of(fd.fusion, arrays), alignment={}, target=H200)
    )
    assert isinstance(params, OuterGroupsParams)
    scheduled = candidate.scheduled(replace(params, block_y=4, cluster=2, kept=1))
    joins = [op for op in scheduled.operations if isinstance(op, Reduction)]
    assert len(joins) == 3, "of a thread, a block, a group"
    check_scheduled(scheduled, fd.fusion, arrays, terms=19 * 6)


def test_a_clone_is_of_the_result_that_was_asked_for() -> None:
    p = Program()
    results = p.welford(p.input(FLOAT, (None, 4)), [1])
    p.output(*results)
    made: dict[TensorView, TensorView] = {}
    clones = [clone_of(p.fusion, result, made) for result in results]
    assert {clone.definition for clone in clones} == {clones[0].definition}
    assert clones[0].definition is not None
    assert list(clones[0].definition.outputs) == clones
    assert len({t.name for t in (*results, *clones)}) == 6


def test_fusions_that_it_does_not_take() -> None:
    assert refusal(gradient().fusion) == ""
    assert refusal(gradient(twice=True).fusion).endswith("reduces what was reduced before")
    p = Program()
    x = p.input(FLOAT, (None, 8, None))
    total = p.reduce("sum", x, [0, 2])
    p.output(p.op("sub", x, p.broadcast(total, [True, False, True])))
    assert refusal(p.fusion).startswith("no weights tell"), "these are channels of several images"


def work(problem: tuple[int, int, int], *, backward: bool, moments: bool) -> Work:
    """Of images in bfloat16, of so many channels and pixels a side, in 32 groups."""
    images, channels, side = problem
    return Work(
        images=images,
        area=side**2,
        channels=channels,
        groups=32,
        inputs=2 if backward else 1,
        loaded=4 if backward else 2,
        stored=2,
        states=12 if moments else 8,
        moments=moments,
    )


@pytest.mark.parametrize(
    ("size", "backward", "measured"),
    [
        ((35, 32, 151), False, 51.1),
        ((44, 288, 35), True, 45.2),
        ((20, 192, 53), True, 30.2),
        ((88, 128, 21), True, 15.6),
    ],
)
def test_a_fit_is_held_to_times(
    size: tuple[int, int, int], backward: bool, measured: float
) -> None:
    """Microseconds of one H200, 2026-11-26, less two for the sums of all images."""
    found = best(work(size, backward=backward, moments=not backward), 8, H200)
    assert found is not None
    assert found[0] == pytest.approx(measured, rel=0.15)


def test_what_blocks_hold_fits() -> None:
    limits = H200.family.limits
    for size in ((35, 32, 151), (38, 1280, 21), (300, 64, 9)):
        given = work(size, backward=False, moments=True)
        for shape in shapes(given, 8, H200):
            grid = grid_of(given, shape, H200)
            assert shape.threads <= limits.block_threads
            turn = shape.threads * shape.vector * shape.unroll * given.loaded
            assert shape.kept * turn < limits.sm_shared // shape.blocks_per_sm
            assert grid.splits * grid.turns * shape.block_y * shape.unroll >= given.area
            if shape.cluster:
                assert grid.turns <= shape.kept + 1
            else:
                assert grid.images * grid.splits <= shape.blocks_per_sm * H200.sm_count


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("problem", "scheduler"),
    [
        (group_norm(Images(35, 32, 151, True), "bfloat16"), "outer_groups"),
        (group_norm_bwd(Images(13, 32, 91, True), "bfloat16"), "outer_groups"),
        (group_norm_bwd(Images(20, 192, 53, True), "bfloat16"), "outer_groups"),
        (group_norm(Images(22, 640, 11, True), "bfloat16"), "parts"),
        (group_norm(Images(35, 32, 151, False), "bfloat16"), "parts"),
        (instance_norm_bwd(Images(15, 32, 63, True), "bfloat16"), "outer_grid"),
    ],
    ids=lambda value: value.title if isinstance(value, Bench) else str(value),
)
def test_who_has_images(problem: Bench, scheduler: str) -> None:
    assert schedulers(problem)[0] == scheduler
    launch, limits = plan(problem).launches[0], H200.family.limits
    if isinstance(launch.params, OuterGroupsParams):
        blocks, kept = launch.params.blocks_per_sm, launch.params.kept
        assert kept > 0
        assert blocks * (launch.shared_bytes + limits.shared_taken) <= limits.sm_shared


@pytest.mark.parametrize("make", [group_norm, group_norm_bwd])
def test_one_image_is_shared_by_all_blocks(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dimension of one element is none: loops begin with the groups."""
    force(monkeypatch, cluster=0, block_y=4, kept=1)
    problem = make(Images(1, 96, 6, True), "bfloat16")
    params = plan(problem).launches[0].params
    assert isinstance(params, OuterGroupsParams)
    assert params.vector == 8
    check_right(problem)


def test_vectors_divide_channels_that_groups_do_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """That 24 channels are three vectors follows from no factor of three groups."""
    monkeypatch.setattr("bench.group_norm.GROUPS", 3)
    force(monkeypatch, cluster=1, block_y=4, kept=9)
    problem = group_norm(Images(2, 24, 4, True), "bfloat16")
    assert schedulers(problem) == ["outer_groups"]
    check_right(problem)


@pytest.mark.filterwarnings("error")
def test_groups_of_any_number_are_not_taken() -> None:
    """Shared memory has results of each: a schedule was begun that could not be laid."""

    def centered(x: Any) -> Any:
        return x - ops.mean(x, [1, 3], True)

    x = np.random.default_rng(0).standard_normal((8, 3, 9, 7)).astype(np.float32)
    with knobs.scope(device="sim"):
        found = fuse(centered)(x)
    np.testing.assert_allclose(found, x - x.mean((1, 3), keepdims=True), rtol=1e-5, atol=1e-6)
