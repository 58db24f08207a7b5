"""Clusters: ranks, addresses, and blocks that write, read and wait for each other."""

import pytest

from tests.sim.support.machine import MEET, STORE, clean, found, values


def test_ranks_and_places_of_a_cluster() -> None:
    body = """
    mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %clusterid.x; mov.u32 %r3, %cluster_nctarank;
    mad.lo.u32 %r0, %r2, 10, %r1; mad.lo.u32 %r0, %r3, 100, %r0;
    """
    got = values(body + STORE, threads=1, grid=6, cluster=2)
    assert got == [200 + cta // 2 * 10 + cta % 2 for cta in range(6)]


PEER = """
mov.u32 %r1, %cluster_ctarank; add.u32 %r2, %r1, 1; rem.u32 %r2, %r2, 4;
mov.u32 %r3, sm; mapa.shared::cluster.u32 %r4, %r3, %r2;
add.u32 %r5, %cta, 50;
"""


def test_addresses_of_shared_memory_tell_whose_it_is() -> None:
    """What a program keeps of an address but its low 24 bits differs between CTAs of a cluster."""
    body = "mov.u32 %r1, sm; and.b32 %r2, %r1, 0xffffff; sub.u32 %r0, %r1, %r2;"
    assert len(set(values(body + STORE, threads=1, grid=4, cluster=4))) == 4
    assert values(body + STORE, threads=1, grid=2) == [0, 0]
    body = f"{PEER} st.shared.u32 [%r3], %r5; ld.shared.u32 %r0, [sm];"
    assert values(body + STORE, threads=1, grid=4, cluster=4) == [50, 51, 52, 53]


def test_peers_write_into_each_other() -> None:
    body = f"""
    {PEER} {MEET}
    st.shared::cluster.u32 [%r4], %r5;
    {MEET}
    ld.shared.u32 %r0, [sm];
    """
    got = values(body + STORE, threads=1, grid=8, cluster=4)
    assert got == [50 + cta // 4 * 4 + (cta + 3) % 4 for cta in range(8)]


def test_peers_read_and_count_in_each_other() -> None:
    body = f"""
    {PEER} st.shared.u32 [sm], %r5;
    {MEET}
    atom.shared::cluster.add.u32 %r6, [%r4], 1000;
    {MEET}
    ld.shared.u32 %r7, [sm]; sub.u32 %r0, %r7, %r6;
    """
    got = values(body + STORE, threads=1, grid=4, cluster=4)
    assert got == [1000 + cta - (cta + 1) % 4 for cta in range(4)]


def test_peer_that_may_have_left() -> None:
    body = f"{PEER} {MEET} st.shared::cluster.u32 [%r4], %r5;"
    assert "exit-outstanding" in found(body, threads=1, grid=4, cluster=4)


@pytest.mark.parametrize(("mine", "peer"), [(0, 3), (3, 0)])
def test_peer_that_may_not_have_started(mine: int, peer: int) -> None:
    """Found whichever rank is the higher one; a barrier that orders no memory is enough."""
    relaxed = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"
    body = f"""
    START mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p0, %r1, {mine};
    mov.u32 %r3, sm; mapa.shared::cluster.u32 %r4, %r3, {peer};
    @%p0 st.shared::cluster.u32 [%r4], %r1;
    {MEET}
    """
    assert "exit-outstanding" in found(body.replace("START", ""), threads=1, grid=4, cluster=4)
    clean(body.replace("START", relaxed), threads=1, grid=4, cluster=4)


def test_relaxed_cluster_barrier_orders_no_memory() -> None:
    relaxed = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"
    body = f"""
    {PEER} {MEET} st.shared::cluster.u32 [%r4], %r5; ORDER
    ld.shared.u32 %r0, [sm]; {STORE} {MEET}
    """
    clean(body.replace("ORDER", MEET), threads=1, grid=4, cluster=4)
    assert "race" in found(body.replace("ORDER", relaxed), threads=1, grid=4, cluster=4)
    fenced = f"fence.acq_rel.cluster; {relaxed}"
    clean(body.replace("ORDER", fenced), threads=1, grid=4, cluster=4)


def test_rank_that_the_cluster_has_not() -> None:
    body = "mov.u32 %r3, sm; mapa.shared::cluster.u32 %r4, %r3, 5; st.shared::cluster.u32 [%r4], 1;"
    assert "out-of-bounds" in found(body, threads=1, grid=2, cluster=2)
