"""Welford's steps of a pass move the mean together, around what stands for one at first."""

import numpy as np
import pytest

import warpsmith
from tests.support.launching import check_automatic, check_scheduled
from tests.support.lowering import lowered
from tests.support.program import Program
from warpsmith import knobs, ops
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Reduction
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, Statement
from warpsmith.kernel.reductions import WelfordStep
from warpsmith.kernel.traversal import walk
from warpsmith.schedule.transforms import split
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

ROWS, COLUMNS, ALL = (1,), (0,), (0, 1)


def variance(dims: tuple[int, ...]) -> Program:
    p = Program()
    mean, m2, count = p.welford(p.input(DataType.Float, (None, None)), dims)
    return p.output(p.op("div", m2, count), p.copy(mean))


def variance_kernel(dims: tuple[int, ...], shape: tuple[int, int]) -> Kernel:
    fusion = variance(dims).fusion
    values = dict(zip(("T0_size0", "T0_size1"), shape, strict=True))
    candidate = select(fusion, H200)
    params, _ = candidate.choose(Problem(values=values, alignment={}, target=H200))
    return lowered(candidate.scheduled(params))


def steps(statements: tuple[Statement, ...]) -> list[WelfordStep]:
    return [s for s in walk(statements) if isinstance(s, WelfordStep)]


def rolled(kernel: Kernel) -> list[For]:
    return [s for s in walk(kernel.body) if isinstance(s, For) and not s.unroll]


@pytest.mark.parametrize(("dims", "shape"), [(ROWS, (64, 4096)), (ALL, (4096, 4096))])
def test_joined_steps_are_batched_where_no_predicate_stands(
    dims: tuple[int, ...], shape: tuple[int, int]
) -> None:
    full, ragged = rolled(variance_kernel(dims, shape))
    assert all(step.joined and step.batch is not None for step in steps(full.body))
    assert all(step.joined and step.batch is None for step in steps(ragged.body))


def test_steps_with_a_mean_each_are_batched_from_the_first_pass_on() -> None:
    full, ragged = rolled(variance_kernel(COLUMNS, (4096, 64)))
    assert all(not step.joined and step.batch is not None for step in steps(full.body))
    assert all(step.batch is None for step in steps(ragged.body))


@pytest.mark.few(3)
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("shape", [(1, 1), (70, 9), (200, 24), (1030, 4), (4, 1030), (40, 512)])
@pytest.mark.parametrize("dims", [ROWS, COLUMNS, ALL])
def test_right_far_from_zero(dims: tuple[int, ...], shape: tuple[int, int], splits: int) -> None:
    data = np.random.default_rng(0).normal(1e3, 1, shape).astype(np.float32)
    check_automatic(variance(dims).fusion, {"T0": data}, splits=splits, terms=data.size)


@pytest.mark.parametrize(("dims", "shape"), [(ROWS, (4, 2048)), (COLUMNS, (2048, 4))])
def test_an_outlier_in_first_place_costs_nothing(
    dims: tuple[int, ...], shape: tuple[int, int]
) -> None:
    data = np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)
    data[:1] = 1e6
    data[:, :1] = 1e6
    check_automatic(variance(dims).fusion, {"T0": data}, splits=2, terms=64)


@pytest.mark.parametrize("columns", [3, 700])
def test_rows_with_an_infinite_number_have_no_variance(columns: int) -> None:
    """Wherever it stands: the mean is infinite then, and its distance to it no number."""
    places = np.unique(np.linspace(0, columns - 1, 10).astype(int))
    x = np.ones((len(places) + 1, columns), np.float32)
    x[np.arange(len(places)), places] = np.inf
    x[-1, 0] = 1e30  # its square is too large, and the mean is not
    with knobs.scope(device="sim"):
        found = np.asarray(warpsmith.fuse(lambda x: ops.var(x, [1]))(x))
    assert np.isnan(found[:-1]).all()
    assert np.isposinf(found[-1])


@pytest.mark.parametrize("number", [1, 4, 7, 13])
def test_lanes_past_the_end_are_left_out(number: int) -> None:
    """Also where what stands in them, and every value, is far from zero."""
    p = Program()
    mean, m2, _ = p.welford(p.op("neg", p.input(DataType.Float, (number,))), [0])
    p.output(p.copy(mean), p.copy(m2))
    draft = p.fusion.draft()
    (step,) = (op for op in draft.operations if isinstance(op, Reduction))
    split(step.outputs[0], 0, 4)
    data = np.random.default_rng(2).normal(1e3, 1, number).astype(np.float32)
    kernel = check_scheduled(draft, p.fusion, {"T0": data}, terms=64)
    assert [len(s.inside) for s in steps(kernel.body)] == [0 if number == 4 else 4]
