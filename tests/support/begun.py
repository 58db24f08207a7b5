"""Plans in which kernels of products begin all reductions that they can."""

from collections.abc import Callable

from warpsmith.planner.begun import begun
from warpsmith.planner.decided import NOTHING, Decided
from warpsmith.planner.epilogues import Offers
from warpsmith.planner.prices import Plan


def all_begun(offers: Offers, plan: Callable[[Decided], Plan | None]) -> Decided:
    """In place of `trials.faster`, whatever that predicts of a small program."""
    first, decided = plan(NOTHING), NOTHING
    assert first is not None
    for ways in begun(offers, first[0]):
        decided |= ways[0]
    return decided if plan(decided) is not None else NOTHING
