"""Asynchronous copies of threads and in bulk, which wait, or complete on an mbarrier."""

import pytest

from tests.sim.support.machine import LEADER, STORE, barrier, clean, found, run, values, wait

PLACE = """mul.lo.u32 %r1, %tid, 4; add.u32 %r1, %r1, sm;
mul.wide.u32 %d0, %tid, 4; add.u64 %d1, %x, %d0;"""
COPY = "cp.async.ca.shared.global [%r1], [%d1], 4;"


# ---- cp.async -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "waiting",
    [
        "cp.async.commit_group; cp.async.wait_group 0;",
        "cp.async.wait_all;",
        "cp.async.commit_group; cp.async.commit_group; cp.async.wait_group 1;",
    ],
)
def test_copy_is_there_behind_its_wait(waiting: str) -> None:
    body = f"{PLACE} {COPY} {waiting} ld.shared.u32 %r0, [%r1];"
    assert values(body + STORE, threads=64) == list(range(64))


@pytest.mark.parametrize(
    "waiting",
    [
        "",
        "cp.async.commit_group;",
        "cp.async.commit_group; cp.async.wait_group 1;",
        "cp.async.wait_group 0;",  # nothing was committed
    ],
)
def test_copy_that_was_not_waited_for(waiting: str) -> None:
    body = f"{PLACE} {COPY} {waiting} ld.shared.u32 %r0, [%r1]; {STORE} cp.async.wait_all;"
    assert "race" in found(body, threads=64)


def test_newest_group_may_be_left_out() -> None:
    body = f"""
    {PLACE} add.u64 %d2, %d1, 1024; add.u32 %r2, %r1, 1024;
    {COPY} cp.async.commit_group;
    cp.async.ca.shared.global [%r2], [%d2], 4; cp.async.commit_group;
    cp.async.wait_group 1;
    ld.shared.u32 %r0, [%r1]; SECOND
    cp.async.wait_group 0; {STORE}
    """
    assert values(body.replace("SECOND", "")) == list(range(32))
    assert "race" in found(body.replace("SECOND", "ld.shared.u32 %r0, [%r2];"))


def test_wait_is_for_the_own_copies_only() -> None:
    body = f"""
    {PLACE} {COPY} cp.async.wait_all; ORDER
    xor.b32 %r2, %r1, 128; ld.shared.u32 %r0, [%r2];
    """
    got = values(body.replace("ORDER", "bar.sync 0;") + STORE, threads=64)
    assert got == [t ^ 32 for t in range(64)]
    assert "race" in found(body.replace("ORDER", "") + STORE, threads=64)


def test_zero_fill_and_ignored_source() -> None:
    body = f"""
    {PLACE} mul.lo.u32 %r1, %tid, 16; add.u32 %r1, %r1, sm; mul.wide.u32 %d0, %tid, 16;
    add.u64 %d1, %x, %d0;
    and.b32 %r3, %tid, 3; mul.lo.u32 %r3, %r3, 4;
    cp.async.cg.shared.global [%r1], [%d1], 16, %r3; cp.async.wait_all;
    ld.shared.v4.u32 {{%r4, %r5, %r6, %r7}}, [%r1];
    add.u32 %r0, %r4, %r5; add.u32 %r0, %r0, %r6; add.u32 %r0, %r0, %r7;
    """
    expected = [sum(4 * t + i for i in range(t % 4)) for t in range(32)]
    assert values(body + STORE) == expected
    ignored = f"""
    {PLACE} setp.ge.u32 %p1, %tid, 16;
    cp.async.ca.shared.global [%r1], [%d1], 4, %p1; cp.async.wait_all; ld.shared.u32 %r0, [%r1];
    """
    assert values(ignored + STORE) == [t if t < 16 else 0 for t in range(32)]


def test_fully_filled_copy_may_have_any_source() -> None:
    body = f"""{PLACE} add.u64 %d1, %d1, 1048576; mov.u32 %r3, 0;
    cp.async.ca.shared.global [%r1], [%d1], 4, %r3; cp.async.wait_all; ld.shared.u32 %r0, [%r1];"""
    assert values(body + STORE) == [0] * 32
    assert "out-of-bounds" in found(body.replace("mov.u32 %r3, 0;", "mov.u32 %r3, 4;"))


def test_source_of_a_copy_larger_than_the_copy() -> None:
    body = f"{PLACE} mov.u32 %r3, 8; cp.async.ca.shared.global [%r1], [%d1], 4, %r3;"
    assert "illegal-argument" in found(body + "cp.async.wait_all;")


def test_overwriting_what_a_copy_brings() -> None:
    assert "race" in found(f"{PLACE} {COPY} st.shared.u32 [%r1], %tid; cp.async.wait_all;")


def test_exit_with_a_copy_on_its_way() -> None:
    assert found(f"{PLACE} {COPY}", count=8) == {"exit-outstanding"}


@pytest.mark.parametrize(("suffix", "count"), [("noinc.", 64), ("", 1)])
def test_copies_that_arrive_on_an_mbarrier(suffix: str, count: int) -> None:
    """Without .noinc an arrival is added and taken back: the barrier needs another one."""
    other = "" if suffix else "bar.sync 1, 64; @%p0 mbarrier.arrive.shared::cta.b64 _, [sm+2048];"
    body = f"""
    {barrier(count)} {PLACE} {COPY}
    cp.async.mbarrier.arrive.{suffix}shared::cta.b64 [sm+2048];
    {other}
    {wait(0)}
    xor.b32 %r2, %r1, 128; ld.shared.u32 %r0, [%r2];
    """
    assert values(body + STORE, threads=64) == [t ^ 32 for t in range(64)]


# ---- Bulk copies --------------------------------------------------------------------------------

LOAD = """@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [sm+2048], 128;
@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
 [sm], [%x], 128, [sm+2048];"""


def test_bulk_load() -> None:
    body = f"{barrier()} {PLACE} {LOAD} {wait(0)} ld.shared.u32 %r0, [%r1];"
    assert values(body + STORE) == list(range(32))
    early = f"{barrier()} {PLACE} {LOAD} ld.shared.u32 %r0, [%r1]; {STORE} {wait(0)}"
    assert "race" in found(early)


def test_wait_by_state_instead_of_parity() -> None:
    body = f"""
    {barrier()} {PLACE} mov.u64 %d5, 0;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 %d5, [sm+2048], 128;
    @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
 [sm], [%x], 128, [sm+2048];
    @!%p0 bra MEET;
    W: mbarrier.try_wait.shared::cta.b64 %p9, [sm+2048], %d5; @!%p9 bra W;
    mbarrier.pending_count.b64 %r7, %d5; setp.ne.u32 %p1, %r7, 1; @%p1 trap;
    MEET: bar.warp.sync -1;
    ld.shared.u32 %r0, [%r1];
    """
    assert values(body + STORE) == list(range(32))


def test_relaxed_wait_orders_nothing_until_a_fence() -> None:
    relaxed = wait(0).replace("parity.shared", "parity.relaxed.cta.shared")
    body = f"{barrier()} {PLACE} {LOAD} {relaxed} ORDER ld.shared.u32 %r0, [%r1];"
    assert "race" in found(body.replace("ORDER", "") + STORE)
    assert values(body.replace("ORDER", "fence.acq_rel.cta;") + STORE) == list(range(32))


@pytest.mark.parametrize("size", [8, 24, 120])
def test_size_of_a_bulk_copy(size: int) -> None:
    body = f"{barrier()} mov.u32 %r5, {size};" + LOAD.replace("[%x], 128", "[%x], %r5")
    assert "misaligned" in found(body)


@pytest.mark.parametrize("given", [29, 30, 31])
def test_bulk_load_of_the_16_bytes_that_a_buffer_ends_in(given: int) -> None:
    """What lies behind its end is there to be read where it is open, and NaN."""
    body = f"{barrier()} {PLACE} {LOAD} {wait(0)} ld.shared.u32 %r0, [%r1];"
    behind = [0xFFFFFFFF] * (32 - given)
    assert values(body + STORE, given=given, is_open=True) == [*range(given), *behind]
    assert "out-of-bounds" in found(body, given=given)


@pytest.mark.parametrize("given", [1, 27, 28])
def test_bulk_load_of_more_than_these(given: int) -> None:
    body = f"{barrier()} {PLACE} {LOAD} {wait(0)}"
    assert "out-of-bounds" in found(body, given=given, is_open=True)


def test_bulk_store_and_reduction() -> None:
    body = f"""
    {PLACE} st.shared.u32 [%r1], %tid; fence.proxy.async.shared::cta; bar.sync 0;
    setp.ne.u32 %p0, %tid, 0; @%p0 bra DONE;
    cp.async.bulk.global.shared::cta.bulk_group [%out], [sm], 128;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out], [sm], 128;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    """
    report = run(body)
    assert report.verdict == "clean", str(report)
    assert report.arrays["out"][:32].tolist() == [2 * t for t in range(32)]


@pytest.mark.parametrize(
    ("operation", "result"),
    [("add.s32", 12), ("min.u32", 5), ("max.u32", 7), ("and.b32", 5), ("or.b32", 7), ("xor.b32", 2),
     ("inc.u32", 0), ("dec.u32", 5)],
)  # fmt: skip
def test_bulk_reductions_of_each_kind(operation: str, result: int) -> None:
    body = f"""
    {PLACE} mov.u32 %r2, 5; mov.u32 %r3, 7; st.shared.u32 [%r1], %r2; st.global.u32 [%o], %r3;
    fence.proxy.async; bar.sync 0; setp.ne.u32 %p0, %tid, 0; @%p0 bra DONE;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation} [%out], [sm], 128;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    """
    report = run(body, count=2)
    assert report.verdict == "clean", str(report)
    assert set(report.arrays["out"][:32].tolist()) == {result}


def test_reductions_of_many_ctas_do_not_race() -> None:
    body = f"""
    {PLACE} mov.u32 %r2, 1; st.shared.u32 [%r1], %r2; fence.proxy.async.shared::cta; bar.sync 0;
    setp.ne.u32 %p0, %tid, 0; @%p0 bra DONE;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out], [sm], 128;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
    """
    report = run(body, grid=9)
    assert report.verdict == "clean", str(report)
    assert set(report.arrays["out"][:32].tolist()) == {9}


def test_store_unfenced_unwaited_overwritten() -> None:
    body = f"""
    {PLACE} st.shared.u32 [%r1], %tid; FENCE bar.sync 0; {LEADER}
    @%p0 cp.async.bulk.global.shared::cta.bulk_group [%out], [sm], 128;
    @%p0 cp.async.bulk.commit_group; WAIT
    """
    fence, end = "fence.proxy.async.shared::cta;", "@%p0 cp.async.bulk.wait_group.read 0;"
    clean(body.replace("FENCE", fence).replace("WAIT", end))
    assert found(body.replace("FENCE", "").replace("WAIT", end)) == {"missing-proxy-fence"}
    assert found(body.replace("FENCE", fence).replace("WAIT", "")) == {"exit-outstanding"}
    late = f"bar.warp.sync -1; st.shared.u32 [%r1], %tid; {end}"
    assert found(body.replace("FENCE", fence).replace("WAIT", late)) == {"race"}


SPACES = [
    ("", True, True),
    (".global", False, True),
    (".shared::cta", True, False),
    (".shared::cluster", True, False),
]


@pytest.mark.parametrize(("space", "shared", "globally"), SPACES)
def test_proxy_fence_of_a_space(space: str, shared: bool, globally: bool) -> None:
    """A bulk store reads shared memory that threads wrote, a bulk load global memory."""
    fence = f"fence.proxy.async{space};"
    store = f"""
    {PLACE} st.shared.u32 [%r1], %tid; {fence} bar.sync 0; {LEADER} @!%p0 bra DONE;
    cp.async.bulk.global.shared::cta.bulk_group [%out], [sm], 128;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    """
    load = f"{barrier()} st.global.u32 [%o], %tid; {fence} bar.sync 0; {LOAD} {wait(0)}"
    for body, right in ((store, shared), (load.replace("[%x]", "[%out]"), globally)):
        if right:
            clean(body)
        else:
            assert found(body) == {"missing-proxy-fence"}


def test_store_of_undefined_shared_memory() -> None:
    body = f"""{LEADER} @!%p0 bra DONE;
    cp.async.bulk.global.shared::cta.bulk_group [%out], [sm], 128;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    assert found(body) == {"uninitialized"}


GROUPS = f"""
{PLACE} st.shared.u32 [%r1], %tid; fence.proxy.async.shared::cta; bar.sync 0;
setp.eq.u32 %p0, %tid, 0; setp.eq.u32 %p1, %tid, 1; setp.lt.u32 %p2, %tid, 2;
mul.wide.u32 %d0, %tid, 128; add.u64 %d0, %out, %d0;
"""
OVERWRITE = "bar.warp.sync -1; st.shared.u32 [%r1], %lane;"


@pytest.mark.parametrize(
    ("issuer", "committer", "waiter", "right"),
    [
        ("%p0", "%p0", "%p0", True),
        ("%p2", "%p2", "%p2", True),
        ("%p0", "%p0", "%p2", True),
        ("%p0", "%p1", "%p0", False),
        ("%p0", "%p0", "%p1", False),
        ("%p2", "%p2", "%p0", False),
    ],
)
def test_bulk_groups_belong_to_their_lane(
    issuer: str, committer: str, waiter: str, right: bool
) -> None:
    body = f"""{GROUPS}
    @{issuer} cp.async.bulk.global.shared::cta.bulk_group [%d0], [sm], 128;
    @{committer} cp.async.bulk.commit_group; @{waiter} cp.async.bulk.wait_group.read 0;
    {OVERWRITE}
    @{issuer} cp.async.bulk.commit_group; @{issuer} cp.async.bulk.wait_group.read 0;
    """
    if right:
        clean(body)
    else:
        assert "race" in found(body)


def test_lanes_wait_for_their_own_copies_one_after_the_other() -> None:
    body = f"""{GROUPS}
    @%p2 cp.async.bulk.global.shared::cta.bulk_group [%d0], [sm], 128;
    @%p2 cp.async.bulk.commit_group;
    @%p0 cp.async.bulk.wait_group.read 0; @%p1 cp.async.bulk.wait_group.read 0;
    {OVERWRITE}
    """
    clean(body)


def test_one_lane_waits_for_its_own_cp_async_only() -> None:
    body = f"""{PLACE} {COPY} cp.async.commit_group; {LEADER}
    @%p0 cp.async.wait_group 0; bar.warp.sync -1;
    READ ld.shared.u32 %r0, [%r1]; READ {STORE} cp.async.wait_all;"""
    clean(body.replace("READ", "@%p0"))
    assert "race" in found(body.replace("READ", ""))


def test_copies_and_barriers_that_end_with_their_cta() -> None:
    body = f"{barrier()} {LOAD}"
    assert "exit-outstanding" in found(body)
