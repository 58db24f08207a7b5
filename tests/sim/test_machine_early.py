"""Launches that start while the kernel before them runs: no buffer is touched before the wait."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.sim.support.machine import STORE, text_of
from warpsmith.errors import SimulationError
from warpsmith.sim.ptx import read
from warpsmith.sim.report import Report
from warpsmith.sim.simulate import simulate
from warpsmith.sim.spec import prepare

WAIT = "griddepcontrol.wait;"
SPEC: dict[str, Any] = {
    "grid": [2],
    "block": [64],
    "buffers": {
        "x": {"dtype": "uint32", "shape": [1024], "init": "arange"},
        "out": {"dtype": "uint32", "shape": [1024], "init": "zeros"},
    },
    "params": [{"ptr": "x"}, {"ptr": "out"}],
    "outputs": ["out"],
}
BARRIER = """
mov.u32 %r20, sm; add.u32 %r21, %r20, 1024; setp.eq.u32 %p1, %tid, 0;
@%p1 mbarrier.init.shared::cta.b64 [%r20], 1;
fence.mbarrier_init.release.cluster; bar.sync 0;
"""
AWAIT_BULK = """
LOOK: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r20], 0; @!%p2 bra LOOK;
ld.shared.u32 %r0, [%r21];
"""
FILLED = """
mov.u32 %r20, sm; mad.lo.u32 %r21, %tid, 4, %r20; st.shared.u32 [%r21], 0;
fence.proxy.async.shared::cta; bar.sync 0;
setp.eq.u32 %p1, %own, 0;
"""
STORED = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
BULK = """
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 64;
@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r21], [%x], 64, [%r20];
"""


def ran(body: str, *, early: bool = True) -> Report:
    return simulate(prepare(read(text_of(body)), {**SPEC, "early": early}).launch, count=2)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("ld.global.u32 %r0, [%x];", STORE),
        ("ld.global.nc.u32 %r0, [%x];", STORE),
        ("ld.u32 %r0, [%x];", STORE),
        ("mov.u32 %r0, 7; " + STORE, ""),
        ("mov.u32 %r0, 7; atom.global.add.u32 %r1, [%out], 0;", ""),
        ("red.global.add.u32 [%out], 1;", ""),
        (
            "mov.u32 %r20, sm; mad.lo.u32 %r20, %tid, 4, %r20;"
            "cp.async.ca.shared.global [%r20], [%x], 4;",
            "cp.async.wait_all; ld.shared.u32 %r0, [%r20];" + STORE,
        ),
        (BARRIER + BULK, AWAIT_BULK + STORE),
        (FILLED + "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r20], 64;", STORED),
        (
            FILLED
            + "@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out], [%r20], 64;",
            STORED,
        ),
    ],
)
def test_a_touch_before_the_wait_is_found_and_behind_it_is_none(first: str, second: str) -> None:
    assert ran(f"{first} {WAIT} {second}").verdict == "findings"
    finding = next(f for f in ran(f"{first} {WAIT} {second}").findings if f.kind == "early-access")
    assert "before griddepcontrol.wait, while the kernel before may still run" in finding.message
    assert finding.site.line is not None
    assert ran(f"{WAIT} {first} {second}").verdict == "clean"
    assert ran(f"{first} {second}", early=False).verdict == "clean"


def test_what_is_settled_may_be_read_before_the_wait() -> None:
    settled = {**SPEC["buffers"], "x": {**SPEC["buffers"]["x"], "settled": True}}
    spec = {**SPEC, "early": True, "buffers": settled}

    def verdict(body: str) -> str:
        return simulate(prepare(read(text_of(body)), spec).launch, count=2).verdict

    load = "ld.global.u32 %r0, [%x];"
    assert verdict(f"{load} {WAIT} {STORE}") == "clean"
    assert verdict(f"{load} {STORE} {WAIT}") == "findings"
    copy = (
        "mov.u32 %r20, sm; mad.lo.u32 %r20, %tid, 4, %r20; "
        "cp.async.ca.shared.global [%r20], [%x], 4; cp.async.wait_all;"
    )
    assert verdict(f"{copy} {WAIT} mov.u32 %r0, 1; {STORE}") == "clean"
    assert verdict(f"{load} st.global.u32 [%x], %r0; {WAIT} {STORE}") == "findings"


def test_the_buffer_is_named() -> None:
    (finding,) = ran(f"mov.u32 %r0, 1; {STORE} {WAIT}").findings
    assert (finding.kind, finding.buffer) == ("early-access", "out")


def test_each_thread_waits_for_itself() -> None:
    half = "setp.lt.u32 %p0, %lane, 16; @%p0 bra SKIP; griddepcontrol.wait; SKIP: mov.u32 %r0, 1;"
    report = ran(f"{half} {STORE}")
    (finding,) = report.findings
    assert finding.kind == "early-access"
    assert finding.site.lane is not None
    assert finding.site.lane < 16


def test_shared_and_local_memory_and_admission_need_no_wait() -> None:
    body = f"""
    griddepcontrol.launch_dependents;
    mov.u32 %r20, sm; mad.lo.u32 %r20, %tid, 4, %r20;
    st.shared.u32 [%r20], %tid; ld.shared.u32 %r0, [%r20]; {WAIT} {STORE}
    """
    report = ran(body)
    assert report.verdict == "clean", str(report)
    assert np.array_equal(report.arrays["out"][:64], np.arange(64))


def test_a_launch_is_not_early_unless_it_says_so() -> None:
    launch = prepare(read(text_of(f"mov.u32 %r0, 1; {STORE}")), SPEC).launch
    assert not launch.early
    assert simulate(launch, count=1).verdict == "clean"
    assert simulate(replace(launch, early=True), count=1).verdict == "findings"


def test_early_is_true_or_false() -> None:
    with pytest.raises(SimulationError, match="`early` is neither true nor false"):
        prepare(read(text_of(STORE)), {**SPEC, "early": 1})
