"""Barriers, blocks that come and go, register pools, and runs that do not end."""

import pytest

from tests.sim.support.machine import STORE, at, clean, finding, found, run, values
from warpsmith.errors import SimulationError

PLACE = "mul.lo.u32 %r1, %tid, 4; add.u32 %r1, %r1, sm;"


# ---- Named barriers -----------------------------------------------------------------------------


def test_cta_barrier_with_a_partial_last_warp() -> None:
    body = f"""
    {PLACE} st.shared.u32 [%r1], %tid;
    bar.sync 0;
    sub.u32 %r2, 69, %tid; mul.lo.u32 %r2, %r2, 4; add.u32 %r2, %r2, sm; ld.shared.u32 %r0, [%r2];
    """
    assert values(body + STORE, threads=70) == [69 - t for t in range(70)]


def test_warps_that_have_exited_do_not_count() -> None:
    body = """
    setp.eq.u32 %p0, %warp, 1; @%p0 exit;
    bar.sync 0; bar.sync 0;
    """
    clean(body, threads=96)


def test_exit_completes_a_barrier_where_others_wait_already() -> None:
    body = """
    mov.u32 %r2, 0; setp.ne.u32 %p0, %warp, 2; @%p0 bra WAIT;
    LOOP: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 400; @%p1 bra LOOP;
    exit;
    WAIT: bar.sync 0;
    """
    clean(body, threads=96)


def test_barrier_of_some_warps() -> None:
    body = f"""
    setp.ge.u32 %p0, %warp, 2; @%p0 bra DONE;
    {PLACE} st.shared.u32 [%r1], %tid;
    bar.sync 3, 64;
    xor.b32 %r2, %r1, 128; ld.shared.u32 %r0, [%r2];
    """
    got = values(body + STORE, threads=128)
    assert got[:64] == [t ^ 32 for t in range(64)]


def test_arrive_orders_as_sync_does() -> None:
    body = f"""
    {PLACE} setp.eq.u32 %p0, %warp, 0;
    @%p0 bra WRITER;
    bar.sync 1, 64;
    ld.shared.u32 %r0, [%r1+-128]; {STORE} bra DONE;
    WRITER: st.shared.u32 [%r1], %lane; ARRIVE
    """
    clean(body.replace("ARRIVE", "bar.arrive 1, 64;"), threads=64)
    assert "deadlock" in found(body.replace("ARRIVE", ""), threads=64)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("popc.u32", 22), ("and.pred", 0), ("or.pred", 1)],
)
def test_barrier_reductions(mode: str, expected: int) -> None:
    predicate = mode.endswith("pred")
    target = "%p1" if predicate else "%r0"
    body = f"""
    and.b32 %r1, %tid, 3; setp.eq.u32 %p0, %r1, 1; setp.lt.or.u32 %p0, %tid, 8, %p0;
    bar.red.{mode} {target}, 0, %p0;
    {"selp.u32 %r0, 1, 0, %p1;" if predicate else ""}
    """
    assert values(body + STORE, threads=64) == [expected] * 64


def test_unaligned_barrier_of_a_divergent_warp() -> None:
    body = """
    setp.lt.u32 %p0, %lane, 16; @%p0 bra LOW;
    barrier.sync 1, 32; bra DONE;
    LOW: barrier.sync 1, 32;
    """
    clean(body)


def test_numbers_out_of_range() -> None:
    assert found("add.u32 %r1, %warp, 16; bar.sync %r1;") == {"illegal-argument"}
    assert "named-barrier-count" in found("add.u32 %r1, %warp, 40; bar.sync 1, %r1;")


def test_two_counts_at_one_barrier() -> None:
    body = "setp.eq.u32 %p0, %warp, 0; @%p0 bra A; bar.sync 1, 64; bra DONE; A: bar.sync 1, 96;"
    one = finding(body, "named-barrier-count", threads=64, count=1)
    assert at(one, "bar.sync")
    assert one.other is not None


# ---- CTAs come and go ---------------------------------------------------------------------------


def test_grid_larger_than_the_device() -> None:
    report = run("red.global.add.u32 [%out], 1;", grid=500, shared=200 << 10)
    assert report.verdict == "clean", str(report)
    assert report.arrays["out"][0] == 500 * 32


@pytest.mark.parametrize("count", [1, 4])
def test_waiting_for_a_cta_that_has_no_room(count: int) -> None:
    """Every CTA waits for one of them; 132 find room, one on each SM."""
    body = """
    setp.eq.u32 %p0, %cta, LAST; @%p0 st.release.gpu.global.u32 [%out], 1;
    SPIN: ld.acquire.gpu.global.u32 %r1, [%out]; setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN;
    """
    full = {"threads": 1, "grid": 140, "shared": 200 << 10, "budget": 10**7}
    one = finding(body.replace("LAST", "139"), "deadlock", count=count, **full)
    assert "8 CTAs wait for room" in one.message
    clean(body.replace("LAST", "131"), count=1, **full)


MEETING = """
setp.eq.u32 %p0, %lane, 0; @!%p0 bra DONE;
atom.acq_rel.gpu.global.add.u32 %r0, [%out], 1;
SPIN: ld.acquire.gpu.global.u32 %r1, [%out]; setp.lt.u32 %p1, %r1, 3; @%p1 bra SPIN;
"""


def test_ctas_that_meet_are_launched_together() -> None:
    """No launch but a cooperative one promises that more than one CTA runs at a time."""
    clean(MEETING, grid=3, together=True)
    one = finding(MEETING, "deadlock", grid=3)
    assert "2 CTAs wait for room" in one.message


def test_ctas_that_are_to_run_at_once_need_room() -> None:
    with pytest.raises(
        SimulationError, match="133 CTAs are to run at once, and .* for 132"
    ) as full:
        run(MEETING, grid=133, shared=200 << 10, together=True)
    assert full.value.code == "WS0805"


# ---- Registers ----------------------------------------------------------------------------------

POOL = """
shr.u32 %r1, %warp, 2; setp.eq.u32 %p0, %r1, 0;
@%p0 bra GIVES;
setmaxnreg.inc.sync.aligned.u32 MORE; bra DONE;
GIVES: mov.u32 %r2, 0;
LOOP: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 300; @%p1 bra LOOP;
setmaxnreg.dec.sync.aligned.u32 40;
"""


def test_increase_waits_for_what_others_give() -> None:
    launch = {"threads": 384, "registers": 168, "bound": ".maxntid 384, 1, 1 .minnctapersm 1"}
    clean(POOL.replace("MORE", "232"), **launch)
    assert {"setmaxnreg", "deadlock"} <= found(POOL.replace("MORE", "240"), **launch)


def test_the_pool_is_what_the_block_was_launched_with() -> None:
    """384 threads of 168 are 64512 registers; the 1024 that the SM has besides are not theirs."""
    launch = {"threads": 384, "registers": 168, "bound": ".maxntid 384, 1, 1 .minnctapersm 1"}
    body = POOL.replace("u32 40", "u32 DEC")
    clean(body.replace("DEC", "24").replace("MORE", "240"), **launch)
    assert "deadlock" in found(body.replace("DEC", "32").replace("MORE", "240"), **launch)


def test_register_counts_out_of_range() -> None:
    bound = ".maxntid 128, 1, 1 .minnctapersm 1"
    assert "setmaxnreg" in found(
        "setmaxnreg.dec.sync.aligned.u32 200;", threads=128, registers=128, bound=bound
    )


@pytest.mark.parametrize(
    ("threads", "whole"), [(128, True), (256, True), (96, False), (224, False)]
)
def test_a_part_of_a_warp_group_has_no_budget(threads: int, whole: bool) -> None:
    launch = {"threads": threads, "registers": 128, "bound": f".maxntid {threads}, 1, 1"}
    launch["bound"] += " .minnctapersm 1"
    body = "setmaxnreg.dec.sync.aligned.u32 40;"
    if whole:
        clean(body, **launch)
    else:
        said = finding(body, "setmaxnreg", **launch).message
        assert "the block has 3 of the 4 warps of its warp group" in said


# ---- Runs that do not end -----------------------------------------------------------------------


def test_spinning_on_a_flag_of_another_warp() -> None:
    body = """
    setp.ne.u32 %p0, %lane, 0; @%p0 exit;
    setp.eq.u32 %p0, %warp, 1; @%p0 bra SETS;
    SPIN: ld.acquire.gpu.global.u32 %r1, [%out]; setp.eq.u32 %p1, %r1, 0; PAUSE @%p1 bra SPIN;
    bra DONE;
    SETS: mov.u32 %r2, 0;
    LOOP: add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 3000; @%p2 bra LOOP;
    st.release.gpu.global.u32 [%out], 1;
    """
    clean(body.replace("PAUSE", ""), threads=64)
    clean(body.replace("PAUSE", "nanosleep.u32 100;"), threads=64)


@pytest.mark.parametrize("pause", ["", "nanosleep.u32 20;", "add.u32 %r3, %r1, 1;"])
def test_spinning_on_a_flag_that_nobody_sets(pause: str) -> None:
    body = f"""
    SPIN: ld.acquire.gpu.global.u32 %r1, [%out]; setp.eq.u32 %p1, %r1, 0; {pause} @%p1 bra SPIN;
    """
    one = finding(body, "deadlock", threads=64, count=1)
    assert "does not change" in one.message


def test_two_warps_that_undo_each_other_for_ever() -> None:
    """Memory changes all the time: no proof of a deadlock, so the budget ends the run."""
    body = "SPIN: atom.global.xor.b32 %r1, [%out], 1; setp.lt.u32 %p1, %r1, 2; @%p1 bra SPIN;"
    report = run(body, threads=64, budget=20_000)
    assert report.verdict == "incomplete"
    assert report.exit_code == 2
    assert {one.kind for one in report.findings} == {"budget"}


def test_budget_tells_where_warps_stand() -> None:
    body = "mov.u32 %r1, 0; LOOP: add.u32 %r1, %r1, 1; bra LOOP;"
    report = run(body, threads=64, budget=5_000, count=1)
    (one,) = report.findings
    assert (one.kind, report.verdict) == ("budget", "incomplete")
    assert "warp 0 of CTA 0 at line" in one.message
    assert "5000 warp instructions" in one.message


def test_waiting_for_the_clock() -> None:
    clean("""
    mov.u64 %d0, %clock64;
    LOOP: mov.u64 %d1, %clock64; sub.u64 %d2, %d1, %d0; setp.lt.u64 %p0, %d2, 5000; @%p0 bra LOOP;
    mov.u64 %d3, %globaltimer; add.u64 %d4, %d3, 1000;
    WAIT: mov.u64 %d3, %globaltimer; setp.lt.u64 %p1, %d3, %d4; @%p1 bra WAIT;
    """)


def test_lane_that_waits_for_another_lane_of_its_warp() -> None:
    body = """
    setp.eq.u32 %p0, %lane, 0; mov.u32 %r2, 1;
    @%p0 bra SETS;
    SPIN: ld.acquire.cta.shared.u32 %r1, [sm]; setp.ne.u32 %p1, %r1, 1; @%p1 bra SPIN;
    bra DONE;
    SETS: st.release.cta.shared.u32 [sm], %r2;
    """
    init = "setp.eq.u32 %p2, %lane, 0; @%p2 st.shared.u32 [sm], 0; bar.warp.sync -1;"
    clean(init + body)


def test_lane_that_waits_for_one_beyond_the_point_where_they_meet() -> None:
    """Lanes make progress each by itself; meeting again is no promise."""
    body = """
    setp.eq.u32 %p2, %lane, 0; @%p2 st.shared.u32 [sm], 0; bar.warp.sync -1;
    setp.ne.u32 %p0, %lane, 0; @%p0 bra MEET;
    SPIN: ld.acquire.cta.shared.u32 %r1, [sm]; setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN;
    MEET: setp.eq.u32 %p3, %lane, VALUE; mov.u32 %r3, 1; @%p3 st.release.cta.shared.u32 [sm], %r3;
    bar.warp.sync -1;
    """
    clean(body.replace("VALUE", "1"))
    assert "deadlock" in found(body.replace("VALUE", "99"))


def test_trap_ends_the_run() -> None:
    one = finding("setp.eq.u32 %p0, %lane, 3; @%p0 trap;", "trap", count=1)
    assert one.site.lane == 3
