"""What the machine concludes from one run, held against every interleaving."""

from random import Random

import pytest

from tests.protocol.exhaustive import Search, TooLargeError
from tests.protocol.random_skeletons import changed, random_skeleton
from warpsmith.protocol.machine import Machine
from warpsmith.protocol.rules import Broken
from warpsmith.protocol.skeleton import Actor, BarrierStage, Kind, Skeleton, Step

BATCHES, A_BATCH = 8, 60


def verdict(skeleton: Skeleton, *, fair: bool = False) -> str:
    """Empty if the machine finds nothing."""
    machine = Machine(skeleton, fair=fair)
    try:
        while machine.round():
            pass
        machine.finish()
    except Broken as broken:
        return str(broken)
    return ""


@pytest.mark.parametrize("batch", range(BATCHES))
def test_one_run_tells_what_all_interleavings_do(batch: int) -> None:
    random = Random(batch)
    right = wrong = 0
    for _ in range(A_BATCH):
        skeleton = random_skeleton(random)
        for _ in range(random.choice((0, 1, 1, 1, 2))):
            if all(actor.steps for actor in skeleton.actors):
                skeleton = changed(random, skeleton)
        try:
            search = Search(skeleton)
            agrees = search.run()
        except TooLargeError:
            continue
        found = verdict(skeleton)
        assert bool(found) == bool(verdict(skeleton, fair=True))
        if found.startswith("PROXY"):
            continue  # no order of events shows a missing fence
        assert agrees == (not found), (found, search.wrong, skeleton)
        right += agrees
        wrong += not agrees
    assert right > 8
    assert wrong > 15


def test_two_equal_warps_are_not_one() -> None:
    """Three warps arrive, one of them elected: two equal ones may be apart without the first.

    The elected thread lets all go on before it has seen that all have arrived. So one of the others
    may arrive again while another one has not arrived at all.
    """
    first = [
        Step(Kind.ARRIVE, 0, 1),
        Step(Kind.ARRIVE, 1, 1),
        Step(Kind.AWAIT, 0, 0),
        Step(Kind.AWAIT, 1, 0),
        Step(Kind.ARRIVE, 0, 1),
    ]
    others = [
        Step(Kind.ARRIVE, 0, 1),
        Step(Kind.AWAIT, 1, 0),
        Step(Kind.ARRIVE, 0, 1),
    ]
    barriers = (BarrierStage("all", 0, 3), BarrierStage("go", 0, 1))
    three = Skeleton(
        (Actor("a", "", first), Actor("b", "", others), Actor("c", "", others)), barriers
    )
    assert not Search(three).run()
    assert "may count in phase 0" in verdict(three)
    lumped = Skeleton((Actor("a", "", first), Actor("b", "", others, weight=2)), barriers)
    assert not verdict(lumped), "one representative of the others would not be enough"
