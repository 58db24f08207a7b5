"""Products read stages until they are awaited: the check of kernels that multiply matrices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support import plain_products as plain
from tests.support.product_kernels import Product, product_kernel
from warpsmith.errors import ProtocolError
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Statement, Synchronize
from warpsmith.kernel.products import AwaitProducts, CommitProducts
from warpsmith.kernel.rings import Advance, ArriveByWarp, AwaitCopies, Cursor, FenceProxy
from warpsmith.protocol import check
from warpsmith.protocol.checks import check_any_sizes, run
from warpsmith.protocol.machine import Machine
from warpsmith.protocol.repeats import description
from warpsmith.protocol.rules import Broken, Rule
from warpsmith.protocol.skeleton import (
    Actor,
    Async,
    BarrierStage,
    Kind,
    Meeting,
    Place,
    Skeleton,
    Step,
)
from warpsmith.protocol.states import PENDING
from warpsmith.targets.hopper import H200

SMALL = Product(groups=1, columns=64, stages=3, registers=None)
SIZES = {"m": 64, "n": 128, "k": 256}
RING = SMALL.ring
USE, BEHIND = (Cursor(f"ring0_{name}", RING.stages) for name in ("use", "behind"))
LAST = AwaitProducts(0, (SMALL.accumulators,))
assert RING.empty is not None
LATE, EARLY = ArriveByWarp(RING.empty, BEHIND.stage), ArriveByWarp(RING.empty, USE.stage)


def edited(*edits: tuple[Statement, ...]) -> Kernel:
    """The small kernel, with the first statement of each edit replaced by the others."""
    kernel = product_kernel(SMALL)
    for old, *new in edits:
        kernel = replace(kernel, body=plain.replaced(kernel.body, old, *new))
    return kernel


# --- kernels with roles ------------------------------------------------------------------------


def test_a_right_kernel_is_proved() -> None:
    verdict = check(product_kernel(SMALL), SIZES, target=H200)
    (ring,) = verdict.rings
    assert (ring.full, ring.empty, ring.bytes, ring.fills) == (1, 4, 16384, 8)


def test_it_is_proved_for_loops_of_all_lengths() -> None:
    assert len(check_any_sizes(product_kernel(SMALL), target=H200)) > 6


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_more_groups_and_other_rings_are_proved(groups: int, stages: int) -> None:
    product = replace(SMALL, groups=groups, stages=stages)
    assert check(product_kernel(product), SIZES, target=H200).rings[0].empty == 4 * groups


def test_a_large_product_takes_few_steps() -> None:
    product = Product(blocks=132, registers=(24, 240))
    verdict = check(product_kernel(product), {"m": 8192, "n": 8192, "k": 8192}, target=H200)
    assert verdict.taken < verdict.steps / 10


WRONG = {
    "a stage is released before its products are awaited": (
        ((LATE,), (AwaitProducts(1), EARLY, AwaitProducts(1))),
        "WS0906",
        r"ring0, T2\[0\] .*filled again while a product that reads it may still be under way",
    ),
    "a stage is released one product too early": (
        ((AwaitProducts(1), AwaitProducts(2)),),
        "WS0906",
        "while a product that reads it",
    ),
    "no wait at all": (((AwaitProducts(1),),), "WS0906", "while a product that reads it"),
    "no commit": (((CommitProducts(),),), "WS0906", "while a product that reads it"),
    "the last wait leaves a product": (
        ((LAST, AwaitProducts(1)),),
        "WS0906",
        "while a product that reads it",
    ),
    "stages are read before they are filled": (
        ((Advance(USE), Advance(USE), Advance(USE)),),
        "WS0901",
        "ring0",
    ),
    "no fence before the store": (((FenceProxy(),),), "WS0914", "T6.*the TMA unit reads it"),
    "stores that are not awaited": (((AwaitCopies(bulk=True),),), "WS0909", "are not awaited"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_refused(name: str) -> None:
    edits, code, words = WRONG[name]
    with pytest.raises(ProtocolError, match=words) as refused:
        check(edited(*edits), SIZES, target=H200)
    assert refused.value.code == code


def test_products_that_nobody_awaits_are_refused() -> None:
    """One iteration, so that no stage is filled again."""
    with pytest.raises(ProtocolError, match="products by tensor cores are not awaited at the end"):
        check(edited((LAST,)), {"m": 64, "n": 64, "k": 64}, target=H200)


def test_the_run_is_told() -> None:
    with pytest.raises(ProtocolError) as refused:
        check(edited((AwaitProducts(1),)), SIZES, target=H200)
    run = "\n".join(refused.value.run)
    assert "compute, warp 0: multiply T3[1]" in run
    assert "compute, warp 0: commit products by tensor cores" in run
    assert "load: copy 8192 bytes into T2[0], at ring0.full[0]   <- here" in run
    assert "may be before this: await products by tensor cores but 0 groups" in run


# --- threads that write what they multiply -----------------------------------------------------


def test_threads_that_fence_and_meet_are_right() -> None:
    check(plain.plain_kernel(plain.plain_body()), {}, target=H200)


PLAIN = {
    "proxy fence": (FenceProxy(), "WS0914", "a thread writes, and a product reads it"),
    "meeting before": (Synchronize("operands are there"), "WS0906", "while a product"),
    "meeting behind": (Synchronize("operands were read"), "WS0906", "while a product"),
    "commit": (CommitProducts(), "WS0906", "while a product that reads it"),
    "wait": (AwaitProducts(0, (plain.SUMS,)), "WS0906", "while a product that reads it"),
}


@pytest.mark.parametrize("name", PLAIN)
def test_what_threads_miss_is_found(name: str) -> None:
    statement, code, words = PLAIN[name]
    body = plain.replaced(plain.plain_body(), statement)
    with pytest.raises(ProtocolError, match=words) as refused:
        check(plain.plain_kernel(body), {}, target=H200)
    assert refused.value.code == code


# --- rules, on skeletons by hand ---------------------------------------------------------------

READ, WRITE, FENCE = Step(Kind.READ, 0), Step(Kind.WRITE, 0), Step(Kind.FENCE)
MEET, MULTIPLY = Step(Kind.MEET, 0), Step(Kind.MULTIPLY, 0)
COMMIT, WAIT = Step(Kind.COMMIT, 0, Async.PRODUCTS), Step(Kind.JOIN, 0, Async.PRODUCTS)
STORES = Step(Kind.COMMIT, 0, Async.STORES), Step(Kind.JOIN, 0, Async.STORES)
FILL = Step(Kind.EXPECT, 0, 128, arrivals=1), Step(Kind.LOAD, 0, 128, 0)
FILLED = Step(Kind.AWAIT, 0, 0)
DONE = [MULTIPLY, COMMIT, WAIT]


def test_states_that_differ_in_products_are_told_apart() -> None:
    """So that a run is never cut short between them."""
    actor = Actor("a", "", [WRITE, FENCE, *DONE])
    machine = Machine(Skeleton((actor,), places=(Place("x", 0),)))
    while machine.round():
        pass
    place, before = machine.places[0], description(machine)
    stamp = place.products[0]
    place.products[0] = PENDING
    assert description(machine) != before
    place.products[0] = stamp
    assert description(machine) == before
    place.multiplying[0] = 1
    assert description(machine) != before


def broken(*lists: list[Step]) -> Rule | None:
    actors = tuple(Actor(f"a{n}", "", steps) for n, steps in enumerate(lists))
    skeleton = Skeleton(
        actors,
        (BarrierStage("b", 0, 1),),
        (Place("x", 0),),
        (Meeting("all", tuple(range(len(lists)))),),
    )
    try:
        run(skeleton)
    except Broken as found:
        return found.found.rule
    return None


@pytest.mark.parametrize(
    ("rule", "lists"),
    [
        (None, [[WRITE, FENCE, MEET, *DONE], [WRITE, FENCE, MEET, *DONE]]),
        (None, [[WRITE, FENCE, *DONE, WRITE]]),
        (Rule.PROXY, [[WRITE, *DONE]]),
        (Rule.PROXY, [[WRITE, MEET], [MEET, *DONE]]),
        (Rule.PROXY, [[WRITE, MEET], [MEET, FENCE, *DONE]]),
        (Rule.UNFILLED, [DONE]),
        (Rule.UNFILLED, [[WRITE, FENCE], DONE]),
        (Rule.UNFILLED, [[*FILL, *DONE, FILLED]]),
        (None, [[*FILL, FILLED, *DONE]]),
        (None, [[*FILL, FILLED, *DONE, MEET, *FILL, Step(Kind.AWAIT, 0, 1), READ], [MEET]]),
        (Rule.OVERWRITTEN, [[*FILL, FILLED, MULTIPLY, COMMIT, *FILL]]),
        (Rule.OVERWRITTEN, [[*FILL, FILLED, MULTIPLY, WAIT, *FILL]]),
        (Rule.OVERWRITTEN, [[*FILL, FILLED, MULTIPLY, *STORES, *FILL]]),
        (Rule.OVERWRITTEN, [[WRITE, FENCE, MULTIPLY, COMMIT, WRITE]]),
        (Rule.OVERWRITTEN, [[WRITE, FENCE, MULTIPLY, COMMIT, MEET, WAIT], [MEET, WRITE]]),
        (None, [[WRITE, FENCE, MULTIPLY, COMMIT, WAIT, MEET], [MEET, WRITE]]),
        (Rule.GROUPS, [[WRITE, FENCE, MULTIPLY]]),
        (Rule.GROUPS, [[WRITE, FENCE, MULTIPLY, COMMIT]]),
        (None, [[WRITE, FENCE, MULTIPLY, MULTIPLY, COMMIT, *DONE, WRITE]]),
        (Rule.OVERWRITTEN, [[WRITE, FENCE, MULTIPLY, COMMIT, MULTIPLY, WAIT, WRITE]]),
    ],
)
def test_rules_of_products(rule: Rule | None, lists: list[list[Step]]) -> None:
    assert broken(*lists) is rule
