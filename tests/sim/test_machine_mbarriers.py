"""Mbarriers: what they count, who waits for them, and when they end."""

from tests.sim.support.machine import LEADER, at, barrier, clean, finding, found, wait


def test_count_of_an_arrival_and_drop() -> None:
    body = f"""
    {barrier(5)}
    @%p0 mbarrier.arrive.shared::cta.b64 _, [sm+2048], 3;
    @%p0 mbarrier.arrive_drop.shared::cta.b64 _, [sm+2048], 2;
    {wait(0, "A")}
    bar.sync 0;
    @%p0 mbarrier.arrive.shared::cta.b64 _, [sm+2048], 3;
    {wait(1, "B")}
    """
    clean(body, threads=64)


def test_arrivals_by_many_lanes() -> None:
    body = f"{barrier(64)} mbarrier.arrive.shared::cta.b64 _, [sm+2048]; {wait(0)}"
    clean(body, threads=64)
    assert {"deadlock", "arrival-missing"} <= found(body.replace("], 64", "], 65"), threads=64)
    half = f"{barrier(32)} mbarrier.arrive.shared::cta.b64 _, [sm+2048]; {wait(0)}"
    assert "arrival-unordered" in found(half, threads=64)


def test_counts_out_of_range() -> None:
    assert "illegal-argument" in found(f"{LEADER} @%p0 mbarrier.init.shared::cta.b64 [sm], 0;")
    assert "misaligned" in found(f"{LEADER} @%p0 mbarrier.init.shared::cta.b64 [sm+4], 1;")
    big = f"{barrier(2)} @%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [sm+2048], 1048576;"
    assert "tx-mismatch" in found(big)


def test_waiter_that_lags_two_phases() -> None:
    body = f"""
    {barrier(1)} setp.eq.u32 %p1, %warp, 0; @%p1 bra ARRIVES;
    bar.sync 1, 64;
    {wait(1)} bra DONE;
    ARRIVES: setp.ne.u32 %p2, %lane, 0; @%p2 bra MEET;
    mbarrier.arrive.shared::cta.b64 _, [sm+2048];
    {wait(0, "A")}
    mbarrier.arrive.shared::cta.b64 _, [sm+2048];
    {wait(1, "B")}
    MEET: bar.warp.sync -1; bar.arrive 1, 64;
    """
    clean(body, threads=64)  # the CTA barrier told it
    silent = body.replace("bar.sync 1, 64;", "").replace("bar.arrive 1, 64;", "")
    assert "phase-skipped" in found(silent, threads=64, count=8)


def test_touching_a_live_barrier() -> None:
    one = finding(f"{barrier()} ld.shared.u32 %r0, [sm+2048];", "race", count=1)
    assert at(one, "ld.shared")
    gone = "@%p0 mbarrier.inval.shared::cta.b64 [sm+2048];"
    clean(f"{barrier()} {gone} @%p0 st.shared.u64 [sm+2048], 0;")
