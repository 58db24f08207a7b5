"""Kernels without roles, whose rings have one thing wrong."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.protocol.edits import counting, edited, instead, without
from tests.support import ring_maps as maps
from tests.support.passing import behind
from tests.support.ring_loads import Kind, Ring
from warpsmith.errors import ProtocolError
from warpsmith.ir import integers
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import If, Synchronize
from warpsmith.kernel.rings import (
    ELECTED,
    Advance,
    ArriveByWarp,
    Await,
    AwaitCopies,
    CommitCopies,
    Expect,
    FenceProxy,
)
from warpsmith.protocol import check
from warpsmith.protocol.sizes import symbols_of
from warpsmith.targets.hopper import H200

Change = Callable[[Kernel], Kernel]

EXTENT = 3000


def lowered(kind: Kind, *, stores: bool = False) -> Kernel:
    """A load through three stages; with `stores`, the result goes through three others."""
    ring = Ring(kind, 3, 2)
    schedule = maps.store_ring if stores else maps.vector_reads
    return behind("lay_out_shared", schedule(ring).fusion)


def by_everybody(statement: If) -> tuple[object, ...]:
    return statement.body if statement.condition == ELECTED else (statement,)


TMA_FAULTS: dict[str, tuple[Change, str]] = {
    "no wait for the stage": (lambda k: edited(k, without(Await, barrier="ring0_empty")), "WS0903"),
    "no wait for the data": (lambda k: edited(k, without(Await, barrier="ring0_full")), "WS0907"),
    "the other parity": (
        lambda k: edited(
            k,
            instead(
                Await,
                lambda a: replace(a, parity=integers.sub(1, a.parity)),
                barrier="ring0_full",
            ),
        ),
        "WS0903",
    ),
    "no fence before the unit writes": (lambda k: edited(k, without(FenceProxy)), "WS0914"),
    "no release": (lambda k: edited(k, without(ArriveByWarp)), "WS0901"),
    "half the warps expected": (lambda k: counting(k, "ring0_empty", 1), "WS0904"),
    "twice the warps expected": (lambda k: counting(k, "ring0_empty", 4), "WS0901"),
    "more bytes expected": (
        lambda k: edited(k, instead(Expect, lambda e: replace(e, bytes=integers.add(e.bytes, 16)))),
        "WS0905",
    ),
    "fewer bytes expected": (
        lambda k: edited(k, instead(Expect, lambda e: replace(e, bytes=integers.sub(e.bytes, 16)))),
        "WS0905",
    ),
    "everybody asks": (lambda k: edited(k, instead(If, by_everybody)), "WS0904"),
    "nobody meets": (lambda k: edited(k, without(Synchronize)), "WS0915"),
    "the use cursor stands still": (
        lambda k: edited(
            k,
            lambda s: () if isinstance(s, Advance) and s.cursor.name == "ring0_use" else (s,),
        ),
        "WS0904",
    ),
}

CP_ASYNC_FAULTS: dict[str, tuple[Change, str]] = {
    "no wait for the group": (lambda k: edited(k, without(AwaitCopies)), "WS0907"),
    "one group too many stays open": (
        lambda k: edited(k, instead(AwaitCopies, lambda a: replace(a, pending=a.pending + 1))),
        "WS0907",
    ),
    "nothing is committed": (lambda k: edited(k, without(CommitCopies)), "WS0907"),
    "nobody meets": (lambda k: edited(k, without(Synchronize)), "WS0907"),
}

STORE_FAULTS: dict[str, tuple[Change, str]] = {
    "one store too many is under way": (
        lambda k: edited(
            k, instead(AwaitCopies, lambda a: replace(a, pending=2), pending=1, bulk=True)
        ),
        "WS0906",
    ),
    "no wait at the end": (lambda k: edited(k, without(AwaitCopies, pending=0)), "WS0909"),
    "no fence before the store": (lambda k: edited(k, without(FenceProxy)), "WS0914"),
    "nobody meets before the store": (
        lambda k: edited(k, without(Synchronize, why="T2 is written, T3 is written")),
        "WS0906",
    ),
}

FAULTS = [
    *((Kind.tma, False, name, *fault) for name, fault in TMA_FAULTS.items()),
    *((Kind.cp_async, False, name, *fault) for name, fault in CP_ASYNC_FAULTS.items()),
    *((Kind.cp_async, True, name, *fault) for name, fault in STORE_FAULTS.items()),
]


@pytest.mark.parametrize(
    ("kind", "stores", "name", "change", "code"), FAULTS, ids=lambda v: v if type(v) is str else ""
)
def test_is_refused(kind: Kind, stores: bool, name: str, change: Change, code: str) -> None:
    kernel = lowered(kind, stores=stores)
    values = {**dict.fromkeys(symbols_of(kernel), 1), "T0_size0": EXTENT}
    assert check(kernel, values, target=H200).steps > 0
    with pytest.raises(ProtocolError) as caught:
        check(change(kernel), values, target=H200)
    assert caught.value.code == code, str(caught.value)
    assert caught.value.run
