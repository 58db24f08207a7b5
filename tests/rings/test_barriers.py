"""What orders the stages of circular buffers, as it stands in the CUDA text."""

from collections.abc import Callable

import pytest

from tests.support.lowering import lowered
from tests.support.ring_cases import CASES, PRIVATE, Case
from tests.support.ring_loads import BY_THREADS, Kind, Ring
from tests.support.ring_maps import outer_loop, single_dim_1
from warpsmith import FusionDefinition
from warpsmith.codegen.cuda import cuda_text
from warpsmith.targets.hopper import H200

OTHER_BARRIERS = ("vectorize", "mixed_kinds", "store_ring")
"""Schedules that pass something through shared memory besides what the TMA unit loads."""

Schedule = Callable[[Ring], FusionDefinition]


def text(fd: FusionDefinition) -> str:
    return cuda_text(lowered(fd), H200)


def body(fd: FusionDefinition) -> str:
    """The kernel without the prelude's functions."""
    whole = text(fd)
    return whole[whole.index("__global__") :]


@pytest.mark.parametrize("kind", BY_THREADS)
@pytest.mark.parametrize("schedule", PRIVATE)
def test_stages_that_no_thread_shares_need_no_barrier(schedule: Schedule, kind: Kind) -> None:
    assert "__syncthreads" not in body(schedule(Ring(kind, 4, 3)))


@pytest.mark.parametrize("kind", [Kind.bulk, Kind.tma])
@pytest.mark.parametrize(
    "case",
    [c for c in CASES if not c.sums and Kind.tma in c.kinds and c.name not in OTHER_BARRIERS],
    ids=lambda case: case.name,
)
def test_loops_of_tma_rings_never_stop_the_whole_block(case: Case, kind: Kind) -> None:
    """The one barrier is where mbarriers were initialized, before all loops."""
    for stages in (2, 5):
        code = body(case.schedule(Ring(kind, stages, stages - 1)))
        assert code.count("__syncthreads") == 1
        assert code.index("__syncthreads") < code.index("for (")


@pytest.mark.parametrize("prefetch", range(4))
@pytest.mark.parametrize("kind", [Kind.shared, Kind.cp_async])
def test_one_barrier_an_iteration_passes_stages_between_threads(kind: Kind, prefetch: int) -> None:
    code = body(outer_loop(Ring(kind, 4, prefetch)))
    assert code.count("__syncthreads") == 1


@pytest.mark.parametrize("kind", list(Kind))
def test_negative_prefetch_counts_from_the_stages(kind: Kind) -> None:
    for prefetch in range(4):
        forward, backward = (single_dim_1(Ring(kind, 4, p)) for p in (prefetch, prefetch - 4))
        assert text(forward) == text(backward)
