"""Blocks of a cluster reach each other: copies, arrivals and sums."""

from tests.sim.support.machine import MEET, STORE, barrier, found, values, wait
from tests.sim.test_machine_copies import PLACE

PEER = """
mov.u32 %r10, %cluster_ctarank; xor.b32 %r11, %r10, 1;
mov.u32 %r12, sm; mapa.shared::cluster.u32 %r13, %r12, %r11; add.u32 %r14, %r13, 2048;
"""


def test_store_async_to_a_peer() -> None:
    body = f"""
    {barrier()} {PEER} add.u32 %r15, %cta, 70;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [sm+2048], 8;
    {MEET}
    st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32
     [%r13], {{%r15, %r15}}, [%r14];
    {wait(0)}
    ld.shared.u32 %r0, [sm+4]; {STORE}
    {MEET}
    """
    got = values(body, threads=1, grid=2, cluster=2)
    assert got == [71, 70]
    late = body.replace(wait(0), "").replace(STORE, STORE + wait(0))
    assert "race" in found(late, threads=1, grid=2, cluster=2)


def test_copy_from_shared_memory_to_a_peer() -> None:
    body = f"""
    {barrier()} {PEER} {PLACE} add.u32 %r15, %own, 500; st.shared.u32 [%r1], %r15;
    fence.proxy.async.shared::cta; add.u32 %r16, %r13, 1024;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [sm+2048], 128;
    {MEET}
    @%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes
     [%r16], [sm], 128, [%r14];
    {wait(0)}
    ld.shared.u32 %r0, [%r1+1024]; {STORE}
    {MEET}
    """
    got = values(body, grid=2, cluster=2)
    assert got == [500 + (t ^ 32) for t in range(64)]


def test_waiting_on_a_barrier_of_a_peer() -> None:
    body = f"{barrier()} {PEER} {MEET} {wait(1, 'W', '%r14')} {MEET}"
    assert "illegal-argument" in found(body, threads=1, grid=2, cluster=2)


def test_reductions_by_all_peers_add_up() -> None:
    """Both CTAs add to one word of CTA 0, in any order."""
    body = f"""
    {barrier()} {PEER} add.u32 %r15, %cta, 70; st.shared.u32 [sm+16], 1000;
    setp.eq.u32 %p3, %r10, 0; and.pred %p4, %p3, %p0;
    @%p4 mbarrier.arrive.expect_tx.shared::cta.b64 _, [sm+2048], 8;
    mapa.shared::cluster.u32 %r16, %r12, 0; add.u32 %r17, %r16, 16; add.u32 %r18, %r16, 2048;
    fence.proxy.async;
    {MEET}
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32
     [%r17], %r15, [%r18];
    mov.u32 %r0, 0;
    @!%p3 bra OTHER;
    {wait(0)}
    ld.shared.u32 %r0, [sm+16];
    OTHER: {STORE}
    {MEET}
    """
    assert values(body, threads=1, grid=2, cluster=2) == [1000 + 70 + 71, 0]
    unset = body.replace("st.shared.u32 [sm+16], 1000;", "")
    assert "uninitialized" in found(unset, threads=1, grid=2, cluster=2)


def test_bulk_reduction_into_a_peer() -> None:
    body = f"""
    {barrier()} {PEER} {PLACE} add.u32 %r15, %own, 500; st.shared.u32 [%r1], %r15;
    st.shared.u32 [%r1+1024], %own;
    fence.proxy.async; add.u32 %r16, %r13, 1024;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [sm+2048], 128;
    {MEET}
    @%p0 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32
     [%r16], [sm], 128, [%r14];
    {wait(0)}
    ld.shared.u32 %r0, [%r1+1024]; {STORE}
    {MEET}
    """
    got = values(body, grid=2, cluster=2)
    assert got == [t + 500 + (t ^ 32) for t in range(64)]
