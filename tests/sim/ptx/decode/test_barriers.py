"""Barriers, mbarrier objects and fences, with the semantics that PTX gives them by default."""

import pytest

from tests.sim.support.ptx_body import one, refusal
from warpsmith.sim.isa import Flag, Kind, Mode, Op, Scope, Semantics, Space

S, C = Semantics, Scope


@pytest.mark.parametrize(
    ("line", "mode", "groups", "flags"),
    [
        ("bar.sync 0;", Mode.SYNC, (1,), Flag.ALIGNED),
        ("barrier.cta.sync.aligned %r1, 64;", Mode.SYNC, (1, 1), Flag.ALIGNED | Flag.SIZED),
        ("barrier.sync 3;", Mode.SYNC, (1,), Flag.NONE),
        ("bar.arrive 1, 128;", Mode.ARRIVE, (1, 1), Flag.ALIGNED | Flag.SIZED),
        ("bar.red.popc.u32 %r1, 1, %p1;", Mode.POPC, (1, 1, 1), Flag.ALIGNED),
        ("bar.red.or.pred %p1, 1, 64, !%p2;", Mode.OR, (1, 1, 1, 1), Flag.ALIGNED | Flag.SIZED),
    ],
)
def test_block_barriers(line: str, mode: Mode, groups: tuple[int, ...], flags: Flag) -> None:
    found = one(line)
    assert (found.op, found.does.mode, found.groups, found.does.flags) == (
        Op.BAR,
        mode,
        groups,
        flags,
    )


@pytest.mark.parametrize(
    ("line", "mode", "semantics"),
    [
        ("barrier.cluster.arrive.aligned;", Mode.ARRIVE, S.RELEASE),
        ("barrier.cluster.arrive.relaxed;", Mode.ARRIVE, S.RELAXED),
        ("barrier.cluster.wait;", Mode.WAIT, S.ACQUIRE),
    ],
)
def test_cluster_barriers(line: str, mode: Mode, semantics: Semantics) -> None:
    found = one(line)
    assert (found.does.mode, found.does.semantics, found.does.scope) == (mode, semantics, C.CLUSTER)


@pytest.mark.parametrize(
    ("line", "semantics", "scope", "space", "flags"),
    [
        ("arrive.shared.b64 %d1, [%r1];", S.RELEASE, C.CTA, Space.SHARED, Flag.NONE),
        ("arrive.b64 _, [%d1], 2;", S.RELEASE, C.CTA, Space.GENERIC, Flag.SIZED),
        (
            "arrive.release.cluster.shared::cluster.b64 _, [%r1];",
            *(S.RELEASE, C.CLUSTER, Space.SHARED_CLUSTER, Flag.NONE),
        ),
        (
            "arrive.expect_tx.relaxed.cluster.shared::cta.b64 _, [%r1], 64;",
            *(S.RELAXED, C.CLUSTER, Space.SHARED, Flag.EXPECT_TX),
        ),
        (
            "arrive_drop.noComplete.shared.b64 %d1, [%r1], 5;",
            *(S.RELEASE, C.CTA, Space.SHARED, Flag.DROP | Flag.NOCOMPLETE | Flag.SIZED),
        ),
        (
            "try_wait.parity.shared::cta.b64 %p1, [%r1], 0;",
            *(S.ACQUIRE, C.CTA, Space.SHARED, Flag.PARITY),
        ),
        (
            "try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r1], %r2, 1000;",
            *(S.ACQUIRE, C.CLUSTER, Space.SHARED, Flag.PARITY | Flag.SIZED),
        ),
        ("test_wait.shared.b64 %p1, [%r1], %d1;", S.ACQUIRE, C.CTA, Space.SHARED, Flag.NONE),
        (
            "complete_tx.relaxed.cluster.shared::cluster.b64 [%r1], 64;",
            *(S.RELAXED, C.CLUSTER, Space.SHARED_CLUSTER, Flag.NONE),
        ),
    ],
)
def test_mbarriers(
    line: str, semantics: Semantics, scope: Scope, space: Space, flags: Flag
) -> None:
    found = one(f"mbarrier.{line}")
    assert (found.does.semantics, found.does.scope, found.does.space) == (semantics, scope, space)
    assert found.does.flags == flags


def test_a_state_that_nobody_wants() -> None:
    assert one("mbarrier.arrive.shared.b64 _, [%r1];").operands[0].kind is Kind.SINK


@pytest.mark.parametrize(
    ("line", "mode", "semantics", "scope", "space"),
    [
        ("fence.sc.cta;", Mode.MEMORY, S.SC, C.CTA, Space.GENERIC),
        ("fence.gpu;", Mode.MEMORY, S.ACQ_REL, C.GPU, Space.GENERIC),
        ("membar.gl;", Mode.MEMORY, S.SC, C.GPU, Space.GENERIC),
        ("membar.cta;", Mode.MEMORY, S.SC, C.CTA, Space.GENERIC),
        ("membar.sys;", Mode.MEMORY, S.SC, C.SYS, Space.GENERIC),
        ("fence.proxy.alias;", Mode.PROXY_ALIAS, S.WEAK, C.NONE, Space.GENERIC),
        ("fence.proxy.async;", Mode.PROXY_ASYNC, S.WEAK, C.NONE, Space.GENERIC),
        ("fence.proxy.async.global;", Mode.PROXY_ASYNC, S.WEAK, C.NONE, Space.GLOBAL),
        ("fence.proxy.async.shared::cta;", Mode.PROXY_ASYNC, S.WEAK, C.NONE, Space.SHARED),
        (
            "fence.proxy.async.shared::cluster;",
            *(Mode.PROXY_ASYNC, S.WEAK, C.NONE, Space.SHARED_CLUSTER),
        ),
        (
            "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;",
            *(Mode.PROXY_ASYNC, S.ACQUIRE, C.CLUSTER, Space.SHARED_CLUSTER),
        ),
        (
            "fence.proxy.tensormap::generic.release.gpu;",
            *(Mode.PROXY_TENSORMAP, S.RELEASE, C.GPU, Space.GENERIC),
        ),
        (
            "fence.proxy.tensormap::generic.acquire.sys [%d1], 128;",
            *(Mode.PROXY_TENSORMAP, S.ACQUIRE, C.SYS, Space.GENERIC),
        ),
        (
            "fence.mbarrier_init.release.cluster;",
            *(Mode.MBARRIER_INIT, S.RELEASE, C.CLUSTER, Space.GENERIC),
        ),
    ],
)
def test_fences(line: str, mode: Mode, semantics: Semantics, scope: Scope, space: Space) -> None:
    found = one(line)
    assert (found.op, found.does.mode) == (Op.FENCE, mode)
    assert (found.does.semantics, found.does.scope, found.does.space) == (semantics, scope, space)


def test_refusals() -> None:
    assert "takes operands" in refusal("mbarrier.init.shared.b64 [%r1];")
    said = refusal("mbarrier.try_wait.shared::cluster.b64 %p1, [%r1], %d1;")
    assert "got `.shared::cluster`" in said
