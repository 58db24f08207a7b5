"""Hand-offs between the groups of a product that are wrong: each is refused, and found in a run."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest

from tests.protocol.edits import edited, instead
from tests.support.lowering import lowered
from tests.support.ping_pong_products import ping_pong_product
from tests.support.role_faults import simulated
from warpsmith.engine.proofs import prove
from warpsmith.errors import ProtocolError
from warpsmith.ir import integers
from warpsmith.ir.scalar import Symbol
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.products import AwaitProducts
from warpsmith.kernel.rings import ArriveByWarp, Await
from warpsmith.kernel.traversal import walk
from warpsmith.targets.hopper import H200

SIZES = {
    f"T{tensor}_{name}": value
    for tensor, rows in ((0, 320), (1, 64))
    for name, value in {"size0": rows, "size1": 192, "stride0": 192, "stride1": 1}.items()
}
"""Five tiles: of the first block's, two are the first group's and one is the other's."""

MAIN, EPILOGUE = "compute_main_turn", "compute_epilogue_turn"


@cache
def product() -> Kernel:
    fd = ping_pong_product(stored_by="compute", bound=True)
    return lowered(fd)


def flipped(wait: Await) -> Await:
    """The first wait passes for the groups for which it should not, and not for the first one."""
    return replace(wait, parity=integers.sub(1, wait.parity))


def free(wait: Await) -> Await:
    """The first wait passes for every group, as if each had been handed the turn."""
    symbols = (part for part in wait.parity.walk() if isinstance(part, Symbol))
    phase = next(symbol for symbol in symbols if symbol.name.endswith("_phase"))
    return replace(wait, parity=integers.sub(1, phase))


def to_itself(arrival: ArriveByWarp) -> ArriveByWarp:
    return replace(arrival, stage=Symbol("block_y", low=0, extent=integers.index(2)))


Mistake = tuple[type[Statement], Callable[..., Any], str, str]
MISTAKES: Mapping[str, Mistake] = {
    "handed on twice": (ArriveByWarp, lambda arrival: (arrival, arrival), "WS0904", "WS0904"),
    "not handed on": (ArriveByWarp, lambda _: (), "WS0901", "WS0901"),
    "handed on to itself": (ArriveByWarp, to_itself, "WS0901", "WS0901"),
    "the other group begins": (Await, flipped, "WS0901", "WS0901"),
    "both groups begin": (Await, free, "WS0903", "WS0901"),
    "not waited for": (Await, lambda _: (), "WS0902", ""),
}
"""What refuses each at the hand-off of the tensor cores, and at that of the epilogue.

Groups stage their tiles apart: an epilogue that does not wait is early, and harms nobody.
"""

WRONG = {
    f"{name}, {barrier}": (partial(edited, change=instead(kind, new, barrier=barrier)), code)
    for name, (kind, new, *codes) in MISTAKES.items()
    for barrier, code in zip((MAIN, EPILOGUE), codes, strict=True)
    if code
}


def test_the_right_one() -> None:
    prove(product(), SIZES, H200)
    report = simulated(product(), SIZES)
    assert report.verdict == "clean", str(report)


def test_tensor_cores_are_handed_on_before_the_last_products_are_over() -> None:
    """So that they have the next group's at once."""
    (branch,) = (s for s in product().body if isinstance(s, Branch) and s.agent.name == "compute")
    inside = list(walk(branch.body))
    (over,) = (n for n, s in enumerate(inside) if isinstance(s, AwaitProducts) and not s.pending)
    handed, released = (
        max(n for n, s in enumerate(inside) if isinstance(s, ArriveByWarp) and s.barrier.name == b)
        for b in (MAIN, "ring0_empty")
    )
    assert handed < over < released


@pytest.mark.parametrize("name", WRONG)
def test_is_refused(name: str) -> None:
    change, code = WRONG[name]
    with pytest.raises(ProtocolError) as caught:
        prove(change(product()), SIZES, H200)
    assert caught.value.code == code
    assert "compute" in caught.value.roles


@pytest.mark.parametrize("name", WRONG)
def test_is_found(name: str) -> None:
    change, _ = WRONG[name]
    report = simulated(change(product()), SIZES)
    assert report.verdict == "findings", str(report)
