"""What is planned suffices, and nothing planned may be left out."""

import pytest

from tests.support.meeting_kernels import Meeting, planned_kernel
from tests.support.meeting_runs import mutants, objections, objects
from tests.support.meetings import MEETINGS, PAGE, QUICK, table
from warpsmith import knobs
from warpsmith.codegen.cuda import cuda_text
from warpsmith.kernel.kernel import Kernel
from warpsmith.runtime.cache import CubinCache
from warpsmith.runtime.source import Source
from warpsmith.targets.hopper import H200

SUITE = [pytest.param(each, id=each.name) for each in MEETINGS]
MUTATED = [
    pytest.param(each, id=each.name, marks=() if each in QUICK else pytest.mark.slow)
    for each in MEETINGS
]


def built(kernel: Kernel) -> str:
    """What ptxas says."""
    source = Source(text=cuda_text(kernel, H200), entry=kernel.name, arch="sm_90a")
    return CubinCache(knobs.current().cache_dir).get_or_compile(source).log


def test_the_suite_has_every_pair_that_can_meet() -> None:
    names = [each.name for each in MEETINGS]
    assert len(set(names)) == len(names) >= 30
    pairs = {pair for each in MEETINGS for pair in each.pairs}
    for writer in ("store", "stmatrix", "TMA load", "cp.async"):
        for reader in ("load", "wgmma", "TMA store"):
            assert (writer, reader) in pairs


@pytest.mark.few(10)
@pytest.mark.parametrize("meeting", SUITE)
def test_what_is_planned_is_clean_and_right(meeting: Meeting) -> None:
    kernel = planned_kernel(meeting)
    assert objections(meeting, kernel) == []
    assert "serialized" not in built(kernel)


@pytest.mark.few(9)
@pytest.mark.parametrize("meeting", MUTATED)
def test_nothing_planned_may_be_left_out(meeting: Meeting) -> None:
    clean = [m.name for m in mutants(planned_kernel(meeting)) if not objects(meeting, m.kernel)]
    assert not clean


def test_the_table_of_the_page_is_made_again() -> None:
    assert table() in PAGE.read_text()
