"""Roles where sizes or addresses are out of the ordinary, and how much of a block they take."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest

from tests.support import role_groups as groups
from tests.support import role_streams as streams
from tests.support.ring_loads import Kind
from tests.support.role_case import Array, Case
from tests.support.role_cases import CASES, case_named
from tests.support.role_feeds import Feed
from warpsmith import FusionDefinition, ParallelType
from warpsmith.engine.launches import Launch
from warpsmith.kernel.agents import Branch

FLOAT = 4
BARRIER = 8

OF_NOTHING = ("inner_max_of_1_blocks", "inner_max_of_3_blocks", "dynamic_threads")
"""Cases without a meaning, or without threads, where an extent is 0."""


LOADED_BY_TMA = [
    case
    for case in CASES
    if Kind.bulk in case.kinds and case.name not in ("mixed_kinds", "stored_by_role")
]
"""With nothing by threads that asks for aligned addresses, and something to load."""


def every(step: int, cases: Sequence[Case]) -> list[object]:
    """Parameters of all cases, of which one of so many is run always, and the others are slow."""
    return [
        pytest.param(case, id=case.name, marks=() if place % step == 0 else pytest.mark.slow)
        for place, case in enumerate(cases)
    ]


def run_clean(case: Case, feed: Feed, inputs: list[Array], extent: int) -> FusionDefinition:
    fd = case.schedule(feed)
    case.check(fd.manual_execute(inputs), inputs, extent)
    verification = fd.verify(inputs, schedules=2)
    assert verification.verdict == "clean", str(verification)
    return fd


def launch_of(fd: FusionDefinition, inputs: list[Array]) -> Launch:
    """The one launch of a definition that has run."""
    (launch,) = fd._executable.plan_for(inputs).launches
    return launch


@pytest.mark.few(5)
@pytest.mark.filterwarnings("ignore:Mean of empty:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("case", every(6, [case for case in CASES if case.name not in OF_NOTHING]))
def test_nothing_to_load(case: Case) -> None:
    feed = next(case.feeds())
    fd = case.schedule(feed)
    inputs = case.inputs(0, seed=0)
    for result, wanted in zip(fd.manual_execute(inputs), case.wanted(inputs), strict=True):
        np.testing.assert_array_equal(result, np.nan_to_num(wanted))


def shifted(array: Array) -> Array:
    """The same numbers at an address that is no multiple of 16."""
    memory = np.empty(array.size + 1, array.dtype)
    memory[1:] = array.ravel()
    return memory[1:].reshape(array.shape)


@pytest.mark.few(2)
@pytest.mark.filterwarnings("ignore::warpsmith.errors.SpillWarning")
@pytest.mark.parametrize("only_first", [False, True])
@pytest.mark.parametrize("case", every(12, LOADED_BY_TMA))
def test_addresses_that_tma_does_not_take(case: Case, only_first: bool) -> None:
    """Threads of the role copy instead; or of one of its tensors, beside the TMA unit. With three
    groups they have too few registers for that, of which users are warned.
    """
    extent = case.extents[-1]
    inputs = case.inputs(extent, seed=1)
    moved = [shifted(x) if not (only_first and place) else x for place, x in enumerate(inputs)]
    fd = run_clean(case, Feed(Kind.bulk, case.stages[-1]), moved, extent)
    assert "is copied by the threads" in fd.explain()


@pytest.mark.parametrize("name", ["three_tensors_of_a_role", "two_rings_of_a_role"])
def test_a_role_that_copies_one_tensor_and_asks_tma_for_others(name: str) -> None:
    case = case_named(name)
    inputs = case.inputs(500, seed=3)
    fd = run_clean(case, Feed(Kind.bulk, 3), [shifted(inputs[0]), *inputs[1:]], 500)
    assert fd.explain().count("is copied by the threads") == 1


def test_rows_of_1992_bytes() -> None:
    case = case_named("several_dims_unaligned")
    inputs = case.inputs(20, seed=2)
    assert inputs[0][0].nbytes == 1992
    fd = run_clean(case, Feed(Kind.bulk, 3), inputs, 20)
    assert fd.explain().count("is copied by the threads") == 2


@pytest.mark.parametrize("groups_", [1, 2])
@pytest.mark.parametrize(
    ("position", "rows_per_group", "per_row"), [(2, 4, 1), (3, 4, 0), (4, 1, 0)]
)
def test_shared_memory_of_slices(
    groups_: int, position: int, rows_per_group: int, per_row: int
) -> None:
    """What a stage holds, eight times, and two barriers a stage; nothing else."""
    stages = 8
    fd = groups.sliced(Feed(Kind.bulk, stages), groups=groups_, position=position)
    inputs = [np.ones((70, groups.COLUMNS), np.float32)]
    fd.manual_execute(inputs)
    rows = rows_per_group * (groups_ if per_row else 1)
    stage = groups.COLUMNS * FLOAT * rows
    assert launch_of(fd, inputs).shared_bytes == stages * stage + 2 * stages * BARRIER


def roles_of(launch: Launch) -> dict[str, tuple[int, bool]]:
    """First warp of each role, and whether it is one warp."""
    branches = [s for s in launch.compiled.kernel.body if isinstance(s, Branch)]
    return {b.agent.name: (b.agent.first_warp, b.agent.elected) for b in branches}


@pytest.mark.parametrize("count", [2, 3, 5])
def test_single_warps_share_warp_groups(count: int) -> None:
    names = tuple(f"load_{number}" for number in range(count))
    fd = streams.single_dim(Feed(Kind.tma, 2), names)
    inputs = [np.ones(300, np.float32)] * count
    fd.manual_execute(inputs)
    launch = launch_of(fd, inputs)
    warps = 4 * -(-count // 4)
    wanted = {name: (warp, True) for warp, name in enumerate(names)}
    assert roles_of(launch) == {**wanted, "compute": (warps, False)}
    assert launch.block == (32 * warps + 64, 1, 1)


@pytest.mark.parametrize("axis", ["block_x", "block_y", "block_z"])
@pytest.mark.parametrize("block", [(32, 4, 2), (128, 2, 1), (256, 1, 1)])
def test_one_warp_group_more_than_computes(block: tuple[int, int, int], axis: str) -> None:
    make = partial(groups.shaped, block=block, axis=ParallelType[axis])
    fd = make(Feed(Kind.bulk, 2))
    inputs = [np.ones(300, np.float32)]
    fd.manual_execute(inputs)
    assert launch_of(fd, inputs).block == (int(np.prod(block)) + 128, 1, 1)
