"""Rows that the blocks of a grid share, in one piece or several, wherever these begin in memory."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import warpsmith
from bench import batch_norm as bench
from bench.images import Images
from bench.problem import Problem as Bench
from bench.row_shapes import plan
from tests.support.grids import params_that_fit
from tests.support.launching import check_scheduled, random_inputs, values_of
from tests.support.program import Program
from warpsmith import knobs, ops
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import CopyVector, If
from warpsmith.kernel.reductions import Reduce, WelfordStep
from warpsmith.kernel.traversal import walk
from warpsmith.lower import reductions as steps
from warpsmith.schedulers.inner_grid.applicability import refusal
from warpsmith.schedulers.inner_grid.shapes import InnerGridParams, Work, grid_of, shapes
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.apply import SPLITS
from warpsmith.schedulers.rows.across import unfit_across
from warpsmith.schedulers.select import refusals, select
from warpsmith.targets.hopper import H200

BF16, FLOAT = DataType.BFloat16, DataType.Float
ELSEWHERE = (("parts", "rows are shared here"), ("inner_persistent", "rows are shared here"))
SMALL = InnerGridParams(vector=8, unroll=2, block_x=32, blocks_per_sm=1, kept=1)


def batch_norm(dtype: DataType = BF16, rank: int = 3, kept: int = 1) -> Program:
    """All dimensions but one are reduced, which has weights."""
    p = Program()
    x = p.cast(p.input(dtype, (None,) * rank), FLOAT)
    mean, m2, _ = p.welford(x, [d for d in range(rank) if d != kept])
    over = [d != kept for d in range(rank)]
    scale = p.op("mul", p.op("rsqrt", m2), p.input(FLOAT, (None,)))
    centred = p.op("sub", x, p.broadcast(mean, over))
    p.output(p.cast(p.op("mul", centred, p.broadcast(scale, over)), dtype))
    p.output(mean, m2)
    return p


def gradient(dtype: DataType = BF16) -> Program:
    """Two inputs and two sums."""
    p = Program()
    x, dy = (p.cast(p.input(dtype, (None,) * 3), FLOAT) for _ in range(2))
    sums = [p.reduce("sum", t, [0, 2]) for t in (dy, p.op("mul", x, dy))]
    first, second = (p.broadcast(t, [True, False, True]) for t in sums)
    inside = p.op("sub", p.op("sub", dy, first), p.op("mul", x, second))
    p.output(p.cast(inside, dtype), *sums)
    return p


def check(p: Program, shape: tuple[int, ...], splits: int = 2, **given: int | bool) -> Kernel:
    """The kernel of SMALL with other parameters, on the simulator, against the meaning."""
    sizes = [shape if t.rank == len(shape) else shape[1:2] for t in p.fusion.input_tensors]
    names = [tensor.name for tensor in p.fusion.input_tensors]
    arrays = random_inputs(p.fusion, dict(zip(names, sizes, strict=True)))
    candidate = select(p.fusion, H200, refusals(p.fusion, H200, ELSEWHERE))
    assert candidate.scheduler == "inner_grid"
    whole = tuple(c.name for c in candidate.caches if c.memory.rank == len(shape))
    params = replace(SMALL, vectorized=whole, **given)  # type: ignore[arg-type]
    if params.vector == 1:
        params = replace(params, vectorized=())
    return check_scheduled(
        candidate.scheduled(params),
        p.fusion,
        arrays,
        launch_values={} if params.cluster > 1 else {SPLITS: splits},
        terms=int(np.prod(shape)),
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("kept", [0, 1, 9])
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("make", [batch_norm, gradient])
def test_turns_are_kept_or_read_again(make: Callable[..., Program], splits: int, kept: int) -> None:
    kernel = check(make(), (7, 8, 120), splits, kept=kept)
    assert kernel.launch.together
    assert sum(isinstance(each, Reduce) and each.meets for each in walk(kernel.body)) == 1
    assert any(buffer.name.endswith("_kept") for buffer in kernel.shared) == (kept > 0)


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", [BF16, FLOAT])
@pytest.mark.parametrize("shape", [(5, 8, 49), (2, 16, 257), (40, 8, 35), (1, 8, 9), (3, 8, 8)])
@pytest.mark.parametrize("make", [batch_norm, gradient])
def test_pieces_that_begin_anywhere(
    make: Callable[..., Program], shape: tuple[int, ...], dtype: DataType
) -> None:
    """Fewer vectors than a turn, several turns, pieces of one vector or two, and whole vectors."""
    vector = 16 // dtype.size
    kernel = check(make(dtype), shape, across=True, vector=vector)
    under = [s for each in walk(kernel.body) if isinstance(each, If) for s in each.body]
    loads = [s for s in under if isinstance(s, CopyVector) and s.target.memory is MemoryType.local]
    assert not loads, "no load has a predicate, of which each would need one of its own"


@pytest.mark.parametrize(("make", "across"), [(batch_norm, True), (gradient, False)])
def test_blocks_of_a_cluster_keep_all_of_a_row(make: Callable[..., Program], across: bool) -> None:
    kernel = check(make(), (9, 8, 120), cluster=2, kept=2, across=across)
    assert kernel.launch.cluster_blocks == 2
    assert not kernel.launch.together
    assert any(buffer.name.endswith("_kept") for buffer in kernel.shared)


def test_pieces_of_rows_that_blocks_keep_alone() -> None:
    """`schedulers/rows` takes them so, too, and loads them without predicates."""
    p = gradient()
    arrays = random_inputs(p.fusion, {t.name: (8, 8, 135) for t in p.fusion.input_tensors})
    candidate = select(p.fusion, H200, refusals(p.fusion, H200, ELSEWHERE[:1]))
    problem = Problem(values=values_of(p.fusion, arrays), alignment={}, target=H200)
    chosen, _ = candidate.choose(problem)
    assert getattr(chosen, "across", False), chosen
    kernel = check_scheduled(candidate.scheduled(chosen), p.fusion, arrays, terms=1080)
    under = [s for each in walk(kernel.body) if isinstance(each, If) for s in each.body]
    assert not any(isinstance(s, CopyVector) and s.target.memory is MemoryType.local for s in under)


@pytest.mark.parametrize(
    "problem",
    [
        bench.batch_norm(Images(69, 640, 25, False), "bfloat16"),
        bench.batch_norm_bwd(Images(18, 384, 41, False), "bfloat16"),
    ],
    ids=lambda problem: str(problem.name),
)
def test_the_choice_loads_again_as_it_keeps(problem: Bench) -> None:
    """An input behind the meeting goes by the vectors in which it came before, or nothing stays."""
    (launch, *_) = plan(problem).launches
    assert isinstance(launch.params, InnerGridParams)
    assert launch.params.across
    kept = [each for each in launch.compiled.kernel.shared if each.name.endswith("_kept")]
    assert len(kept) == len([shape for shape in problem.shapes if len(shape) == 4])


def test_single_elements_are_loaded_again() -> None:
    """Turns are kept in vectors alone."""
    kernel = check(gradient(), (5, 3, 7), vector=1)
    assert not any(buffer.name.endswith("_kept") for buffer in kernel.shared)


def test_values_outside_of_a_piece_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moments leave out the lanes that a piece does not have."""
    kernel = check(batch_norm(), (5, 8, 49), across=True)
    asked = [s for s in walk(kernel.body) if isinstance(s, WelfordStep)]
    assert asked
    assert all(len(step.inside) == len(step.values) for step in asked)
    monkeypatch.setattr(steps, "_by_lanes", lambda asked: (asked[0], [[] for _ in asked]))
    with pytest.raises(AssertionError):
        check(batch_norm(), (5, 8, 49), across=True)


def test_rows_that_are_no_whole_vectors_side_by_side_are_read_otherwise() -> None:
    """Of 12 channels, pieces of one row begin at two places of a vector."""
    p = gradient()
    candidate = select(p.fusion, H200, refusals(p.fusion, H200, ELSEWHERE))
    for channels, fits in ((16, True), (12, False)):
        sizes = (100, channels, 79 * 79)
        images = p.fusion.input_tensors
        values = {f"{t.name}_size{d}": n for t in images for d, n in enumerate(sizes)}
        problem = Problem(values=values, alignment={}, target=H200)
        assert (not unfit_across(candidate.rows, problem)) == fits
        chosen, _ = candidate.choose(problem)
        assert isinstance(chosen, InnerGridParams)
        assert chosen.across == fits


WORK = Work(
    rows=96, pieces=137, piece=42 * 42, inputs=2, loaded=4, stored=2, states=8, moments=False
)
"""Backward of batch norm of 137x96x42x42 in bfloat16."""


@pytest.mark.parametrize("across", [False, True])
def test_blocks_run_at_once_and_take_equal_turns(across: bool) -> None:
    for shape in shapes(WORK, 8 if across else 4, H200, across=across):
        grid = grid_of(WORK, shape, H200)
        if shape.cluster > 1:
            assert (grid.splits, grid.turns) == (shape.cluster, shape.kept + 1)
        else:
            assert 1 <= grid.blocks <= shape.blocks_per_sm * H200.sm_count
        turn = shape.block_x * shape.unroll
        vectors = WORK.vectors(shape.vector, across=across)
        assert grid.splits * grid.turns * turn >= vectors > grid.splits * (grid.turns - 1) * turn


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("size", [(161, 96, 17), (7, 32, 103)], ids=str)
def test_where_vectors_have_ends_several_blocks_share_a_multiprocessor(
    size: tuple[int, int, int],
) -> None:
    """By one or two that have as many bytes they took 1.16 and 1.21 of the time."""
    call = plan(bench.batch_norm_bwd(Images(*size, inner=False), "bfloat16"))
    params = call.launches[0].params
    assert isinstance(params, InnerGridParams)
    assert params.across
    assert params.blocks_per_sm >= 4


@pytest.mark.parametrize("make", [batch_norm, gradient])
def test_what_blocks_hold_fits(make: Callable[..., Program]) -> None:
    p = make()
    candidate = select(p.fusion, H200, refusals(p.fusion, H200, ELSEWHERE))
    sizes = (100, 96, 79 * 79)
    images = [t for t in p.fusion.input_tensors if t.rank == 3]
    values = {f"{t.name}_size{d}": n for t in images for d, n in enumerate(sizes)}
    values |= {f"{t.name}_size0": 96 for t in p.fusion.input_tensors if t.rank == 1}
    assert isinstance(params_that_fit(candidate, values), InnerGridParams)


def test_columns_and_second_meetings_are_refused() -> None:
    p = Program()
    x = p.input(FLOAT, (None, None))
    p.output(p.op("sub", x, p.broadcast(p.reduce("max", x, [0]), [True, False])))
    assert "dimensions that are not rows" in refusal(p.fusion)
    p = Program()
    x = p.input(FLOAT, (None,) * 3)
    over = [True, False, True]
    first = p.op("sub", x, p.broadcast(p.reduce("max", x, [0, 2]), over))
    p.output(p.op("div", first, p.broadcast(p.reduce("sum", first, [0, 2]), over)))
    assert "reduces what was reduced before" in refusal(p.fusion)
    p = Program()
    x = p.input(FLOAT, (None, None))
    p.output(p.op("sub", x, p.broadcast(p.reduce("sum", x, [1]), [False, True])))
    assert "lies in one piece" in refusal(p.fusion)


def test_rows_of_which_nothing_is_loaded_are_held_against_none() -> None:
    """All elements of a piece are the same one: there is nothing for blocks to keep."""

    def normal(x: Any) -> Any:
        wide = ops.exp(ops.expand(x, [8, 8, 8]))
        variance, mean = ops.var_mean(wide, [0, 2], correction=0, keepdim=True)
        return ops.mul(ops.sub(wide, mean), ops.rsqrt(ops.add(variance, 0.001)))

    x = np.random.default_rng(4).standard_normal((8, 8, 1)).astype(np.float32)
    with knobs.scope(device="sim"):
        found = np.asarray(warpsmith.fuse(normal)(x))
    wide = np.exp(np.broadcast_to(x.astype(np.float64), (8, 8, 8)))
    centered = wide - wide.mean((0, 2), keepdims=True)
    expected = centered / np.sqrt(wide.var((0, 2), keepdims=True) + 0.001)
    np.testing.assert_allclose(found, expected, 1e-5, 1e-5)
