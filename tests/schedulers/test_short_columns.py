"""Short columns, each reduced in one pass: blocks, kernels without exchange, results."""

import itertools
import math
from dataclasses import fields

import numpy as np
import pytest

from tests.support.launching import check_automatic, check_segments, random_inputs
from tests.support.lowering import lowered
from tests.support.program import Program
from warpsmith.engine.demands import check_call
from warpsmith.engine.planned import PlannedSegment
from warpsmith.errors import ArgumentError
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.kernel.nodes import CopyVector, For
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.traversal import walk
from warpsmith.knobs import Knobs
from warpsmith.planner.segment import Segment, Unfit
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.params import ReductionParams
from warpsmith.schedulers.reduction.short import (
    MOST_THREADS,
    SHORT,
    WIDEST,
    ShortBlock,
    short_block,
)
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

FLOAT, BFLOAT16 = DataType.Float, DataType.BFloat16
NOTHING = Problem(values={}, alignment={}, target=H200)
SMS = NOTHING.target.sm_count


def summed(inputs: int = 1, dtype: DataType = FLOAT) -> Program:
    """As many sums of columns as inputs, in bfloat16, as the second kernel of a norm has them."""
    p = Program()
    given = [p.input(dtype, (None, None)) for _ in range(inputs)]
    columns = [p.cast(x, FLOAT) for x in given]
    if inputs == 2:
        columns = [p.op(op, *columns) for op in ("add", "sub")]
    return p.output(*(p.cast(p.reduce("sum", x, [0]), BFLOAT16) for x in columns))


def block(rows: int, columns: int, vector: int = 8, loads: tuple[int, ...] = (4,)) -> ShortBlock:
    found = short_block(rows, columns, vector, list(loads), NOTHING)
    assert found is not None
    return found


def chosen(candidate: Candidate, rows: int, columns: int, inputs: int = 1) -> ReductionParams:
    sizes = {f"T{k}_size{d}": n for k in range(inputs) for d, n in enumerate((rows, columns))}
    params, values = candidate.choose(Problem(values=sizes, alignment={}, target=H200))
    assert isinstance(params, ReductionParams)
    assert params.exact == (not values)
    return params


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize(
    ("rows", "columns", "lanes", "blocks"),
    [
        (264, 256, 2, 32),
        (264, 1024, 2, 128),
        (264, 2048, 4, 128),
        (264, 4096, 8, 128),
        (132, 5120, 4, 320),
        (132, 8192, 16, 128),
        (264, 8192, 16, 128),
        (132, 16384, 32, 128),
        (132, 24576, 16, 384),
        (66, 16384, 32, 128),
        (66, 24576, 16, 384),
        (66, 32768, 32, 256),
    ],
)
def test_partial_sums_of_a_norm(
    rows: int, columns: int, lanes: int, blocks: int, inputs: int
) -> None:
    found = block(rows, columns, loads=(4,) * inputs)
    assert (found.vector, found.block_x, found.unroll) == (4, lanes, 9)
    assert -(-columns // (4 * lanes)) == blocks
    assert found.block_y == (32 if rows > 144 else 16 if rows > 72 else 8)


@pytest.mark.parametrize(("rows", "columns"), [(7, 262144), (15, 131072), (7, 131072)])
def test_few_sums_of_many_columns_are_for_wide_blocks(rows: int, columns: int) -> None:
    """Else each of thousands of blocks starts for a few loads."""
    assert block(rows, columns, loads=(4, 4)).block_x == WIDEST


@pytest.mark.parametrize("loads", [(2,), (4,), (8,), (4, 4), (2, 2, 4), (4,) * 20])
@pytest.mark.parametrize("columns", [1, 7, 64, 999, 4096, 10000, 33792])
def test_a_block_has_its_columns_whole(columns: int, loads: tuple[int, ...]) -> None:
    for rows in (1, 5, 32, 33, 100, 144, 145, 288, 300, 512):
        found = short_block(rows, columns, 8, list(loads), NOTHING)
        if found is None:
            continue
        threads = found.block_x * found.block_y
        assert found.block_y * found.unroll >= rows
        assert 32 <= threads <= MOST_THREADS
        assert found.unroll * len(loads) <= max(18, len(loads))
        assert found.vector * max(loads) <= 16
        # A sector at least, unless a row is shorter; and hardly more blocks than multiprocessors
        # where a block's row is more than two requests.
        widest = MOST_THREADS // found.block_y * found.vector
        assert found.block_x * found.vector >= min(32 // max(loads), columns, widest)
        at_once = SMS * min(widest, WIDEST * found.vector)
        if found.block_x * found.vector * max(loads) > 128 and columns <= at_once:
            assert -(-columns // (found.block_x * found.vector)) <= SMS


@pytest.mark.parametrize(
    ("rows", "columns", "loads"),
    [(513, 64, (4,)), (64, 1 << 20, (2,)), (288, 32768, (4,)), (1 << 20, 64, (2,)), (10, 10, ())],
)
def test_long_and_many_columns_are_left_to_others(
    rows: int, columns: int, loads: tuple[int, ...]
) -> None:
    assert short_block(rows, columns, 4, list(loads), NOTHING) is None


def test_a_row_count_changes_parameters_at_listed_lengths_only() -> None:
    candidate = select(summed().fusion, H200)
    found = [chosen(candidate, rows, 4096) for rows in range(1, 513)]
    changes = [n for n, (a, b) in enumerate(itertools.pairwise(found), start=1) if a != b]
    assert changes == list(SHORT[:-1])
    assert all(params.exact for params in found)
    assert not chosen(candidate, 513, 4096).exact


def test_rows_variances_and_rings_are_not_short_columns() -> None:
    p = Program()
    x = p.input(FLOAT, (None, None))
    p.output(p.reduce("sum", x, [1]))
    assert not chosen(select(p.fusion, H200), 100, 64).exact
    p = Program()
    p.output(p.copy(p.welford(p.input(FLOAT, (None, None)), [0])[1]))
    assert not chosen(select(p.fusion, H200), 100, 64).exact
    candidate = select(summed().fusion, H200)
    sizes = {"T0_size0": 256, "T0_size1": 4096}
    params, _ = candidate.choose(Problem(values=sizes, alignment={}, rings="prefer", target=H200))
    assert isinstance(params, ReductionParams)
    assert params.ring
    assert not params.exact


@pytest.mark.parametrize("inputs", [1, 2])
def test_all_loads_come_first_and_blocks_exchange_nothing(inputs: int) -> None:
    candidate = select(summed(inputs).fusion, H200)
    params = chosen(candidate, 264, 4096, inputs)
    kernel = lowered(candidate.scheduled(params))
    reduces = [s for s in walk(kernel.body) if isinstance(s, Reduce)]
    assert len(reduces) == inputs
    assert not any(reduce.grid_axes for reduce in reduces)
    assert not any(b.name.endswith(("_parts", "_arrivals")) for b in kernel.parameters)
    assert kernel.launch.grid[1] == integers.ONE
    loops = [s for s in kernel.body if isinstance(s, For)]
    loading = [any(isinstance(inner, CopyVector) for inner in walk((s,))) for s in loops]
    first = loading.index(True)
    assert loading[first : first + inputs] == [True] * inputs
    loads = loops[first : first + inputs]
    assert all(s.unroll and s.extent == integers.index(9) for s in loads)
    assert (integers.index(288),) == tuple(integers.index(most) for _, most in kernel.limits)


def test_longer_columns_are_not_launched(tmp_path) -> None:
    p = summed()
    candidate = select(p.fusion, H200)
    planned = PlannedSegment(Segment(p.fusion, H200), candidate)
    knobs = Knobs(cache_dir=tmp_path)
    short = Problem(values={"T0_size0": 264, "T0_size1": 64}, alignment={}, target=H200)
    compiled, _, params = planned.choose(short, DataType.Int32, knobs)
    assert isinstance(params, ReductionParams)
    assert params.exact
    long = Problem(values={"T0_size0": 289, "T0_size1": 64}, alignment={}, target=H200)
    with pytest.raises(ArgumentError, match="289, and .* was scheduled for at most 288") as failure:
        check_call(compiled, long, {})
    assert failure.value.code == "WS0325"


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "shape", [(1, 8), (2, 1), (31, 40), (33, 24), (145, 9), (264, 32), (288, 8), (300, 17), (0, 8)]
)
@pytest.mark.parametrize("dtype", [FLOAT, BFLOAT16])
def test_results(dtype: DataType, shape: tuple[int, int]) -> None:
    p = summed(2, dtype)
    arrays = random_inputs(p.fusion, dict.fromkeys(("T0", "T1"), shape))
    _, kernel = check_automatic(p.fusion, arrays, terms=max(math.prod(shape), 1))
    assert not any(s.grid_axes for s in walk(kernel.body) if isinstance(s, Reduce))


@pytest.mark.parametrize("op", ["max", "min", "prod", "sum"])
def test_operations_and_what_follows(op: str) -> None:
    p = Program()
    x, bias = p.input(FLOAT, (None, None, None)), p.input(FLOAT, (None, None))
    p.output(p.op("add", p.reduce(op, p.op("neg", x), [1]), bias))
    inputs = random_inputs(p.fusion, {"T0": (3, 37, 12), "T1": (3, 12)})
    check_automatic(p.fusion, inputs, terms=64)


def test_padded_columns() -> None:
    p = Program()
    p.output(p.reduce("sum", p.input(FLOAT, (None, None), contiguity=(False, True)), [0]))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": (50, 13)}), terms=64)


def test_sums_that_are_needed_again_pass_through_memory() -> None:
    p = Program()
    x = p.input(FLOAT, (None, None))
    p.output(p.op("sub", x, p.broadcast(p.reduce("sum", x, [0]), [True, False])))
    inputs = random_inputs(p.fusion, {"T0": (70, 24)})
    why = "columns are to go through memory here"
    without = tuple(Unfit(name, why) for name in ("outer_persistent", "outer_grid"))
    assert check_segments(p.fusion, inputs, terms=70, without=without) == 2


def test_parameters_say_all_that_was_chosen() -> None:
    params = chosen(select(summed().fusion, H200), 264, 4096)
    text = ", ".join(f"{f.name}={getattr(params, f.name)}" for f in fields(params))
    assert "block_x=8, block_y=32" in text
    assert "exact=True" in text
    assert np.prod((params.block_x, params.block_y)) == 256
