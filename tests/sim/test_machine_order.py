"""What orders memory: patterns of release and acquire, right ones clean, broken ones found."""

import pytest

from tests.sim.support.machine import clean, found, run, values

FLAG = "%out+1024"
RELEASE = f"st.release.gpu.global.u32 [{FLAG}], 1;"
ACQUIRE = f"ld.acquire.gpu.global.u32 %r1, [{FLAG}];"
FENCE = "fence.acq_rel.gpu;"
RELAXED_WRITE = RELEASE.replace("release", "relaxed")
RELAXED_READ = ACQUIRE.replace("acquire", "relaxed")
RIGHT = {
    "store and load": (RELEASE, ACQUIRE, ""),
    "wider than needed": (RELEASE.replace("gpu", "sys"), ACQUIRE, ""),
    "fences": (FENCE + RELAXED_WRITE, RELAXED_READ, FENCE),
    "sc fences": ("fence.sc.gpu; " + RELAXED_WRITE, RELAXED_READ, "fence.sc.gpu;"),
    "membar and volatile": (
        f"membar.gl; st.volatile.global.u32 [{FLAG}], 1;",
        f"ld.volatile.global.u32 %r1, [{FLAG}];",
        "membar.gl;",
    ),
    "fence and acquire": (FENCE + RELAXED_WRITE, ACQUIRE, ""),
    "release and fence": (RELEASE, RELAXED_READ, FENCE),
    "exchange": (
        f"atom.release.gpu.global.exch.b32 %r9, [{FLAG}], 1;",
        f"atom.acquire.gpu.global.or.b32 %r1, [{FLAG}], 0;",
        "",
    ),
    "both sides of atomics": (
        f"atom.acq_rel.gpu.global.add.u32 %r9, [{FLAG}], 1;",
        f"atom.acq_rel.gpu.global.add.u32 %r1, [{FLAG}], 0;",
        "",
    ),
    "reduction": (f"red.release.gpu.global.add.u32 [{FLAG}], 1;", ACQUIRE, ""),
    "swap": (
        f"atom.release.gpu.global.cas.b32 %r9, [{FLAG}], 0, 1;",
        f"atom.acquire.gpu.global.cas.b32 %r1, [{FLAG}], 7, 8;",
        "",
    ),
}
BROKEN = {
    "relaxed": (RELAXED_WRITE, RELAXED_READ, ""),
    "relaxed write": (RELAXED_WRITE, ACQUIRE, ""),
    "relaxed read": (RELEASE, RELAXED_READ, ""),
    "release to the CTA": (RELEASE.replace("gpu", "cta"), ACQUIRE, ""),
    "acquire from the CTA": (RELEASE, ACQUIRE.replace("gpu", "cta"), ""),
    "release to the cluster": (RELEASE.replace("gpu", "cluster"), ACQUIRE, ""),
    "narrow fence of the writer": ("fence.acq_rel.cta; " + RELAXED_WRITE, RELAXED_READ, FENCE),
    "narrow fence of the reader": (FENCE + RELAXED_WRITE, RELAXED_READ, "fence.acq_rel.cta;"),
    "fence behind the flag": (RELAXED_WRITE + FENCE, RELAXED_READ, FENCE),
    "reader without fence": (FENCE + RELAXED_WRITE, RELAXED_READ, ""),
    "weak flag": (
        f"fence.acq_rel.gpu; st.global.u32 [{FLAG}], 1;",
        f"ld.volatile.global.u32 %r1, [{FLAG}];",
        FENCE,
    ),
    "swap that fails": (
        f"atom.relaxed.gpu.global.exch.b32 %r9, [{FLAG}], 1; "
        f"atom.release.gpu.global.cas.b32 %r9, [{FLAG}], 7, 8;",
        ACQUIRE,
        "",
    ),
}


def message(who: str, write: str, read: str, behind: str) -> str:
    """Thread or CTA 0 writes x[0], then the flag; number 1 waits for the flag and reads x[0]."""
    return f"""
    setp.eq.u32 %p0, {who}, 0; mov.u32 %r2, 42;
    @%p0 bra WRITER;
    SPIN: {read} setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN;
    {behind}
    ld.global.u32 %r0, [%x]; st.global.u32 [%out+4], %r0;
    bra DONE;
    WRITER: st.global.u32 [%x], %r2; {write}
    """


@pytest.mark.parametrize("pattern", RIGHT)
def test_message_to_another_cta(pattern: str) -> None:
    report = run(message("%cta", *RIGHT[pattern]), threads=1, grid=2)
    assert report.verdict == "clean", str(report)
    assert report.arrays["out"][1] == 42


@pytest.mark.parametrize("pattern", BROKEN)
def test_broken_message_to_another_cta(pattern: str) -> None:
    assert found(message("%cta", *BROKEN[pattern]), threads=1, grid=2) == {"race"}


@pytest.mark.parametrize("pattern", [*RIGHT, "release to the CTA", "acquire from the CTA"])
def test_message_within_a_cta(pattern: str) -> None:
    parts = {**RIGHT, **BROKEN}[pattern]
    body = "and.b32 %r3, %tid, 31; setp.ne.u32 %p5, %r3, 0; @%p5 exit;"
    clean(body + message("%warp", *parts), threads=64)


@pytest.mark.parametrize("fence", ["fence.acq_rel.cta;", "membar.cta;"])
def test_narrow_fences_within_a_cta(fence: str) -> None:
    write = f"{fence} st.relaxed.cta.global.u32 [{FLAG}], 1;"
    read = f"ld.relaxed.cta.global.u32 %r1, [{FLAG}];"
    body = "and.b32 %r3, %tid, 31; setp.ne.u32 %p5, %r3, 0; @%p5 exit;"
    clean(body + message("%warp", write, read, fence), threads=64)


def test_flag_of_cta_scope_races_with_another_cta() -> None:
    write = f"fence.acq_rel.gpu; st.relaxed.cta.global.u32 [{FLAG}], 1;"
    assert "race" in found(
        message("%cta", write, RELAXED_READ, "fence.acq_rel.gpu;"), threads=1, grid=2
    )


def three(second: str) -> str:
    """0 writes x and releases flag 1; CTA 1 does `second`; CTA 2 acquires flag 2 and reads x."""
    return f"""
    setp.eq.u32 %p0, %cta, 0; setp.eq.u32 %p1, %cta, 1; mov.u32 %r2, 42;
    @%p0 bra FIRST; @%p1 bra SECOND;
    WAIT: ld.acquire.gpu.global.u32 %r1, [{FLAG}+4]; setp.ne.u32 %p2, %r1, 2; @%p2 bra WAIT;
    ld.global.u32 %r0, [%x]; st.global.u32 [%out], %r0;
    bra DONE;
    FIRST: st.global.u32 [%x], %r2; st.release.gpu.global.u32 [{FLAG}], 1; bra DONE;
    SECOND: {second}
    """


def test_what_was_acquired_is_released_further() -> None:
    spin = f"A: ld.acquire.gpu.global.u32 %r1, [{FLAG}]; setp.eq.u32 %p3, %r1, 0; @%p3 bra A;"
    clean(three(f"{spin} st.release.gpu.global.u32 [{FLAG}+4], 2;"), threads=1, grid=3)
    assert found(three(f"{spin} st.relaxed.gpu.global.u32 [{FLAG}+4], 2;"), threads=1, grid=3) == {
        "race"
    }
    unordered = spin.replace("acquire", "relaxed")
    assert found(
        three(f"{unordered} st.release.gpu.global.u32 [{FLAG}+4], 2;"), threads=1, grid=3
    ) == {"race"}


def test_atomic_updates_continue_a_release_and_stores_end_it() -> None:
    chain = """
    setp.eq.u32 %p0, %cta, 0; setp.eq.u32 %p1, %cta, 1; mov.u32 %r2, 42;
    @%p0 bra FIRST; @%p1 bra SECOND;
    WAIT: ld.acquire.gpu.global.u32 %r1, [FLAG]; setp.ne.u32 %p2, %r1, 2; @%p2 bra WAIT;
    ld.global.u32 %r0, [%x]; st.global.u32 [%out], %r0;
    bra DONE;
    FIRST: st.global.u32 [%x], %r2; st.release.gpu.global.u32 [FLAG], 1; bra DONE;
    SECOND: ld.relaxed.gpu.global.u32 %r1, [FLAG]; setp.eq.u32 %p3, %r1, 0; @%p3 bra SECOND;
    UPDATE
    """.replace("FLAG", FLAG)
    update = f"atom.relaxed.gpu.global.add.u32 %r3, [{FLAG}], 1;"
    clean(chain.replace("UPDATE", update), threads=1, grid=3)
    store = f"st.relaxed.gpu.global.u32 [{FLAG}], 2;"
    assert found(chain.replace("UPDATE", store), threads=1, grid=3) == {"race"}


LOCK = f"""
mov.u32 %r5, 0;
ACQUIRE: atom.relaxed.gpu.global.cas.b32 %r1, [{FLAG}], 0, 1;
setp.ne.u32 %p0, %r1, 0; @%p0 bra ACQUIRE;
FENCE
ld.global.u32 %r2, [%out]; add.u32 %r2, %r2, 1; st.global.u32 [%out], %r2;
FENCE
st.relaxed.gpu.global.u32 [{FLAG}], 0;
"""


def test_spin_lock() -> None:
    report = run(LOCK.replace("FENCE", "fence.acq_rel.gpu;"), threads=1, grid=20)
    assert report.verdict == "clean", str(report)
    assert report.arrays["out"][0] == 20
    assert found(LOCK.replace("FENCE", ""), threads=1, grid=20) == {"race"}


def test_lanes_of_a_warp_are_ordered_by_a_warp_barrier_only() -> None:
    body = """
    mul.lo.u32 %r1, %lane, 4; add.u32 %r1, %r1, sm; xor.b32 %r2, %r1, 4;
    st.shared.u32 [%r1], %lane;
    ORDER
    ld.shared.u32 %r0, [%r2]; st.global.u32 [%o], %r0;
    """
    expected = [lane ^ 1 for lane in range(32)]
    assert values(body.replace("ORDER", "bar.warp.sync -1;")) == expected
    assert values(body.replace("ORDER", "bar.sync 0;")) == expected
    for nothing in ("", "shfl.sync.bfly.b32 %r3, %lane, 1, 31, -1;", "fence.acq_rel.cta;"):
        assert found(body.replace("ORDER", nothing)) == {"race"}


def test_one_lane_does_not_acquire_for_another() -> None:
    body = f"""
    setp.eq.u32 %p0, %cta, 0; setp.eq.u32 %p3, %lane, 0; mov.u32 %r2, 42;
    @%p0 bra WRITER;
    @!%p3 bra BEHIND;
    SPIN: ld.acquire.gpu.global.u32 %r1, [{FLAG}]; setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN;
    BEHIND: ORDER
    ld.global.u32 %r0, [%x]; st.global.u32 [%o], %r0;
    bra DONE;
    WRITER: @%p3 st.global.u32 [%x], %r2; @%p3 st.release.gpu.global.u32 [{FLAG}], 1;
    """
    clean(body.replace("ORDER", "bar.warp.sync -1;"), grid=2)
    assert found(body.replace("ORDER", ""), grid=2) == {"race"}


def test_one_lane_does_not_release_for_another() -> None:
    body = f"""
    setp.eq.u32 %p0, %cta, 0; setp.eq.u32 %p3, %lane, 0; mul.wide.u32 %d0, %lane, 4;
    add.u64 %d0, %x, %d0;
    @%p0 bra WRITER;
    @!%p3 bra DONE;
    SPIN: ld.acquire.gpu.global.u32 %r1, [{FLAG}]; setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN;
    ld.global.u32 %r0, [%x+8]; st.global.u32 [%o], %r0;
    bra DONE;
    WRITER: st.global.u32 [%d0], %tid;
    ORDER
    @%p3 st.release.gpu.global.u32 [{FLAG}], 1;
    """
    clean(body.replace("ORDER", "bar.warp.sync -1;"), grid=2)
    clean(body.replace("ORDER", "bar.sync 0;"), grid=2)
    assert found(body.replace("ORDER", ""), grid=2) == {"race"}


def test_fence_of_one_thread_orders_what_the_cta_barrier_brought_to_it() -> None:
    """The usual grid barrier: all write, bar.sync, one thread fences and raises the flag."""
    body = f"""
    setp.eq.u32 %p0, %cta, 0; setp.eq.u32 %p3, %tid, 0; mul.wide.u32 %d0, %tid, 4;
    add.u64 %d0, %x, %d0;
    @!%p0 bra READER;
    st.global.u32 [%d0], %tid;
    bar.sync 0;
    @%p3 fence.acq_rel.gpu; @%p3 st.relaxed.gpu.global.u32 [{FLAG}], 1;
    bra DONE;
    READER: @!%p3 bra WAIT;
    SPIN: ld.relaxed.gpu.global.u32 %r1, [{FLAG}]; setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN;
    fence.acq_rel.gpu;
    WAIT: bar.sync 0;
    ld.global.u32 %r0, [%d0]; st.global.u32 [%o], %r0;
    """
    clean(body, threads=64, grid=2)
    assert found(body.replace("bar.sync 0;\n    @%p3", "@%p3"), threads=64, grid=2) == {"race"}


def test_writes_of_one_value_by_many_agree() -> None:
    clean("st.global.u32 [%out], 7;", threads=64)
    assert found("st.global.u32 [%out], %tid;", threads=64) == {"race"}


def test_read_and_later_write_race_as_well() -> None:
    body = "setp.lt.u32 %p0, %tid, 32; @%p0 ld.global.u32 %r1, [%x]; @!%p0 st.global.u32 [%x], 5;"
    assert found(body, threads=64) == {"race"}


def test_neighbouring_bytes_do_not_race() -> None:
    clean("cvt.u64.u32 %d0, %tid; add.u64 %d0, %out, %d0; st.global.u8 [%d0], %tid;", threads=64)
