"""Blocks, splits and their order, for rows, columns and everything."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
import pytest

import warpsmith
from tests.support.lowering import lowered
from tests.support.program import Program
from warpsmith import ops
from warpsmith.ir.domains import GRID_TYPES, MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, Statement
from warpsmith.kernel.traversal import children, read, walk
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.heuristic import MOST_BLOCKS
from warpsmith.schedulers.reduction.params import ReductionParams
from warpsmith.schedulers.reduction.tall import Tall, tall_block
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


@pytest.mark.parametrize(("columns", "width"), [(96, 12), (224, 14), (480, 15), (256, 16)])
def test_no_thread_stands_beside_columns_that_some_width_divides(columns: int, width: int) -> None:
    for rows in (3000, 1 << 20):
        params, splits, _ = chosen(reduction(COLUMNS, welford=True), rows, columns)
        assert params.vector == 8
        assert params.block_x == width
        assert 224 <= params.block_x * params.block_y <= 512
        groups = columns // 8 // params.block_x
        assert rows < 10000 or SMS * 2 // 3 < groups * splits <= SMS


def test_columns_that_nothing_divides_keep_whole_pieces_of_memory() -> None:
    params, _, _ = chosen(reduction(COLUMNS), 1 << 16, 8 * 127)
    assert params.block_x == 16


def test_a_row_of_flags_widens_no_access_of_the_columns() -> None:
    p = Program()
    x = p.cast(p.input(DataType.BFloat16, (None, None)), DataType.Float)
    flags = p.broadcast(p.input(DataType.Bool, (None,)), [True, False])
    p.output(p.reduce("sum", p.op("where", flags, x, 0.0), COLUMNS))
    sizes = {"T0_size0": 4096, "T0_size1": 12288, "T2_size0": 12288}
    params, _ = select(p.fusion, H200).choose(Problem(values=sizes, alignment={}, target=H200))
    assert isinstance(params, ReductionParams)
    assert params.vector == 8  # flags would go by 16
    assert {"T0", "T2"} < set(params.vectorized)


def test_few_accesses_under_way_are_not_what_spares_a_split() -> None:
    """Of a norm's weights, whose rows are summed of a table as well: 27.6 us, 40.5 without."""
    tall = Tall(rows=4096, vectors=512, access=16, loads=40, unroll=2)
    assert tall_block(tall, H200) == (16, 32)


def two_inputs(*, over: tuple[int, int]) -> Candidate:
    """Both sums of a batch norm's backward: of `over` dimensions, `[rows, columns, rows]`."""
    p = Program()
    x, dy = (
        p.cast(p.input(DataType.BFloat16, (None, None, None)), DataType.Float) for _ in range(2)
    )
    mean = p.broadcast(p.input(DataType.Float, (None,)), [d in over for d in range(3)])
    p.output(p.reduce("sum", dy, over))
    p.output(p.reduce("sum", p.op("mul", dy, p.op("sub", x, mean)), over))
    return select(p.fusion, H200)


def sizes_of(shape: tuple[int, int, int], over: tuple[int, int]) -> dict[str, int]:
    kept = next(size for d, size in enumerate(shape) if d not in over)
    sizes = {f"T{n}_size{d}": size for n in (0, 2) for d, size in enumerate(shape)}
    return {**sizes, "T4_size0": kept}


@pytest.mark.parametrize("over", [(0, 1), (0, 2)])
def test_what_is_one_for_all_that_is_reduced_is_loaded_once(over: tuple[int, int]) -> None:
    candidate = two_inputs(over=over)
    sizes = sizes_of((64, 4096, 96), over)
    params, _ = candidate.choose(Problem(values=sizes, alignment={}, target=H200))
    assert isinstance(params, ReductionParams)
    kernel: Kernel = lowered(candidate.scheduled(params))
    inside = [n for loop in walk(kernel.body) if isinstance(loop, For) for n in walk(loop.body)]
    names = {buffer.name for statement in inside for buffer in read(statement)}
    assert {"T0", "T2"} <= names
    assert "T4" not in names


def test_blocks_with_narrow_accesses_take_several_passes() -> None:
    candidate = two_inputs(over=(0, 2))
    sizes = sizes_of((64, 96, 14641), (0, 2))
    params, values = candidate.choose(Problem(values=sizes, alignment={}, target=H200))
    assert isinstance(params, ReductionParams)
    assert params.vector == 1
    bytes_each = 64 * 14641 * 2 * 2 / values["splits"]
    assert bytes_each > 100_000
    assert values["splits"] * 96 >= 8 * SMS


@pytest.mark.parametrize("shape", [(200, 0), (0, 200), (1 << 20, 1)])
def test_columns_that_are_empty_or_one_have_a_block(shape: tuple[int, int]) -> None:
    params, splits, _ = chosen(reduction(COLUMNS), *shape)
    assert params.block_x == 1 or shape[1] > 1
    assert splits >= 1


def times_a_row(*, own: bool = False) -> Candidate:
    """Sums of rows times a row: one that all share, or each its own."""
    p = Program()
    x = p.cast(p.input(DataType.BFloat16, (None, None)), DataType.Float)
    shape = (None, None) if own else (None,)
    row = p.cast(p.input(DataType.BFloat16, shape), DataType.Float)
    other = row if own else p.broadcast(row, [True, False])
    p.output(p.reduce("sum", p.op("mul", x, other), ROWS))
    return select(p.fusion, H200)


def accesses(statements: Sequence[Statement], times: int = 1) -> Counter[str]:
    """How often global memory is read in one turn of all loops that are not written out."""
    found: Counter[str] = Counter()
    for statement in statements:
        turns = int(evaluate(statement.extent, {})) if _is_written_out(statement) else 1
        for buffer in read(statement):
            if buffer.memory is MemoryType.global_:
                found[buffer.name] += times
        found += accesses(children(statement), times * turns)
    return found


def _is_written_out(statement: Statement) -> TypeGuard[For]:
    return isinstance(statement, For) and statement.unroll


@pytest.mark.parametrize("columns", [512, 4096, 14336])
def test_a_row_that_all_rows_share_is_loaded_once_for_two(columns: int) -> None:
    def chosen_for(candidate: Candidate, rows: int) -> tuple[ReductionParams, int]:
        sizes = {"T0_size0": rows, "T0_size1": columns}
        sizes |= {"T2_size0": rows, "T2_size1": columns} if candidate is own else {}
        sizes |= {"T2_size0": columns} if candidate is shared else {}
        params, values = candidate.choose(Problem(values=sizes, alignment={}, target=H200))
        assert isinstance(params, ReductionParams)
        return params, values.get("splits", 1)

    shared, own = times_a_row(), times_a_row(own=True)
    params, splits = chosen_for(shared, 4096)
    assert (params.rows_per_thread, params.block_x * params.block_y, splits) == (2, 128, 1)
    kernel = lowered(shared.scheduled(params))
    assert params.whole
    assert not any(buffer.name.endswith("_arrivals") for buffer in kernel.parameters)
    loops = (s for s in kernel.body if isinstance(s, For))
    found = accesses(next(loop for loop in loops if accesses(loop.body)["T0"]).body)
    assert found == {"T0": 2 * params.unroll, "T2": params.unroll}
    assert chosen_for(shared, 512)[0].rows_per_thread == 1
    assert chosen_for(own, 4096)[0].rows_per_thread == 1


def beside(dims: tuple[int, ...], dtype: DataType, other: DataType) -> Candidate:
    """The gradient of a rectified sum with a bias: sums of what is also stored."""
    p = Program()
    x, kept = p.cast(p.input(dtype, (None, None)), DataType.Float), p.input(other, (None, None))
    kept = kept if other is DataType.Bool else p.cast(kept, DataType.Float)
    dx = p.op("where", kept, x, 0.0) if other is DataType.Bool else p.op("mul", x, kept)
    p.output(p.cast(dx, dtype), p.reduce("sum", dx, dims))
    return select(p.fusion, H200)


def chosen_beside(candidate: Candidate, rows: int, columns: int) -> ReductionParams:
    sizes = {f"T{n}_size{d}": size for n in (0, 2) for d, size in enumerate((rows, columns))}
    sizes |= {f"T1_size{d}": size for d, size in enumerate((rows, columns))}
    params, _ = candidate.choose(Problem(values=sizes, alignment={}, target=H200))
    assert isinstance(params, ReductionParams)
    return params


def test_columns_by_narrow_accesses_have_more_of_them_under_way() -> None:
    """16384x999 by elements of 2 and 1 bytes: 28.6 us; 46.7 by half the threads and accesses."""
    narrow = chosen_beside(beside(COLUMNS, DataType.BFloat16, DataType.Bool), 16384, 999)
    assert (narrow.vector, narrow.block_x * narrow.block_y, narrow.unroll) == (1, 1024, 8)
    wide = chosen_beside(beside(COLUMNS, DataType.Float, DataType.Float), 16384, 1024)
    assert (wide.vector, wide.block_x * wide.block_y, wide.unroll) == (4, 512, 4)


def test_rows_of_two_inputs_are_taken_in_one_pass() -> None:
    """Planes of 196: two vectors of each input in a thread, all under way."""
    params = chosen_beside(beside(ROWS, DataType.BFloat16, DataType.BFloat16), 32768, 196)
    assert params.unroll >= 2
    assert params.block_x * params.unroll * params.vector >= 196


def test_elements_at_computed_places_are_few_at_a_time() -> None:
    """Of a loss whose flags are stored 16 at a time: 64 of each thread spilled, 69.2 us in place of
    9.7 (16384x1000)."""

    def loss(x: Any, places: Any) -> Any:
        ignored = ops.eq(places, -100)
        chosen = ops.gather(x, ops.reshape(ops.where(ignored, 0, places), (-1, 1)), 1)
        each = ops.cast(ops.reshape(chosen, (-1,)), DataType.Float)
        return ignored, ops.sum(ops.where(ignored, 0.0, each))

    given = [np.empty((16384, 1000), np.float16), np.empty(16384, np.int64)]
    candidate = select(warpsmith.fuse(loss).lower(*given).fusion, H200)
    sizes = {"T0_size0": 16384, "T0_size1": 1000, "T1_size0": 16384}
    params, _ = candidate.choose(Problem(values=sizes, alignment={}, target=H200))
    assert isinstance(params, ReductionParams)
    assert params.vector * params.unroll <= 16
