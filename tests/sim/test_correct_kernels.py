"""Every correct kernel at every trip count: no finding under any schedule, the right outputs."""

import pytest

from tests.sim.support.catalog import LOOPS, NAMES, TWINS, cases, read_ptx, read_spec
from tests.sim.support.judge import judge

# One of each kind of kernel, under more orders.
SAMPLE = ("ws_ring", "tma_store", "cluster_multicast", "pingpong", "grid_sync", "multi_role")


@pytest.mark.few(8)
@pytest.mark.parametrize(("name", "trips"), list(cases((*NAMES, *TWINS))))
def test_clean(name: str, trips: int | None) -> None:
    report = judge(read_ptx(name), read_spec(name, trips), name)
    assert report.verdict == "clean", str(report)
    assert len(report.schedules) == 4


@pytest.mark.parametrize("name", SAMPLE)
def test_clean_under_eight_schedules(name: str) -> None:
    report = judge(read_ptx(name), read_spec(name), name, count=8)
    assert report.verdict == "clean", str(report)
    assert len(set(report.schedules)) == 8


def test_sample_wraps_its_rings() -> None:
    for name in set(SAMPLE) & set(LOOPS):
        (trips,) = read_spec(name)["params"][LOOPS[name].position].values()
        assert trips >= max(LOOPS[name].trips), name
