"""Copies from registers to registers of other threads: by shuffles or shared memory, by cost."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.launching import clean_result
from tests.support.lowering import lowered
from tests.support.meeting_runs import mutants
from tests.support.simulating import reported
from warpsmith import DataType, FusionDefinition, ParallelType
from warpsmith.errors import ScheduleError
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import CopyVector, Statement, Synchronize
from warpsmith.kernel.shuffles import Shuffle
from warpsmith.kernel.traversal import walk
from warpsmith.layouts.fragments import left, sums
from warpsmith.layouts.layout import Layout, Piece, Place
from warpsmith.schedule.holding import hold_as

KINDS = {
    DataType.Int8: np.int8,
    DataType.Float8_e4m3fn: ml_dtypes.float8_e4m3fn,
    DataType.Half: np.float16,
    DataType.Float: np.float32,
    DataType.Double: np.float64,
}
SUMS, BYTES, WORDS = sums(16, 32, 4), left(16, 32, 1, 4), left(16, 32, 4, 4)


def changed(
    dtype: DataType, held: Layout, wanted: Layout, *, inlined: bool = True
) -> FusionDefinition:
    """`-x` of tiles, a few for each block: computed as one layout says, and stored as another.

    Args:
        inlined: whether the copy is computed in one loop over threads with what stores it.
    """
    rows, columns = held.shape
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, rows, columns], True, dtype)
        out: Any = fd.ops.neg(x)
        fd.add_output(out)
        source: Any = out.cache_before()
        copy: Any = source.cache_after()
        out.split(0, 2, inner_split=False)  # block, turn, rows, columns
        out.axis(0).parallelize(ParallelType.grid_x)
        fd.sched.transform_like(out)
        fd.sched.parallelize_like(out)
        before = [t for t in fd.fusion.tensors if not t.is_input and t not in (out, copy)]
        for tensor in fd.fusion.tensors:
            if not tensor.is_input:
                hold_as(tensor, 2, held if tensor in before else wanted)
                tensor.axis(2).parallelize(ParallelType.block_x)  # type: ignore[attr-defined]
        fd.sched.inline_at(out, 2)
        if len(before) > 1:
            fd.sched.inline_most([t for t in before if t is not source])
        if not inlined:
            fd.sched.inline_at(out, 3, selected_tensors=[copy])
    return fd


def found(kernel: Kernel, *kinds: type[Statement]) -> list[Statement]:
    return [s for s in walk(kernel.body) if isinstance(s, kinds)]


def tiles(dtype: DataType, shape: tuple[int, ...]) -> np.ndarray:
    numbers = np.random.default_rng(1).integers(-9, 10, (5, *shape))
    return numbers.astype(KINDS[dtype])


def check(fd: FusionDefinition, x: np.ndarray) -> None:
    result = clean_result(fd, [x])
    np.testing.assert_array_equal(result.astype(np.float64), -x.astype(np.float64))


@pytest.mark.parametrize(
    ("dtype", "held", "wanted", "shuffles"),
    [
        (DataType.Float, SUMS, BYTES, True),
        (DataType.Half, SUMS, BYTES, True),
        (DataType.Int8, SUMS, BYTES, False),
        (DataType.Float8_e4m3fn, SUMS, BYTES, False),
        (DataType.Half, WORDS, SUMS, False),
        (DataType.Double, WORDS, SUMS, True),
    ],
)
def test_the_cheaper_way_is_taken(
    dtype: DataType, held: Layout, wanted: Layout, shuffles: bool
) -> None:
    fd = changed(dtype, held, wanted)
    kernel = lowered(fd)
    assert len(found(kernel, Shuffle)) == int(shuffles)
    assert bool(kernel.shared) is not shuffles
    widths = [s.width for s in walk(kernel.body) if isinstance(s, CopyVector)]
    assert widths == ([] if shuffles else [2, 4] if wanted is BYTES else [1, 2])
    check(fd, tiles(dtype, held.shape))


def test_nothing_moves_where_each_thread_has_what_it_wants() -> None:
    kernel = lowered(changed(DataType.Half, SUMS, left(16, 32, 2, 4)))
    assert not found(kernel, Shuffle)
    assert not kernel.shared


@pytest.mark.parametrize("order", [1, -1])
def test_some_threads_hold_nothing(order: int) -> None:
    """Of 64 threads, 16 hold what all are to have, or the other way round: the others stored what
    they had not computed in the same places."""
    few = [(Place.REGISTER, 1 << n) for n in range(4)] + [(Place.LANE, 1 << n) for n in range(4)]
    all_ = [(Place.LANE, 1 << n) for n in range(5)] + [(Place.WARP, 1)]
    all_ += [(Place.REGISTER, 1 << n) for n in range(2)]
    held, wanted = (
        Layout((16, 16), tuple(Piece(n // 4, 2, 1 << n % 4, *bit) for n, bit in enumerate(bits)))
        for bits in (few, all_)[::order]
    )
    fd = changed(DataType.Float, held, wanted)
    assert lowered(fd).shared
    check(fd, tiles(DataType.Float, held.shape))


def test_threads_with_one_element_each() -> None:
    """A register alone is a plain variable in C++; NVRTC refused to add to its name."""
    held, wanted = (
        Layout((32, 1), tuple(Piece(0, 2, 1 << n, Place.LANE, 1 << (n + by) % 5) for n in range(5)))
        for by in (0, 2)
    )
    fd = changed(DataType.Float, held, wanted)
    assert found(lowered(fd), Shuffle)
    check(fd, tiles(DataType.Float, held.shape))


@settings(deadline=None, max_examples=4, derandomize=True)
@given(st.data())
def test_any_layouts_of_whole_warps(data: st.DataObject) -> None:
    """Of 64 threads and 16 registers, dealt out in any two ways."""
    order = [data.draw(st.permutations(range(10))) for _ in range(2)]
    held, wanted = (dealt(each) for each in order)
    check(changed(DataType.Float, held, wanted), tiles(DataType.Float, held.shape))


def dealt(order: list[int]) -> Layout:
    """Rows and columns of 32, whose ten digits of two go to six bits of threads, then registers."""
    pieces = []
    for place, bit in enumerate(order):
        if place < 5:
            where, stride = Place.LANE, 1 << place
        elif place == 5:
            where, stride = Place.WARP, 1
        else:
            where, stride = Place.REGISTER, 1 << place - 6
        pieces.append(Piece(bit // 5, 2, 1 << bit % 5, where, stride))
    return Layout((32, 32), tuple(pieces))


def test_threads_meet_before_and_behind_what_goes_through_shared_memory() -> None:
    """In a loop over tiles: what a tile's threads have not read, the next's do not overwrite."""
    kernel, x = lowered(changed(DataType.Int8, SUMS, BYTES)), tiles(DataType.Int8, SUMS.shape)
    assert len(found(kernel, Synchronize)) == 2
    assert is_right(kernel, x)
    assert not [m.name for m in mutants(kernel) if is_right(m.kernel, x)]


def is_right(kernel: Kernel, x: np.ndarray) -> bool:
    given_, result = (each.name for each in kernel.parameters)
    report = reported(kernel, {f"{given_}_size0": len(x)}, {given_: x}, schedules=2)
    clean = report.verdict == "clean"
    return clean and np.array_equal(report.arrays[result].reshape(x.shape), -x)


def test_a_copy_that_shares_its_loop_over_threads_is_refused() -> None:
    """Threads that go through it one element at a time cannot trade all of them."""
    with pytest.raises(ScheduleError, match="WS0261.*T5 reads elements of T4 that other threads"):
        lowered(changed(DataType.Half, SUMS, BYTES, inlined=False))
