"""Blocks, splits and their order, for rows, columns and everything."""

from __future__ import annotations

import pytest

from tests.support.lowering import lowered
from tests.support.program import Program
from warpsmith.ir.domains import GRID_TYPES, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.kernel import Kernel
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.heuristic import MOST_BLOCKS, ReductionParams
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

HIGHEST = H200.family.limits.grid_axes[1]

ROWS, COLUMNS, ALL = (1,), (0,), (0, 1)
SMS = Problem(values={}, alignment={}, target=H200).target.sm_count


def reduction(dims: tuple[int, ...], *, welford: bool = False) -> Candidate:
    p = Program()
    x = p.cast(p.input(DataType.BFloat16, (None, None)), DataType.Float)
    p.output(p.copy(p.welford(x, dims)[1]) if welford else p.reduce("sum", x, dims))
    return select(p.fusion, H200)


def chosen(
    candidate: Candidate, rows: int, columns: int
) -> tuple[ReductionParams, int, dict[str, int]]:
    """(parameters, splits, sizes)."""
    sizes = {"T0_size0": rows, "T0_size1": columns}
    params, values = candidate.choose(Problem(values=sizes, alignment={}, target=H200))
    assert isinstance(params, ReductionParams)
    return params, values.get("splits", 1), sizes


def grid_of(candidate: Candidate, rows: int, columns: int) -> dict[ParallelType, int]:
    params, splits, sizes = chosen(candidate, rows, columns)
    kernel: Kernel = lowered(candidate.scheduled(params))
    values = {**sizes, "splits": splits}
    counts = (evaluate(extent, values) for extent in kernel.launch.grid)
    return dict(zip(GRID_TYPES, counts, strict=True))


@pytest.mark.parametrize("welford", [False, True])
def test_a_few_long_rows_have_a_block_for_every_pass_one_row_after_the_other(
    welford: bool,
) -> None:
    candidate = reduction(ROWS, welford=welford)
    params, splits, _ = chosen(candidate, 64, 1 << 20)
    assert params.splits_first
    assert splits == (1 << 20) // (params.block_x * params.unroll * params.vector)
    grid = grid_of(candidate, 64, 1 << 20)
    assert (grid[ParallelType.grid_x], grid[ParallelType.grid_y]) == (splits, 64)


def test_many_rows_are_not_split() -> None:
    _, splits, _ = chosen(reduction(ROWS), 8192, 1 << 17)
    assert splits == 1


def test_more_rows_than_a_grid_is_high_keep_their_own_dimension() -> None:
    candidate = reduction(ROWS)
    assert chosen(candidate, HIGHEST, 1 << 17)[0].splits_first
    params, splits, _ = chosen(candidate, HIGHEST + 1, 1 << 17)
    assert not params.splits_first
    assert splits == 1
    assert grid_of(candidate, HIGHEST + 1, 1 << 17)[ParallelType.grid_y] == 1


@pytest.mark.parametrize("rows", [1, 1000, 1 << 20])
def test_a_row_count_changes_no_parameter(rows: int) -> None:
    for columns in (64, 4096, 16384):
        candidate = reduction(ROWS, welford=True)
        assert chosen(candidate, rows, columns)[0] == chosen(candidate, 17, columns)[0]


@pytest.mark.parametrize("elements", [1 << 10, 1 << 27, 1 << 33])
def test_everything_has_a_block_for_every_pass_up_to_a_limit(elements: int) -> None:
    params, splits, _ = chosen(reduction(ALL), elements >> 10, 1 << 10)
    passes = -(-elements // (params.block_x * params.unroll * params.vector))
    assert splits == min(passes, MOST_BLOCKS)


def test_columns_are_split_over_as_many_blocks_as_multiprocessors() -> None:
    _, splits, _ = chosen(reduction(COLUMNS, welford=True), 1 << 20, 64)
    assert SMS // 2 < splits <= SMS


@pytest.mark.parametrize(
    ("rows", "columns", "block", "splits"),
    [
        (2048, 4096, (4, 64), 1),
        (8192, 8192, (8, 64), 1),
        (8192, 16384, (16, 32), 1),
        (8192, 1024, (16, 16), 16),
        (1 << 20, 1024, (16, 32), 16),
    ],
)
def test_columns_are_narrow_where_that_spares_a_split(
    rows: int, columns: int, block: tuple[int, int], splits: int
) -> None:
    params, found, _ = chosen(reduction(COLUMNS), rows, columns)
    assert (params.block_x, params.block_y, found) == (*block, splits)


def test_registers_are_left_for_the_blocks_that_run_at_once() -> None:
    assert chosen(reduction(COLUMNS), 1 << 20, 64)[0].blocks_per_sm == 1
    assert chosen(reduction(COLUMNS), 1000, 65536)[0].blocks_per_sm == 2
    assert chosen(reduction(COLUMNS), 3, 8)[0].blocks_per_sm <= 16
    candidate = reduction(ROWS)
    params, _, _ = chosen(candidate, 8192, 16384)
    kernel = lowered(candidate.scheduled(params))
    assert kernel.launch.blocks_per_sm == params.blocks_per_sm == 2
