"""Barriers of the block and of the cluster, mbarrier objects, and fences."""

from __future__ import annotations

from typing import Any

from warpsmith.sim.isa import Flag, Mode, Op, Scope, Semantics, Space
from warpsmith.sim.ptx.decode.form import Row, row, rows

_RELEASE: dict[str, Any] = {"semantics": Semantics.RELEASE, "scope": Scope.CTA}
_ACQUIRE: dict[str, Any] = {"semantics": Semantics.ACQUIRE, "scope": Scope.CTA}
_RELAXED: dict[str, Any] = {"semantics": Semantics.RELAXED, "scope": Scope.CTA}
_ORDER = "semantics=release|relaxed? scope=cta|cluster?"
_WAITS = "semantics=acquire|relaxed? scope=cta|cluster? space=$own? type=b64"
_COUNTS = "semantics=relaxed? scope=cta|cluster? space=$shared? type=b64"


def _block_barriers(head: str, aligned: str, flags: Flag) -> tuple[Row, ...]:
    """`bar` is aligned; `barrier` is where it says so."""
    return (
        row(head, Op.BAR, f"cta? sync {aligned}", "s:u32 s:u32?", mode=Mode.SYNC, flags=flags),
        row(head, Op.BAR, f"cta? arrive {aligned}", "s:u32 s:u32?", mode=Mode.ARRIVE, flags=flags),
        *rows(
            *(head, Op.BAR),
            (f"cta? red mode=popc {aligned} type=u32", "d s:u32 s:u32? s:pred"),
            (f"cta? red mode=and|or {aligned} type=pred", "d s:u32 s:u32? s:pred"),
            flags=flags,
        ),
    )


def _arrivals(head: str, flags: Flag) -> tuple[Row, ...]:
    """`mbarrier.arrive` or `mbarrier.arrive_drop`."""
    own = "semantics=release? scope=cta? space=$own? type=b64"
    return rows(
        *("mbarrier", Op.MBARRIER_ARRIVE),
        (f"{head} {_ORDER} space=$shared? type=b64", "d [a] s:u32?"),
        (f"{head} expect_tx {_ORDER} space=$shared? type=b64", "d [a] s:u32"),
        (f"{head} noComplete {own}", "d [a] s:u32?"),
        flags=flags,
        **_RELEASE,
    )


def _fence(suffixes: str, mode: Mode, operands: str = "", **fixed: Any) -> Row:
    return row("fence", Op.FENCE, suffixes, operands, mode=mode, **fixed)


_FROM_CLUSTER = "semantics=acquire sync_restrict::shared::cluster scope=cluster"
_TO_CLUSTER = "semantics=release sync_restrict::shared::cta scope=cluster"

ROWS: tuple[Row, ...] = (
    *_block_barriers("bar", "", Flag.ALIGNED),
    *_block_barriers("barrier", "aligned?", Flag.NONE),
    row(
        *("barrier", Op.CLUSTER_BARRIER, "cluster arrive semantics=release|relaxed? aligned?", ""),
        mode=Mode.ARRIVE,
        semantics=Semantics.RELEASE,
        scope=Scope.CLUSTER,
    ),
    row(
        *("barrier", Op.CLUSTER_BARRIER, "cluster wait semantics=acquire? aligned?", ""),
        mode=Mode.WAIT,
        semantics=Semantics.ACQUIRE,
        scope=Scope.CLUSTER,
    ),
    row("mbarrier", Op.MBARRIER_INIT, "init space=$own? type=b64", "[a] s:u32"),
    row("mbarrier", Op.MBARRIER_INVAL, "inval space=$own? type=b64", "[a]"),
    row("mbarrier", Op.MBARRIER_EXPECT_TX, f"expect_tx {_COUNTS}", "[a] s:u32", **_RELAXED),
    row("mbarrier", Op.MBARRIER_COMPLETE_TX, f"complete_tx {_COUNTS}", "[a] s:u32", **_RELAXED),
    *_arrivals("arrive", Flag.NONE),
    *_arrivals("arrive_drop", Flag.DROP),
    *rows(
        *("mbarrier", Op.MBARRIER_TEST_WAIT),
        (f"test_wait {_WAITS}", "d:pred [a] s"),
        (f"test_wait parity {_WAITS}", "d:pred [a] s:u32"),
        **_ACQUIRE,
    ),
    *rows(
        *("mbarrier", Op.MBARRIER_TRY_WAIT),
        (f"try_wait {_WAITS}", "d:pred [a] s s:u32?"),
        (f"try_wait parity {_WAITS}", "d:pred [a] s:u32 s:u32?"),
        **_ACQUIRE,
    ),
    row("mbarrier", Op.MBARRIER_PENDING, "pending_count type=b64", "d:u32 s"),
    _fence(
        *("semantics=sc|acq_rel|acquire|release? scope=$scope", Mode.MEMORY),
        semantics=Semantics.ACQ_REL,
    ),
    row("membar", Op.FENCE, "scope=cta|sys", "", mode=Mode.MEMORY, semantics=Semantics.SC),
    row(
        *("membar", Op.FENCE, "gl", ""),
        mode=Mode.MEMORY,
        semantics=Semantics.SC,
        scope=Scope.GPU,
    ),
    *(
        row(head, Op.FENCE, suffixes, "", mode=mode)
        for head in ("fence", "membar")
        for suffixes, mode in (
            ("proxy alias", Mode.PROXY_ALIAS),
            ("proxy async", Mode.PROXY_ASYNC),
            ("proxy async space=global|shared::cta|shared::cluster", Mode.PROXY_ASYNC),
        )
    ),
    *(
        _fence(f"{before}{suffixes}", mode, space=space)
        for before, mode in (("proxy async::generic ", Mode.PROXY_ASYNC), ("", Mode.MEMORY))
        for suffixes, space in (
            (_FROM_CLUSTER, Space.SHARED_CLUSTER),
            (_TO_CLUSTER, Space.SHARED),
        )
    ),
    _fence("proxy tensormap::generic semantics=release scope=$scope", Mode.PROXY_TENSORMAP),
    _fence(
        "proxy tensormap::generic semantics=acquire scope=$scope", Mode.PROXY_TENSORMAP, "[a] n"
    ),
    _fence("mbarrier_init semantics=release scope=cluster", Mode.MBARRIER_INIT),
)
