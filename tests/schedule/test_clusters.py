"""Loops that the blocks of a cluster share: what they compute, and what is refused."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from tests.support.launching import check_scheduled, random_inputs
from tests.support.passing import meets_partly
from tests.support.program import Program
from warpsmith.codegen.cuda import cuda_text
from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.clusters import (
    MEETINGS,
    AnnounceStart,
    AwaitStart,
    StoreAsync,
    SynchronizeCluster,
    rank_in,
)
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import If
from warpsmith.kernel.pipelines import By
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.traversal import walk
from warpsmith.lower.pipeline import lower
from warpsmith.protocol import check
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Source
from warpsmith.schedule.caches import cache_before, rfactor
from warpsmith.schedule.inline import inline_at, inline_most
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import parallelize, reorder, split
from warpsmith.targets.hopper import H200

GRID_X, GRID_Y, GRID_Z = ParallelType.grid_x, ParallelType.grid_y, ParallelType.grid_z
CLUSTER = ParallelType.cluster_x
BLOCK_X, BLOCK_Y = ParallelType.block_x, ParallelType.block_y


def row_program(op: str) -> Program:
    """`f(x) - x` of a matrix, with f a reduction of its rows; the statistics too for Welford."""
    p = Program()
    x = p.input(DataType.Float, (None, None))
    if op == "welford":
        mean, m2, count = p.welford(p.op("mul", x, 2.0), [1])
        p.output(p.copy(m2), p.copy(count))
    else:
        mean = p.reduce(op, p.op("mul", x, 2.0), [1])
    return p.output(p.op("sub", p.broadcast(mean, [False, True]), x))


def reduction_of(fusion: Fusion) -> TensorView:
    return next(t for t in fusion.tensors if t.has_reduction)


def spread(total: TensorView, kinds: Mapping[int, ParallelType], inside: Sequence[int]) -> None:
    """Bind a reduction's loops, and all tensors' likewise; what is `inside` a thread, it reduces
    first.
    """
    fusion = total.fusion
    transform_like(total)
    for axis, kind in kinds.items():
        parallelize(total, axis, kind)
    parallelize_like(total)
    rfactor(total, inside)
    inline_at(total, 1, best_effort=True)
    inline_most(fusion, [t for t in fusion.computed if not _is_around_threads(t)])


def _is_around_threads(tensor: TensorView) -> bool:
    """Whether it is reduced across threads, or is what they reduce."""
    readers = (tensor, *(use.outputs[0] for use in tensor.fusion.uses(tensor)))
    return any(a.is_reduction and a.parallel.is_thread for t in readers for a in t.loop)


def over_blocks(fusion: Fusion, blocks: int, threads: int, side: int = 1) -> None:
    """`[grid_x, block_y, R cluster, R serial, R block_x]`."""
    total = reduction_of(fusion)
    split(total, 1, blocks, inner_split=False)
    split(total, 2, threads)
    split(total, 0, side)
    spread(total, {0: GRID_X, 1: BLOCK_Y, 2: CLUSTER, 4: BLOCK_X}, [3])


def alone(fusion: Fusion) -> None:
    """Blocks of one thread."""
    total = reduction_of(fusion)
    split(total, 1, 4, inner_split=False)
    spread(total, {0: GRID_X, 1: CLUSTER}, [2])


def several_rows(fusion: Fusion) -> None:
    """Three rows of a thread, which blocks exchange together."""
    total = reduction_of(fusion)
    split(total, 1, 32)
    split(total, 2, 16)
    split(total, 0, 3)
    reorder(total, {2: 4})
    spread(total, {0: GRID_X, 2: CLUSTER, 3: BLOCK_X}, [4])


SCHEDULES: dict[str, Callable[[Fusion], None]] = {
    "two": lambda f: over_blocks(f, 2, 32),
    "rows side by side": lambda f: over_blocks(f, 4, 16, side=3),
    "fewer threads than blocks": lambda f: over_blocks(f, 16, 4, side=2),
    "sixteen": lambda f: over_blocks(f, 16, 32),
    "warps that meet": lambda f: over_blocks(f, 4, 64, side=2),
    "three": lambda f: over_blocks(f, 3, 8, side=2),
    "one": lambda f: over_blocks(f, 1, 32),
    "threads alone": alone,
    "several rows": several_rows,
}


CASES = [
    *((name, "welford", (4, 300)) for name in SCHEDULES),
    ("warps that meet", "max", (7, 31)),
    ("two", "sum", (4, 300)),
    ("sixteen", "max", (1, 1)),
    *(
        pytest.param(name, op, (7, 31), marks=pytest.mark.slow)
        for name in SCHEDULES
        for op in ("sum", "max", "welford")
    ),
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("name", "op", "shape"), CASES)
def test_right_on_every_machine(name: str, op: str, shape: tuple[int, int]) -> None:
    original = row_program(op).fusion
    scheduled = original.draft()
    SCHEDULES[name](scheduled)
    check_scheduled(scheduled, original, random_inputs(original, {"T0": shape}), terms=64)


def lowered(schedule: Callable[[Fusion], None], op: str = "sum") -> Kernel:
    p = row_program(op)
    schedule(p.fusion)
    return lower(p.fusion, "rows", DataType.Int32, target=H200)


@pytest.mark.parametrize("op", ["sum", "welford"])
@pytest.mark.parametrize("name", ["two", "warps that meet", "several rows"])
def test_the_protocol_holds(name: str, op: str) -> None:
    kernel = lowered(SCHEDULES[name], op)
    sizes = {"T0_size0": 5, "T0_size1": 300}
    assert check(kernel, sizes, target=H200).steps > 0
    assert [p.by for p in kernel.pipelines] == [By.SENDS]


def test_blocks_of_a_cluster_lie_along_the_grids_z() -> None:
    kernel = lowered(SCHEDULES["three"])
    assert kernel.launch.cluster == (1, 1, 3)
    assert integers.constant(kernel.launch.grid[2]) == 3


def test_a_cluster_of_one_block_is_none() -> None:
    kernel = lowered(SCHEDULES["one"])
    assert kernel.launch.cluster_blocks == 1
    assert not any(isinstance(s, StoreAsync | SynchronizeCluster) for s in walk(kernel.body))


def test_threads_alone_need_no_reduction_of_the_block() -> None:
    assert not any(isinstance(s, Reduce) for s in walk(lowered(alone).body))


def test_a_reduction_that_happens_once_takes_no_meeting_besides_the_start() -> None:
    kernel = lowered(SCHEDULES["two"])
    meetings = [type(s) for s in walk(kernel.body) if isinstance(s, MEETINGS)]
    assert meetings == [AnnounceStart, AwaitStart]


def test_blocks_that_meet_apart_are_found() -> None:
    kernel = lowered(SCHEDULES["two"])
    assert not meets_partly(kernel)
    first = integers.less(rank_in(kernel.launch), 1)
    under = (If(first, kernel.body, uniform=True),)
    assert meets_partly(replace(kernel, body=under))


# --- refusals ----------------------------------------------------------------------------------


def test_the_extent_of_a_cluster_is_known() -> None:
    total = reduction_of(row_program("sum").fusion)
    with pytest.raises(ScheduleError, match="cannot be bound to cluster_x") as failure:
        parallelize(total, 1, CLUSTER)
    assert failure.value.code == "WS0288"


def refused(schedule: Callable[[Fusion], None], code: str, words: str) -> None:
    with pytest.raises(ScheduleError, match=words) as failure:
        lowered(schedule)
    assert failure.value.code == code


def test_more_blocks_than_the_target_has_in_a_cluster() -> None:
    def seventeen(fusion: Fusion) -> None:
        total = reduction_of(fusion)
        split(total, 1, 17, inner_split=False)
        spread(total, {1: CLUSTER}, [2])

    refused(seventeen, "WS0288", "a cluster would have 17 blocks, and it may have 16")


def test_the_grids_z_is_taken() -> None:
    def both(fusion: Fusion) -> None:
        total = reduction_of(fusion)
        split(total, 1, 2, inner_split=False)
        spread(total, {0: GRID_Z, 1: CLUSTER}, [2])

    refused(both, "WS0289", "loops are bound to grid_z, too; bind those loops to grid_x")


def test_one_reduction_over_the_grid_and_the_cluster_is_refused() -> None:
    def both(fusion: Fusion) -> None:
        total = reduction_of(fusion)
        split(total, 1, 2, inner_split=False)
        split(total, 2, 3, inner_split=False)
        spread(total, {0: GRID_Y, 1: CLUSTER, 2: GRID_X}, [3])

    p = Program()
    p.output(p.copy(p.reduce("sum", p.input(DataType.Float, (None, None)), [1])))
    both(p.fusion)
    with pytest.raises(ScheduleError, match="over the grid and over the blocks of a") as failure:
        lower(p.fusion, "rows", DataType.Int32, target=H200)
    assert failure.value.code == "WS0271"


def test_rows_kept_apart_by_threads_whose_number_is_not_constant() -> None:
    def rows_by_threads(fusion: Fusion) -> None:
        total = reduction_of(fusion)
        split(total, 1, 2, inner_split=False)
        spread(total, {0: BLOCK_X, 1: CLUSTER}, [2])

    refused(rows_by_threads, "WS0279", "which is not a constant; split the loops")


def test_a_block_that_is_a_cluster_alone_has_rank_0() -> None:
    """The part of an axis of one element, by a factor that only the launch knows."""
    p = Program()
    p.output(p.reduce("max", p.input(DataType.Float, (1, 3)), [1]))
    scheduled = p.fusion.draft()
    made = cache_before(scheduled.outputs[0].value)
    split(made, 0, Symbol("factor", low=1), inner_split=False)
    parallelize(made, 1, CLUSTER)
    inline_most(scheduled)
    kernel = lower(scheduled, "alone", DataType.Int32, target=H200)
    assert kernel.launch.cluster_blocks == 1
    text = cuda_text(kernel, H200)
    assert "cluster_rank == 0" in text
    assert compile_source(Source(text=text, entry="alone", arch="sm_90a")).registers
