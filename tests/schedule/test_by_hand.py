"""Schedules as people write them, one for each primitive, run."""

from collections.abc import Callable

import pytest

from tests.support.launching import check_scheduled, random_inputs
from tests.support.program import Program
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.nodes import For
from warpsmith.kernel.traversal import walk
from warpsmith.schedule.caches import cache_after, cache_before, rfactor
from warpsmith.schedule.inline import inline_at, inline_most
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import (
    merge,
    pad_allocation,
    parallelize,
    reorder,
    set_allocation_domain,
    set_memory_type,
    split,
)

GRID_X, GRID_Y = ParallelType.grid_x, ParallelType.grid_y
BLOCK_X, BLOCK_Y, BLOCK_Z = ParallelType.block_x, ParallelType.block_y, ParallelType.block_z


def others(fusion: Fusion) -> list[TensorView]:
    """Tensors that are neither inputs nor results of reductions."""
    return [t for t in fusion.tensors if not t.is_input and not t.has_reduction]


def matrix_sum(op: str, dims: tuple[int, ...]) -> Program:
    p = Program()
    x = p.input(DataType.Float, (None, None))
    return p.output(p.op("neg", p.reduce(op, p.op("mul", x, x), dims)))


def reduction_of(fusion: Fusion) -> TensorView:
    return next(t for t in fusion.tensors if t.has_reduction)


def spread(fusion: Fusion, reference: TensorView) -> None:
    transform_like(reference, others(fusion))
    parallelize_like(reference)
    inline_most(fusion)


def split_by_a_launch_symbol(fusion: Fusion) -> None:
    total = reduction_of(fusion)
    split(total, 1, Symbol("parts", low=1), inner_split=False)
    parallelize(total, 0, BLOCK_Y)
    parallelize(total, 1, BLOCK_X)
    partial = rfactor(total, [2])[0]
    spread(fusion, partial)


def rfactor_twice(fusion: Fusion) -> None:
    total = reduction_of(fusion)
    split(total, 1, 4)
    split(total, 1, 3)
    parallelize(total, 0, GRID_X)
    parallelize(total, 3, BLOCK_X)
    first = rfactor(total, [1])[0]
    rfactor(total, [1])
    spread(fusion, first)


def whole_grid(fusion: Fusion) -> None:
    total = reduction_of(fusion)
    split(total, 1, 2)
    parallelize(total, 0, GRID_X)
    parallelize(total, 1, GRID_Y)
    parallelize(total, 2, BLOCK_X)
    spread(fusion, total)


def three_block_axes(fusion: Fusion) -> None:
    total = reduction_of(fusion)
    split(total, 1, 3)
    split(total, 1, 2)
    for place, kind in enumerate((GRID_X, BLOCK_Z, BLOCK_Y, BLOCK_X)):
        parallelize(total, place, kind)
    spread(fusion, total)


def kept_between_reduced(fusion: Fusion) -> None:
    """Two elements of a thread are reduced across the block together."""
    total = reduction_of(fusion)
    split(total, 0, 2)
    reorder(total, {1: 2})
    parallelize(total, 0, GRID_X)
    parallelize(total, 1, BLOCK_X)
    parallelize(total, 2, ParallelType.unroll)
    spread(fusion, total)
    for tensor in fusion.tensors:
        if not tensor.is_input and tensor.compute_at > 1:
            tensor.compute_at = 1


REDUCTIONS: tuple[Callable[[Fusion], None], ...] = (
    split_by_a_launch_symbol,
    rfactor_twice,
    whole_grid,
    three_block_axes,
    kept_between_reduced,
)


@pytest.mark.few(8)
@pytest.mark.parametrize("shape", [(1, 1), (2, 13), (5, 6), (4, 12)])
@pytest.mark.parametrize("op", ["sum", "max"])
@pytest.mark.parametrize("schedule", REDUCTIONS)
def test_reductions_of_rows(
    schedule: Callable[[Fusion], None], op: str, shape: tuple[int, int]
) -> None:
    p = matrix_sum(op, (1,))
    scheduled = p.fusion.draft()
    schedule(scheduled)
    inputs = random_inputs(p.fusion, {"T0": shape})
    for parts in (1, 3):
        check_scheduled(scheduled, p.fusion, inputs, launch_values={"parts": parts}, terms=64)


@pytest.mark.parametrize("shape", [(1, 2), (3, 13), (4, 12)])
@pytest.mark.parametrize("schedule", [split_by_a_launch_symbol, rfactor_twice, whole_grid])
def test_variance_of_rows(schedule: Callable[[Fusion], None], shape: tuple[int, int]) -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None))
    mean, m2, count = p.welford(p.op("neg", x), [1])
    p.output(p.op("div", m2, count), p.copy(mean))
    scheduled = p.fusion.draft()
    schedule(scheduled)
    inputs = random_inputs(p.fusion, {"T0": shape})
    check_scheduled(scheduled, p.fusion, inputs, launch_values={"parts": 3}, terms=64)


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("by_columns", [True, False])
@pytest.mark.parametrize("shape", [(4, 4), (8, 12), (5, 9), (1, 3)])
def test_tiles_transposed_through_shared_memory(
    shape: tuple[int, int], by_columns: bool, padding: int
) -> None:
    p = Program()
    p.output(p.permute(p.copy(p.input(DataType.Float, (None, None))), (1, 0)))
    scheduled = p.fusion.draft()
    staged, output = (op.outputs[0] for op in scheduled.operations)
    set_memory_type(staged, MemoryType.shared)
    pad_allocation(staged, padding)
    for tensor, first in ((staged, 0), (output, 1)):
        split(tensor, 1, 4)
        split(tensor, 0, 4)
        reorder(tensor, {0: first, 2: 1 - first})
    if by_columns:
        set_allocation_domain(staged, (staged.loop[3], staged.loop[2]))
    for tensor in (staged, output):
        for place, kind in enumerate((GRID_X, GRID_Y, BLOCK_Y, BLOCK_X)):
            parallelize(tensor, place, kind)
    inline_at(output, 2, selected_tensors=[staged])
    inputs = random_inputs(p.fusion, {"T0": shape})
    kernel = check_scheduled(scheduled, p.fusion, inputs)
    (tile,) = kernel.shared
    assert repr(tile.size) == str(16 + 4 * padding)


def test_caches_of_single_uses() -> None:
    p = Program()
    x = p.input(DataType.Float, (None,))
    first, second = p.op("neg", x), p.op("exp", x)
    p.output(first, second)
    scheduled = p.fusion.draft()
    neg, exp = (op.outputs[0] for op in scheduled.operations)
    (source,) = scheduled.input_tensors
    cache = cache_after(source, cached_uses=[exp])
    cache_before(neg)
    inline_most(scheduled)
    assert scheduled.uses(cache) == (exp.definition,)
    assert len(scheduled.uses(source)) == 2
    check_scheduled(scheduled, p.fusion, random_inputs(p.fusion, {"T0": (5,)}))


def test_caches_of_one_input_read_along_different_axes() -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None))
    p.output(p.op("add", x, p.permute(x, (1, 0))))
    scheduled = p.fusion.draft()
    (source,) = scheduled.input_tensors
    turned, total = (op.outputs[0] for op in scheduled.operations)
    cache_after(source, cached_uses=[turned])
    cache_after(source, cached_uses=[total])
    transform_like(total)
    inline_most(scheduled)
    check_scheduled(scheduled, p.fusion, random_inputs(p.fusion, {"T0": (5, 5)}))


def test_cache_before_takes_the_readers_along() -> None:
    p = Program()
    first = p.op("neg", p.input(DataType.Float, (None,)))
    p.output(first, p.op("exp", first))
    scheduled = p.fusion.draft()
    output = scheduled.outputs[0].value
    cache = cache_before(output)
    inline_most(scheduled)
    assert scheduled.uses(output) == ()
    assert len(scheduled.uses(cache)) == 2
    check_scheduled(scheduled, p.fusion, random_inputs(p.fusion, {"T0": (5,)}))


def test_results_of_welford_are_scheduled_together() -> None:
    p = Program()
    mean, m2, count = p.welford(p.op("neg", p.input(DataType.Float, (6, 8))), [1])
    p.output(p.op("div", m2, count))
    split(m2, 1, 4)
    merge(mean, 1)
    split(count, 1, 2)
    reorder(mean, {0: 1})
    parallelize(count, 1, GRID_X)
    assert [repr(axis) for axis in mean.loop] == ["r[4]", "i[6 blockIdx.x]", "r[2]"]
    assert repr(mean.loop) == repr(m2.loop) == repr(count.loop)


@pytest.mark.few(2)
@pytest.mark.parametrize("columns", [65, 67])
@pytest.mark.parametrize(
    ("outer", "inner", "unrolled"),
    [
        (ParallelType.serial, ParallelType.serial, set()),
        (ParallelType.serial, ParallelType.unroll, {"65"}),
        (ParallelType.serial, ParallelType.unswitch, {"65"}),
        (ParallelType.unswitch, ParallelType.serial, {"66"}),
        (ParallelType.unswitch, ParallelType.unroll, {"65", "66"}),
    ],
)
def test_loops_on_unroll_and_unswitch_are_unrolled(
    outer: ParallelType, inner: ParallelType, unrolled: set[str], columns: int
) -> None:
    """Extents are large enough, 66 rows of parts of 65, not to be unrolled unasked."""
    p = Program()
    p.output(p.op("exp", p.op("neg", p.input(DataType.Float, (66, None)))))
    scheduled = p.fusion.draft()
    (output,) = (result.value for result in scheduled.outputs)
    split(output, 1, 65)
    reorder(output, {0: 1})
    transform_like(output)
    parallelize(output, 1, outer)
    parallelize(output, 2, inner)
    parallelize_like(output)
    inline_most(scheduled)
    kernel = check_scheduled(scheduled, p.fusion, random_inputs(p.fusion, {"T0": (66, columns)}))
    loops = [s for s in walk(kernel.body) if isinstance(s, For)]
    assert {repr(loop.extent) for loop in loops if loop.unroll} == unrolled


def test_inline_at_stops_at_its_position() -> None:
    p = Program()
    first = p.op("neg", p.input(DataType.Float, (4, 6)))
    second = p.op("exp", first)
    p.output(second)
    inline_at(second, 1, selected_tensors=[first])
    assert first.compute_at == 1
    inline_most(p.fusion, [first])
    assert first.compute_at == 2
    inline_at(second, 0)
    assert first.compute_at == 0
