"""Columns that the blocks of a grid share, which meet and keep what they have loaded."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from bench.batch_norm import batch_norm_bwd
from bench.images import Images
from bench.row_shapes import plan
from tests.schedulers.test_inner_grid import batch_norm
from tests.schedulers.test_inner_persistent import inputs_of, layer_norm_backward, softmax_backward
from tests.schedulers.test_outer_persistent import of_columns
from tests.support import simulating
from tests.support.binaries import uncompiled
from tests.support.grids import params_that_fit
from tests.support.launching import check_scheduled, random_inputs, values_of
from tests.support.program import Program
from warpsmith import ops
from warpsmith.codegen.cuda import cuda_text
from warpsmith.engine.executable import Executable
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.clock import AwaitClock, StartClock
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import CopyVector, Let, PrefetchVector
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.traversal import walk
from warpsmith.lower.passes import keep_turns
from warpsmith.schedulers.kept import AT_ONCE, BEHIND
from warpsmith.schedulers.outer_grid.applicability import refusal
from warpsmith.schedulers.outer_grid.shapes import (
    OuterGridParams,
    Work,
    best,
    grid_of,
    shapes,
    time_us,
)
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.apply import SPLITS
from warpsmith.schedulers.select import refusals, select
from warpsmith.targets.hopper import H200
from warpsmith.targets.target import Target

BF16, FLOAT = DataType.BFloat16, DataType.Float
ELSEWHERE = (("outer_persistent", "columns are to be shared here"),)

SMALL = OuterGridParams(
    vector=4, unroll=2, block_x=2, block_y=16, blocks_per_sm=1, kept=2, even=False
)

Read = Callable[[TensorView], TensorView]

ASKED = "prefetch.global.L2 [%0];"


def gradient() -> Program:
    """Two inputs, two sums, and what is stored before they are there."""
    p = Program()
    x, dy = (p.input(FLOAT, (None, None)) for _ in range(2))
    product = p.op("mul", x, dy)
    sums = [p.reduce("sum", t, [0]) for t in (dy, product)]
    first, second = (p.broadcast(t, [True, False]) for t in sums)
    p.output(p.op("sub", p.op("sub", dy, first), p.op("mul", x, second)), product, *sums)
    return p


def check(
    p: Program,
    shapes_: tuple[tuple[int, ...], ...],
    splits: int,
    kept: int = SMALL.kept,
    at_once: int = 0,
) -> Kernel:
    names = [tensor.name for tensor in p.fusion.input_tensors]
    arrays = random_inputs(p.fusion, dict(zip(names, shapes_, strict=True)))
    candidate = select(p.fusion, H200, refusals(p.fusion, H200, ELSEWHERE))
    assert candidate.scheduler == "outer_grid"
    problem = Problem(values=values_of(p.fusion, arrays), alignment={}, target=H200)
    chosen, _ = candidate.choose(problem)
    assert isinstance(chosen, OuterGridParams)
    params = replace(SMALL, vectorized=chosen.vectorized if chosen.vector >= 4 else (), kept=kept)
    if chosen.vector < 4:
        params = replace(params, vector=1)
    return check_scheduled(
        candidate.scheduled(replace(params, rounds=at_once > 0)),
        p.fusion,
        arrays,
        launch_values={SPLITS: splits} | ({AT_ONCE: at_once, BEHIND: 300} if at_once else {}),
        terms=int(np.prod(shapes_[0])),
    )


@pytest.mark.few(3)
@pytest.mark.parametrize("kept", [0, 1, 9])
@pytest.mark.parametrize("splits", [1, 3])
def test_turns_are_kept_or_read_again(splits: int, kept: int) -> None:
    kernel = check(batch_norm(kept=2), ((3, 70, 24), (24,)), splits, kept=kept)
    assert kernel.launch.together
    assert any(buffer.name.endswith("_kept") for buffer in kernel.shared) == (kept > 0)


@pytest.mark.few(2)
@pytest.mark.parametrize("kept", [0, 9])
@pytest.mark.parametrize(("columns", "at_once"), [(24, 1), (24, 2), (20, 2), (8, 1), (8, 2)])
def test_blocks_loop_over_columns(columns: int, at_once: int, kept: int) -> None:
    """Rounds for some of the groups of blocks, columns that blocks do not divide, and one round."""
    kernel = check(batch_norm(kept=2), ((3, 70, columns), (columns,)), 3, kept, at_once)
    assert kernel.launch.together
    assert kernel.launch.grid[0] == Symbol(AT_ONCE, low=1)
    begun, late, *_ = (each for each in kernel.body if not isinstance(each, Let))
    assert isinstance(begun, StartClock)
    assert isinstance(late, AwaitClock)


@pytest.mark.usefixtures("uncompiled")
def test_half_of_the_groups_begin_as_the_others_meet() -> None:
    """By the time in which these load, at the rate that a copy has."""
    images = Images(74, 768, 17, True)
    (launch,) = plan(batch_norm_bwd(images, "bfloat16")).launches
    values = dict(launch.values)
    assert isinstance(launch.params, OuterGridParams)
    columns = -(-values[AT_ONCE] // 2) * launch.params.block_x * launch.params.vector
    loaded = 2 * 2 * images.count * columns
    assert values[BEHIND] == pytest.approx(1e9 * loaded / 4.28e12, rel=0.01)


def test_rounds_of_two_inputs() -> None:
    kernel = check(gradient(), ((97, 20), (97, 20)), 2, at_once=2)
    assert sum(isinstance(each, Reduce) and each.meets for each in walk(kernel.body)) == 1


@pytest.mark.parametrize("shape", [(1, 8), (31, 12), (97, 8), (200, 20), (67, 7)])
def test_two_inputs_whose_sums_are_one_meeting(shape: tuple[int, int]) -> None:
    """Fewer rows than a turn, whole turns, columns that blocks do not divide, and odd ones."""
    kernel = check(gradient(), (shape, shape), 2)
    assert sum(isinstance(each, Reduce) for each in kernel.body) == 1


def test_what_is_needed_behind_the_meeting_alone_is_loaded_there() -> None:
    p = Program()
    x, added = (p.input(FLOAT, (None, None)) for _ in range(2))
    total = p.broadcast(p.reduce("sum", x, [0]), [True, False])
    p.output(p.op("add", p.op("mul", x, total), added))
    kernel = check(p, ((97, 8), (97, 8)), 2)
    assert [buffer.name[-5:] for buffer in kernel.shared if "kept" in buffer.name] == ["_kept"]


def test_what_only_follows_a_meeting_is_computed_behind_it() -> None:
    """Of an input that is needed before it, too: gradients are scaled by weights of columns."""
    p = Program()
    dy, weight = p.input(FLOAT, (None, None)), p.input(FLOAT, (None,))
    wide = p.op("neg", dy)
    total = p.broadcast(p.reduce("sum", wide, [0]), [True, False])
    scaled = p.op("mul", wide, p.broadcast(weight, [True, False]))
    p.output(p.op("sub", scaled, total))
    kernel = check(p, ((97, 8), (8,)), 2)
    assert any(buffer.name.endswith("_kept") for buffer in kernel.shared)


def test_single_elements_are_loaded_again() -> None:
    """Turns are kept in vectors alone."""
    kernel = check(gradient(), ((67, 7), (67, 7)), 2)
    assert not any(buffer.name.endswith("_kept") for buffer in kernel.shared)


@pytest.mark.parametrize("read", [lambda x: ops.pad(x, [0, 0, 50, 47]), lambda x: ops.cat([x, x])])
def test_reads_leave_what_is_there_where_they_read_nothing(read: Read) -> None:
    """Zeros beside what is padded, and the other part of a join: no first elements of the input."""
    p = Program()
    x, y = (p.input(FLOAT, (None, None)) for _ in range(2))
    product = p.op("mul", read(x), y)
    total = p.broadcast(p.reduce("sum", product, [0]), [True, False])
    p.output(p.op("sub", product, total))
    kernel = check(p, ((97, 8), (194, 8)), 2)
    assert any(buffer.name.endswith("_kept") for buffer in kernel.shared)


@pytest.mark.parametrize("dims", [[0], [1]])
def test_what_reads_alone_make_is_not_kept(dims: list[int]) -> None:
    p = Program()
    padded = ops.pad(p.input(FLOAT, (None, None)), [0, 0, 2, 1])
    total = p.broadcast(p.reduce("sum", padded, dims), [dim in dims for dim in range(2)])
    p.output(p.op("sub", padded, total))
    with uncompiled():
        call = Executable(p.fusion).plan_for((np.empty((8192, 1024), np.float32),))
    taken = {each.candidate.scheduler for each in call.segments if each.candidate}
    assert not {"inner_grid", "outer_grid"} & taken


@pytest.mark.few(2)
@pytest.mark.parametrize("at_once", [0, 2])
@pytest.mark.parametrize("kept", [0, 1, 9])
def test_what_is_asked_for_ahead_is_there(
    kept: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests to the L2 as loads, which the simulator holds to the bounds of what they read."""

    def loading(kernel: Kernel, target: Target) -> str:
        text = cuda_text(kernel, target)
        assert ASKED in text
        return text.replace(ASKED, "{.reg .b32 r; ld.global.b32 r, [%0];}")

    monkeypatch.setattr(simulating, "cuda_text", loading)
    kernel = check(batch_norm(kept=2), ((3, 70, 20), (20,)), 2, kept, at_once)
    loads = [s for s in walk(kernel.body) if isinstance(s, CopyVector) and s.source.name == "T0"]
    assert any(isinstance(s, PrefetchVector) for s in walk(kernel.body))
    assert {s.evict_last for s in loads} == {False, True}, "what is read again alone stays"


FAULTS = {
    "a launch of any blocks": ("", ""),
    "no wait": ("while (there < (unsigned)splits)", "if (false)"),
    "an arrival that releases nothing": ("atom.acq_rel.gpu", "atom.relaxed.gpu"),
    "a wait that acquires nothing": ("ld.acquire.gpu", "ld.relaxed.gpu"),
    "parts that are written behind the arrival": (
        "parts.write(values, split);\n    team.meet();",
        "team.meet();",
    ),
    "others that do not wait for the first thread": (
        "ws_grid_meet(semaphore + segment, splits);\n    team.meet();",
        "ws_grid_meet(semaphore + segment, splits);",
    ),
    "a count that is left": ('"atom.relaxed.gpu.global.inc', '"atom.relaxed.gpu.global.max'),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_meeting_with_a_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = FAULTS[fault]

    def broken(kernel: Kernel, target: Target) -> str:
        text = cuda_text(kernel, target)
        start = text.index("ws_grid_meet(unsigned* counter")
        assert old in text[start:]
        return text[:start] + text[start:].replace(old, new, 1)

    if old:
        monkeypatch.setattr(simulating, "cuda_text", broken)
    else:
        monkeypatch.setattr("warpsmith.lower.build.blocks_meet", lambda body: False)
    with pytest.raises(AssertionError, match="deadlock|race|uninitialized|is not 0 again"):
        check(gradient(), ((97, 8), (97, 8)), 2)


def test_a_turn_that_is_taken_for_whole_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """All turns but the last are whole; the columns of the last block are not."""
    monkeypatch.setattr(keep_turns, "_holds_before_the_last", lambda *given: True)
    with pytest.raises(AssertionError):
        check(gradient(), ((200, 20), (200, 20)), 2)


@pytest.mark.parametrize("build", [layer_norm_backward, softmax_backward])
def test_programs_of_rows_by_columns(build: Callable[[DataType], Program]) -> None:
    p = of_columns(build, BF16)
    assert refusal(p.fusion) == ""
    arrays = inputs_of(p, (24, 200))
    candidate = select(p.fusion, H200, refusals(p.fusion, H200, ELSEWHERE))
    params = replace(SMALL, kept=1)
    scheduled = candidate.scheduled(replace(params, vectorized=()))
    check_scheduled(scheduled, p.fusion, arrays, launch_values={SPLITS: 3}, terms=64 * 200)


WORK = Work(length=18048, width=448, run=448, loaded=4, stored=2, widest=2, states=8, moments=False)
"""Backward of batch norm of 282x448x8x8 in bfloat16."""


def test_blocks_run_at_once_and_take_equal_turns() -> None:
    for shape in shapes(WORK, 8, H200):
        grid = grid_of(WORK, shape, H200)
        assert 1 <= grid.blocks <= shape.blocks_per_sm * H200.sm_count
        rows = shape.block_y * shape.unroll
        assert (
            grid.splits * grid.turns * rows >= WORK.length > grid.splits * (grid.turns - 1) * rows
        )
        turn = shape.block_x * shape.block_y * shape.vector * shape.unroll * WORK.loaded
        assert shape.kept * turn < H200.family.limits.sm_shared // shape.blocks_per_sm


@pytest.mark.parametrize("dtype", [BF16, FLOAT, DataType.Double])
def test_what_blocks_hold_fits(dtype: DataType) -> None:
    p = Program()
    work = dtype if dtype is DataType.Double else FLOAT
    x = p.cast(p.input(dtype, (None, None)), work)
    mean, m2, _ = p.welford(x, [0])
    over = [p.broadcast(each, [True, False]) for each in (mean, m2)]
    p.output(p.cast(p.op("mul", p.op("sub", x, over[0]), over[1]), dtype))
    candidate = select(p.fusion, H200, refusals(p.fusion, H200, ELSEWHERE))
    values = {"T0_size0": 100_000, "T0_size1": 96}
    assert isinstance(params_that_fit(candidate, values), OuterGridParams)


def test_a_fit_is_held_to_times() -> None:
    """Microseconds of one H200 (2026-11-26): of the shape that is chosen, and of narrow pieces."""
    found = best(WORK, 8, H200)
    assert found is not None
    us, shape = found
    assert (shape.block_x, shape.block_y, shape.unroll, shape.kept) == (8, 64, 4, 3)
    assert us == pytest.approx(22.8, rel=0.15)
    wide = Work(
        length=56800, width=352, run=352, loaded=4, stored=2, widest=2, states=8, moments=False
    )
    narrow = OuterGridParams(
        vector=8, unroll=2, block_x=11, block_y=32, blocks_per_sm=1, kept=9, even=True
    )
    assert time_us(wide, narrow, H200) == pytest.approx(79.0, rel=0.2)
    found = best(wide, 8, H200)
    assert found is not None
    assert found[1] != narrow


def test_columns_that_blocks_do_not_keep_are_gone_round() -> None:
    """As many at once as all blocks keep: 12x1376x43x43, and more than blocks run at once. Narrow
    pieces of lines are not worth it. Microseconds are those of one H200 (2026-11-26).
    """
    large = replace(WORK, length=12 * 43 * 43, width=1376, run=1376)
    for work in (large, replace(WORK, width=10**6)):
        for shape in shapes(work, 8, H200):
            grid = grid_of(work, shape, H200)
            assert grid.blocks <= shape.blocks_per_sm * H200.sm_count
            if shape.rounds:
                assert grid.rounds > 1
                assert grid.turns <= shape.kept + 1 or grid.groups == 1
                wide = shape.block_x * shape.vector
                assert grid.groups * grid.rounds * wide >= work.width
        found = best(work, 8, H200)
        assert found is not None
        assert found[1].rounds
    found = best(large, 8, H200)
    assert found is not None
    assert found[0] == pytest.approx(80.6, rel=0.15)
    narrow = best(replace(WORK, length=448 * 32 * 32, width=96, run=96), 8, H200)
    assert narrow is not None
    assert not narrow[1].rounds


def test_rounds_of_blocks_that_meet_nobody_take_their_bytes() -> None:
    """A block has whole columns. Backward of instance norm of 274x256x17x17 took 42.8 µs by five
    rounds of such blocks, without the sums of all images (one H200, 2026-11-27).
    """
    work = replace(WORK, length=17 * 17, width=274 * 256, run=256)
    alone = OuterGridParams(
        vector=8, unroll=2, block_x=8, block_y=32, blocks_per_sm=2, kept=6, even=True, rounds=True
    )
    grid = grid_of(work, alone, H200)
    assert (grid.splits, grid.rounds) == (1, 5)
    assert time_us(work, alone, H200) == pytest.approx(42.8, rel=0.15)


def test_reductions_of_what_was_reduced_are_refused() -> None:
    p = Program()
    x = p.input(FLOAT, (None, None))
    first = p.broadcast(p.reduce("max", x, [0]), [True, False])
    p.output(p.reduce("sum", p.op("exp", p.op("sub", x, first)), [0]))
    assert "reduces what was reduced before" in refusal(p.fusion)
