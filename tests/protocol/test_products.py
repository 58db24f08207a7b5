"""Products read stages until they are awaited: the check of kernels that multiply matrices."""

import pytest

from tests.protocol.edits import Change, edited, instead, without
from tests.protocol.test_rules import broken
from tests.support import plain_products as plain
from tests.support.lowered_products import SMALL, pending, product_kernel, sizes
from warpsmith.errors import ProtocolError
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Synchronize
from warpsmith.kernel.products import AwaitProducts, CommitProducts
from warpsmith.kernel.rings import Advance, ArriveByWarp, AwaitCopies, Cursor, FenceProxy
from warpsmith.protocol import check
from warpsmith.protocol.checks import check_any_sizes
from warpsmith.protocol.machine import Machine
from warpsmith.protocol.repeats import description
from warpsmith.protocol.rules import Rule
from warpsmith.protocol.skeleton import (
    Actor,
    Async,
    Kind,
    Place,
    Skeleton,
    Step,
)
from warpsmith.protocol.states import PENDING
from warpsmith.targets.hopper import H200

SIZES = sizes(64, 128, 256)
ONE = sizes(64, 64, 64)
"""One tile of the result, in one step along k."""


# --- kernels with roles ------------------------------------------------------------------------


def test_a_right_kernel_is_proved() -> None:
    verdict = check(product_kernel(**SMALL), SIZES, target=H200)
    (ring,) = verdict.rings
    assert (ring.full, ring.empty, ring.bytes, ring.fills) == (1, 4, 16384, 8)


def test_it_is_proved_for_loops_of_all_lengths() -> None:
    assert len(check_any_sizes(product_kernel(**SMALL), target=H200)) > 6


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_more_groups_and_other_rings_are_proved(groups: int, stages: int) -> None:
    kernel = product_kernel(**SMALL | {"tile": (64 * groups, 64, 64), "stages": stages})
    assert check(kernel, SIZES, target=H200).rings[0].empty == 4 * groups


def test_a_large_product_takes_few_steps() -> None:
    kernel = product_kernel(**SMALL | {"tile": (128, 256, 64), "stages": 4, "blocks": 132})
    verdict = check(kernel, sizes(8192, 8192, 8192), target=H200)
    assert verdict.taken < verdict.steps / 10


def released_before(kernel: Kernel) -> Kernel:
    """Stages are released before their products are awaited."""
    (ring,) = kernel.pipelines
    assert ring.empty is not None
    release = ArriveByWarp(ring.empty, Cursor("ring0_compute", ring.stages).stage)
    bare = edited(kernel, without(ArriveByWarp))
    return edited(bare, instead(AwaitProducts, lambda wait: (release, wait), pending=1))


READS = "filled again while a product that reads it may still be under way"

WRONG: dict[str, tuple[Change, dict[str, int], str, str]] = {
    "a stage is released one product too early": (pending(1, 2), SIZES, "WS0906", READS),
    "no wait at all": (without(AwaitProducts, pending=1), SIZES, "WS0906", READS),
    "no commit": (without(CommitProducts), SIZES, "WS0906", READS),
    "the last wait leaves a product": (pending(0, 1), SIZES, "WS0906", READS),
    "products that nobody awaits": (
        without(AwaitProducts, pending=0),
        ONE,
        "WS0909",
        "products by tensor cores are not awaited at the end",
    ),
    "stages are read before they are filled": (
        instead(Advance, lambda s: (s, s, s), cursor="ring0_compute"),
        SIZES,
        "WS0901",
        "ring0",
    ),
    "no fence before the store": (
        without(FenceProxy),
        SIZES,
        "WS0914",
        "T8.*the TMA unit reads it",
    ),
    "stores that are not awaited": (
        without(AwaitCopies, bulk=True),
        ONE,
        "WS0909",
        "are not awaited",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_refused(name: str) -> None:
    change, sizes, code, words = WRONG[name]
    with pytest.raises(ProtocolError, match=words) as refused:
        check(edited(product_kernel(**SMALL), change), sizes, target=H200)
    assert refused.value.code == code


def test_a_stage_that_is_released_before_its_products_are_awaited_is_refused() -> None:
    with pytest.raises(ProtocolError, match=rf"WS0906. ring0, T5\[0\] .*{READS}"):
        check(released_before(product_kernel(**SMALL)), SIZES, target=H200)


def test_the_run_is_told() -> None:
    kernel = edited(product_kernel(**SMALL), without(AwaitProducts, pending=1))
    with pytest.raises(ProtocolError) as refused:
        check(kernel, SIZES, target=H200)
    run = "\n".join(refused.value.run)
    assert "compute, warp 0: multiply T6[1]" in run
    assert "compute, warp 0: commit products by tensor cores" in run
    assert "load: copy 8192 bytes into T5[0], at ring0.full[0]   <- here" in run
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
