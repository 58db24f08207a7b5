"""Rules of the machine that kernels with roles do not break by one change: skeletons by hand."""

from pathlib import Path

import pytest

from warpsmith.errors import CodedRule
from warpsmith.lower.verify.rule import Rule as FormRule
from warpsmith.protocol.checks import run
from warpsmith.protocol.rules import Broken, Rule
from warpsmith.protocol.skeleton import Actor, BarrierStage, Kind, Meeting, Place, Skeleton, Step

BYTES = 128

BEGIN, END = Step(Kind.BEGIN, 0, 1), Step(Kind.END, 0, 1)
MEET, READ, WRITE = Step(Kind.MEET, 0), Step(Kind.READ, 0), Step(Kind.WRITE, 0)
COPY, STORE, FENCE = Step(Kind.COPY, 0), Step(Kind.STORE, 0), Step(Kind.FENCE)
COMMIT_COPIES, COMMIT_STORES = Step(Kind.COMMIT, 0, 0), Step(Kind.COMMIT, 0, 1)
ARRIVE, WAIT, WAIT_NEXT = Step(Kind.ARRIVE, 0, 1), Step(Kind.AWAIT, 0, 0), Step(Kind.AWAIT, 0, 1)


def copies(pending: int = 0) -> Step:
    return Step(Kind.JOIN, 0, 0, arrivals=pending)


def stores(pending: int = 0) -> Step:
    return Step(Kind.JOIN, 0, 1, arrivals=pending)


def expect(amount: int, arrivals: int = 1) -> Step:
    return Step(Kind.EXPECT, 0, amount, arrivals=arrivals)


def load(amount: int) -> Step:
    return Step(Kind.LOAD, 0, amount, 0)


def broken(
    *lists: list[Step], count: int = 1, begun: bool = True, private: bool = False
) -> Rule | None:
    """The rule that actors with these steps break, one barrier, place and meeting at hand."""
    actors = tuple(Actor(f"a{n}", "", steps) for n, steps in enumerate(lists))
    skeleton = Skeleton(
        actors,
        (BarrierStage("b", 0, count, begun=begun),),
        (Place("x", 0, private=private),),
        (Meeting("all", tuple(range(len(lists)))),),
    )
    return broken_by(skeleton)


def broken_by(skeleton: Skeleton) -> Rule | None:
    """The rule that a skeleton breaks."""
    try:
        run(skeleton)
    except Broken as found:
        return found.found.rule
    return None


@pytest.mark.parametrize(
    ("rule", "lists"),
    [
        # --- meetings
        (None, [[WRITE, MEET, READ], [MEET, READ]]),
        (Rule.MEETING, [[MEET], [FENCE]]),
        (Rule.UNFILLED, [[WRITE, READ], [READ]]),
        (Rule.OVERWRITTEN, [[MEET, WRITE], [WRITE, MEET, READ]]),
        (None, [[WRITE, MEET, READ, MEET], [MEET, MEET, WRITE]]),
        # --- cp.async
        (None, [[COPY, COMMIT_COPIES, copies(), MEET], [MEET, READ]]),
        (Rule.UNFILLED, [[COPY, COMMIT_COPIES, MEET, copies()], [MEET, READ]]),
        (Rule.UNFILLED, [[COPY, COMMIT_COPIES, copies(1), MEET], [MEET, READ]]),
        (None, [[COPY, COMMIT_COPIES, COMMIT_COPIES, copies(1), MEET], [MEET, READ]]),
        (Rule.UNFILLED, [[COPY, READ, COMMIT_COPIES, copies()], []]),
        (Rule.GROUPS, [[COPY, COMMIT_COPIES]]),
        (Rule.GROUPS, [[COPY, copies()]]),
        # --- stores by the TMA unit
        (None, [[WRITE, FENCE, MEET, STORE, COMMIT_STORES, stores()], [MEET]]),
        (Rule.GROUPS, [[WRITE, FENCE, STORE, COMMIT_STORES]]),
        (Rule.GROUPS, [[WRITE, FENCE, STORE, stores()]]),
        (Rule.PROXY, [[WRITE, STORE, COMMIT_STORES, stores()]]),
        (Rule.PROXY, [[FENCE, WRITE, STORE, COMMIT_STORES, stores()]]),
        (Rule.PROXY, [[WRITE, MEET], [MEET, FENCE, STORE, COMMIT_STORES, stores()]]),
        # who wrote, and fenced, may read on beside the unit
        (None, [[WRITE, FENCE, MEET, STORE, COMMIT_STORES, stores()], [MEET, READ]]),
        (None, [[MEET, STORE, COMMIT_STORES, stores()], [WRITE, FENCE, READ, MEET]]),
        (Rule.PROXY, [[MEET, STORE, COMMIT_STORES, stores()], [WRITE, READ, MEET]]),
        (Rule.PROXY, [[MEET, STORE, COMMIT_STORES, stores()], [WRITE, FENCE, WRITE, MEET, READ]]),
        (Rule.UNFILLED, [[STORE, COMMIT_STORES, stores()]]),
        (Rule.OVERWRITTEN, [[WRITE, FENCE, STORE, COMMIT_STORES, WRITE, stores()]]),
        # --- loads
        (None, [[expect(BYTES), load(BYTES)], [WAIT, READ]]),
        (None, [[load(BYTES), expect(BYTES)], [WAIT, READ]]),
        (None, [[expect(64, 0), load(64), expect(64, 0), load(64), expect(0)], [WAIT, READ]]),
        (Rule.BYTES, [[expect(64), load(64), load(64)], [WAIT, READ]]),
        (Rule.BYTES, [[expect(64), expect(64, 0), load(64), load(64)], [WAIT, READ]]),
        (Rule.BYTES, [[expect(1 << 20), load(1 << 20)], [WAIT, READ]]),
        (Rule.UNAWAITED, [[expect(BYTES), load(BYTES)]]),
        (Rule.PROXY, [[WRITE, expect(BYTES), load(BYTES), WAIT, READ]]),
        (None, [[WRITE, FENCE, expect(BYTES), load(BYTES), WAIT, READ]]),
        (Rule.UNFILLED, [[expect(BYTES), load(BYTES)], [READ, WAIT]]),
        # --- phases
        (Rule.ARRIVALS, [[ARRIVE, ARRIVE]] * 2),
        (Rule.DEADLOCK, [[ARRIVE, WAIT_NEXT, WAIT]]),
    ],
)
def test_is_told(rule: Rule | None, lists: list[list[Step]]) -> None:
    count = 2 if lists == [[ARRIVE, ARRIVE]] * 2 else 1
    assert broken(*lists, count=count) is rule


def test_arrivals_that_are_left_over() -> None:
    assert broken([ARRIVE], count=2) is Rule.ARRIVALS
    assert broken([ARRIVE], [ARRIVE], count=2) is None


@pytest.mark.parametrize(
    ("rule", "lists"),
    [
        (None, [[BEGIN, MEET, ARRIVE, MEET], [MEET, WAIT, MEET]]),
        (Rule.LIFETIME, [[ARRIVE, BEGIN]]),
        (Rule.LIFETIME, [[BEGIN, ARRIVE], [WAIT]]),
        (Rule.LIFETIME, [[WAIT]]),
        (None, [[BEGIN, MEET, ARRIVE, MEET, END, BEGIN, ARRIVE, WAIT], [MEET, WAIT, MEET]]),
        (Rule.LIFETIME, [[BEGIN, MEET, ARRIVE, END], [MEET, WAIT]]),
        (Rule.LIFETIME, [[BEGIN, END, ARRIVE]]),
    ],
)
def test_a_barriers_life(rule: Rule | None, lists: list[list[Step]]) -> None:
    assert broken(*lists, begun=False) is rule


def test_private_places_need_no_order_among_threads() -> None:
    lists = [[WRITE, READ, WRITE], [WRITE, READ, WRITE]]
    assert broken(*lists, private=True) is None
    assert broken(*lists) is not None


def test_places_that_share_bytes() -> None:
    """What reads the old buffer comes before what fills the new one."""

    def verdict(*, meets: bool) -> str:
        met = [MEET] if meets else []
        actors = (
            Actor("a", "", [WRITE, READ, *met]),
            Actor("b", "", [*met, Step(Kind.WRITE, 1), Step(Kind.READ, 1)]),
        )
        places = (Place("old", 0, overlaps=(1,)), Place("new", 0, overlaps=(0,)))
        skeleton = Skeleton(actors, (), places, (Meeting("all", (0, 1)),))
        try:
            run(skeleton)
        except Broken as found:
            return found.found.rule.name
        return ""

    assert verdict(meets=True) == ""
    assert verdict(meets=False) == "OVERWRITTEN"


@pytest.mark.parametrize(
    ("rule", "own", "other"),
    [
        (Rule.LEAVING, [], [ARRIVE]),
        (Rule.LEAVING, [MEET], [MEET, ARRIVE]),
        (None, [MEET], [ARRIVE, MEET]),
        (None, [WAIT], [ARRIVE]),
        (Rule.UNAWAITED, [expect(BYTES)], [load(BYTES)]),
        (None, [expect(BYTES), WAIT], [load(BYTES)]),
    ],
)
def test_a_block_that_others_reach_into(
    rule: Rule | None, own: list[Step], other: list[Step]
) -> None:
    """The barrier and the place are those of block 0, where one of two actors does nothing."""
    actors = (
        Actor("a", "", own),
        Actor("b", "", [step for step in own if step == MEET]),
        Actor("c", "", other, block=1),
    )
    skeleton = Skeleton(
        actors, (BarrierStage("b", 0, 1),), (Place("x", 0),), (Meeting("all", (0, 1, 2)),)
    )
    assert broken_by(skeleton) is rule


@pytest.mark.parametrize(("rules", "folder"), [(Rule, "protocol"), (FormRule, "lower")])
def test_every_rule_is_broken_by_some_test(rules: type[CodedRule], folder: str) -> None:
    root = Path(__file__).parents[1]
    tests = [*root.glob(f"{folder}/*.py"), *root.glob("support/role_fault*.py")]
    text = "".join(path.read_text() for path in tests)
    unbroken = [each for each in rules if not (each.code in text or f"Rule.{each.name}" in text)]
    assert unbroken == [], f"break them in tests/{folder}"
