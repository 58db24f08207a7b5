"""Schedules that only lowering can see to be impossible, and its words for them."""

import re
from collections.abc import Callable

import pytest

from tests.support.program import Program
from warpsmith.errors import DefinitionError, ScheduleError
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.lower.pipeline import lower
from warpsmith.schedule.caches import cache_after, cache_before, rfactor
from warpsmith.schedule.inline import inline_most
from warpsmith.schedule.propagate import transform_like
from warpsmith.schedule.transforms import parallelize, reorder, set_memory_type, split
from warpsmith.targets.hopper import H200

GRID_X, GRID_Y = ParallelType.grid_x, ParallelType.grid_y
BLOCK_X, BLOCK_Y = ParallelType.block_x, ParallelType.block_y


def other_threads() -> Program:
    p = Program()
    first = p.op("neg", p.input(DataType.Float, (8, 4)))
    second = p.op("exp", first)
    parallelize(first, 0, BLOCK_X)
    parallelize(second, 1, BLOCK_X)
    return p.output(second)


def registers_without_a_constant() -> Program:
    p = Program()
    first = p.op("neg", p.input(DataType.Float, (None,)))
    return p.output(p.op("exp", first))


def bound_differently() -> Program:
    p = Program()
    first = p.op("neg", p.input(DataType.Float, (8,)))
    second = p.op("exp", first)
    p.output(second)
    inline_most(p.fusion, [first])
    parallelize(first, 0, GRID_X)
    parallelize(second, 0, BLOCK_X)
    return p


def nests_in_a_cycle() -> Program:
    """`first` is computed in one loop with its users, of which one needs the other by a detour."""
    p = Program()
    first = p.op("neg", p.input(DataType.Float, (8,)))
    detour = p.op("abs", p.op("exp", first))
    p.output(p.op("add", detour, first))
    first.compute_at = 1
    return p


def vectors_of_unequal_halves() -> Program:
    """The last vector of the first half, and that of the second one, may be cut short."""
    p = Program()
    x = p.input(DataType.Float, (None,))
    y = p.op("neg", x)
    p.output(y)
    copy = cache_after(x)
    split(y, 0, 2, inner_split=False)
    split(y, 1, 2)
    transform_like(y)
    parallelize(copy, -1, ParallelType.vectorize)
    inline_most(p.fusion)
    return p


def output_read_again() -> Program:
    p = Program()
    first = p.op("neg", p.input(DataType.Float, (8,)))
    return p.output(first, p.op("exp", first))


def computed_vector() -> Program:
    p = Program()
    first = p.op("neg", p.input(DataType.Float, (4,)))
    parallelize(first, 0, ParallelType.vectorize)
    return p.output(first)


def copied(
    sizes: tuple[int | None, ...], factor: int = 4, dtype: DataType = DataType.Float
) -> Program:
    p = Program()
    x = p.input(dtype, sizes)
    register = cache_after(x) if p.fusion.uses(x) else p.copy(x)
    output = p.copy(register)
    p.output(output)
    for tensor in (register, output):
        split(tensor, 0, factor)
        parallelize(tensor, 1, ParallelType.vectorize)
    inline_most(p.fusion)
    return p


def strange_width() -> Program:
    return copied((12,), factor=3)


def across_columns() -> Program:
    p = Program()
    x = p.input(DataType.Float, (4, 6))
    register = p.copy(x)
    p.output(p.op("exp", register))
    reorder(register, {0: 1})
    parallelize(register, 1, ParallelType.vectorize)
    return p


def threads_and_a_loop() -> Program:
    p = Program()
    total = p.reduce("sum", p.op("neg", p.input(DataType.Float, (8, 4))), [0, 1])
    parallelize(total, 0, BLOCK_X)
    return p.output(p.op("exp", total))


def ragged_welford() -> Program:
    p = Program()
    mean, m2, _ = p.welford(p.op("neg", p.input(DataType.Float, (8, 7))), [0])
    split(mean, 1, 4)
    reorder(mean, {0: 1})
    return p.output(p.copy(mean), p.copy(m2))


def grid_within_a_loop() -> Program:
    p = Program()
    x = p.op("neg", p.input(DataType.Float, (8, 4)))
    total = p.reduce("sum", x, [1])
    p.output(p.op("exp", total))
    parallelize(x, 1, GRID_X)
    parallelize(total, 1, GRID_X)
    inline_most(p.fusion)
    return p


def reduced_in_place() -> Program:
    p = Program()
    return p.output(p.reduce("sum", p.op("neg", p.input(DataType.Float, (8, 4))), [0]))


def welford_in_place() -> Program:
    p = Program()
    mean, _, _ = p.welford(p.op("neg", p.input(DataType.Float, (8, 4))), [0])
    return p.output(mean)


def reduced_in_shared_memory() -> Program:
    p = Program()
    total = p.reduce("sum", p.op("neg", p.input(DataType.Float, (8, 4))), [0])
    set_memory_type(total, MemoryType.shared)
    return p.output(p.op("exp", total))


def grid_after_grid() -> Program:
    p = Program()
    total = p.reduce("sum", p.input(DataType.Float, (8, 4)), [0, 1])
    p.output(total)
    total = cache_before(total)
    parallelize(total, 0, GRID_X)
    parallelize(total, 1, GRID_Y)
    rfactor(total, [0])
    return p


REFUSED: tuple[tuple[str, str, Callable[[], Program]], ...] = (
    (
        "WS0261",
        "T2 reads elements of T1 that other threads compute: i[8 threadIdx.x] is bound to block_x "
        "there; bind both alike, or set T1's memory to shared",
        other_threads,
    ),
    (
        "WS0262",
        "T1 needs T0_size0 elements of registers, which is not a constant; inline it deeper, or "
        "split its loops by constants",
        registers_without_a_constant,
    ),
    (
        "WS0263",
        "tensors that share a loop bind it differently (T1: i[8 blockIdx.x], "
        "T2: i[8 threadIdx.x]); call parallelize_like on the tensor that is bound as wanted",
        bound_differently,
    ),
    (
        "WS0264",
        "need each other's results; inline the tensor that both use less deep",
        nests_in_a_cycle,
    ),
    (
        "WS0265",
        "T2 reads T1, which is written to global memory by the same kernel; "
        "call T1.cache_before() so that its value stays in registers",
        output_read_again,
    ),
    (
        "WS0267",
        "T1 is computed, and only copies can be vectorized; "
        "vectorize its cache_before or cache_after",
        computed_vector,
    ),
    (
        "WS0268",
        "vectorizes 3 elements of 4 bytes: 12 bytes are not moved at once; "
        "use one of 1, 2, 4, 8, 16, 32, 64 bytes",
        strange_width,
    ),
    (
        "WS0269",
        "T1 vectorizes i[4 vectorize], along which T0 is not contiguous",
        across_columns,
    ),
    (
        "WS1013",
        "T2 vectorizes i[2 vectorize], and two bounds end within its vectors: lt(",
        vectors_of_unequal_halves,
    ),
    (
        "WS0270",
        "T2 reduces over threads and in a loop of its own at once; rfactor the loop axes first",
        threads_and_a_loop,
    ),
    (
        "WS0272",
        "the last loop of T2 runs past the end of a dimension that it keeps; "
        "make the innermost loop divide the extent",
        ragged_welford,
    ),
    (
        "WS0274",
        "T2 is reduced over the grid inside a loop, but its blocks can meet once only",
        grid_within_a_loop,
    ),
    (
        "WS0275",
        "T2 is reduced in place, and as an output lives in global memory; call its cache_before",
        reduced_in_place,
    ),
    (
        "WS0275",
        "T2 is reduced in place, and as an output lives in global memory; "
        "make a copy by ops.set the output",
        welford_in_place,
    ),
    (
        "WS0276",
        "T2 is reduced in shared memory, and only registers can be reduced into; "
        "set the memory type of its cache_after",
        reduced_in_shared_memory,
    ),
    (
        "WS0277",
        "reduces over the grid what was reduced over the grid before, which only one block has; "
        "reduce over all grid axes in one step",
        grid_after_grid,
    ),
)


@pytest.mark.parametrize(("code", "words", "make"), REFUSED, ids=[c[2].__name__ for c in REFUSED])
def test_refused_in_these_words(code: str, words: str, make: Callable[[], Program]) -> None:
    with pytest.raises(ScheduleError, match=re.escape(words)) as refusal:
        lower(make().fusion, "refused", target=H200)
    assert refusal.value.code == code
    assert refusal.value.remedy


def test_a_fusion_without_outputs() -> None:
    p = Program()
    p.op("neg", p.input(DataType.Float, (4,)))
    with pytest.raises(DefinitionError, match="WS0101.*no output; call add_output"):
        lower(p.fusion, "empty", target=H200)
