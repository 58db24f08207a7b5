"""The multi-role kernel with its author's faults, one by one and all together."""

import pytest

from tests.sim.support.catalog import LOOPS, read_ptx, read_spec
from tests.sim.support.corpus import MULTI_ROLE
from tests.sim.support.judge import judge
from tests.sim.support.mutations import mutants
from warpsmith.sim.report import Report

# What names each fault: the kind of finding, and the instruction at which it stands.
NAMED = {
    "wrong_warp": {("deadlock", "mbarrier.try_wait")},
    "idle_fall_through": {
        ("arrival-unordered", "mbarrier.arrive"),
        ("named-barrier-clash", "bar.sync"),
        ("deadlock", "bar.sync"),
    },
    "double_release": {("arrival-unordered", "mbarrier.arrive"), ("deadlock", "mbarrier.try_wait")},
    # What part of a group gives up is nobody's, so that the others wait for it.
    "single_warp_dec": {
        ("setmaxnreg", "setmaxnreg.inc"),
        ("arrival-missing", "mbarrier.try_wait"),
        ("deadlock", "setmaxnreg.inc"),
    },
    "one_sided_bounds": {("out-of-bounds", "cp.async.bulk")},
    "no_release_fence": {("missing-proxy-fence", "cp.async.bulk")},
    "early_inval": {("barrier-invalidated", "mbarrier.arrive")},
    "shared_full|wrong_warp": {
        ("deadlock", "mbarrier.try_wait"),
        ("arrival-missing", "mbarrier.try_wait"),
    },
    "every_fault": {
        ("setmaxnreg", "setmaxnreg.dec"),
        ("arrival-missing", "mbarrier.try_wait"),
        ("deadlock", "mbarrier.try_wait"),
    },
}
# The shared barrier counts both producers; within one CTA bar.sync orders the inits.
NO_FAULTS = ("shared_full", "no_init_fence")
# Faults that end the run in a state from which nothing goes on.
HANGING = ("wrong_warp", "idle_fall_through", "double_release", "every_fault")


def faulty(faults: str, *, count: int = 8, trips: int | None = None) -> Report:
    ptx = read_ptx("multi_role", (f"FAULTS={faults}",))
    return judge(ptx, read_spec("multi_role", trips), "multi_role", count=count)


def test_every_fault_is_judged_here() -> None:
    assert {"|".join(one.faults) for one in MULTI_ROLE} == {*NAMED, *NO_FAULTS}


@pytest.mark.parametrize("faults", NAMED)
def test_reported_as_what_it_is(faults: str) -> None:
    report = faulty(faults)
    shown = {(one.kind, one.site.text) for one in report.findings if one.site.line}
    for kind, instruction in NAMED[faults]:
        assert any(kind == k and instruction in text for k, text in shown), str(report)


@pytest.mark.parametrize("faults", HANGING)
def test_run_that_hangs(faults: str) -> None:
    (first, *_) = [one for one in faulty(faults).findings if one.kind == "deadlock"]
    assert "warps wait for ever" in first.message
    assert first.schedule


def test_single_fault_is_not_taken_for_another() -> None:
    for faults in ("single_warp_dec", "no_release_fence"):
        assert {one.kind for one in faulty(faults).findings} == {kind for kind, _ in NAMED[faults]}


@pytest.mark.parametrize("trips", [None, *LOOPS["multi_role"].trips])
@pytest.mark.parametrize("faults", NO_FAULTS)
def test_what_its_author_suspects_is_no_fault(faults: str, trips: int | None) -> None:
    report = faulty(faults, trips=trips)
    assert report.verdict == "clean", str(report)


def test_shared_barrier_with_a_count_of_one_is_a_fault() -> None:
    """A phase of one arrival is over when one row is there, and the other producer arrives again.

    With two, neither can arrive twice in a phase: before it comes again it waits for the readers,
    and those wait for the phase.
    """
    ptx = read_ptx("multi_role", ("FAULTS=shared_full",))
    counts = [one for one in mutants(ptx) if one.operator == "count-1"]
    full = next(one for one in counts if one.instruction.startswith("mbarrier.init"))
    report = judge(full.text, read_spec("multi_role"), "multi_role")
    assert {"arrival-unordered", "arrival-overflow"} & {one.kind for one in report.findings}
