"""Runs that are cut short where they repeat, held against the same runs in full."""

from dataclasses import replace
from random import Random

import pytest

from tests.protocol.kernels import chain, matmul
from tests.protocol.random_skeletons import changed, random_skeleton
from warpsmith.protocol.extract import skeleton_of
from warpsmith.protocol.launched import launch_values
from warpsmith.protocol.machine import Machine
from warpsmith.protocol.repeats import Cycles, Repeats
from warpsmith.protocol.rules import Broken
from warpsmith.protocol.skeleton import Actor, BarrierStage, Kind, Place, Skeleton, Step

TURNS = 40


def outcome(
    skeleton: Skeleton, *, cut: bool, cycles: Cycles | None = None
) -> tuple[str, tuple[int, ...], int]:
    """What is wrong, phases of all barriers that are over, and the steps that were not taken."""
    machine, repeats = Machine(skeleton), Repeats({} if cycles is None else cycles)
    wrong = ""
    try:
        while machine.round():
            if cut:
                repeats.look(machine)
        machine.finish()
    except Broken as broken:
        wrong = str(broken)
    return wrong, tuple(barrier.done for barrier in machine.barriers), repeats.jumped


@pytest.mark.parametrize("batch", range(6))
def test_nothing_changes_but_the_work(batch: int) -> None:
    random = Random(batch)
    jumps = wrongs = 0
    for number in range(40):
        skeleton = random_skeleton(random, TURNS)
        if number % 2:
            skeleton = changed(random, skeleton)
        full, cut = outcome(skeleton, cut=False), outcome(skeleton, cut=True)
        assert full[:2] == cut[:2]
        jumps += cut[2] > 0
        wrongs += full[0] != ""
    assert jumps > 20
    assert wrongs > 5


def test_a_long_run_costs_what_a_short_one_does() -> None:
    random = Random(3)
    skeleton = random_skeleton(random, 500)
    steps = skeleton.steps
    wrong, _, jumped = outcome(skeleton, cut=True)
    assert not wrong
    assert steps - jumped < 300 < steps


def test_agents_that_never_hear_of_each_other_repeat_too() -> None:
    """Clocks of two separate pairs drift apart; only the order of stamps is compared."""
    lists: list[list[Step]] = [[], [], [], []]
    for turn in range(400):
        for pair in (0, 1):
            full, empty = 2 * pair, 2 * pair + 1
            lists[2 * pair] += [
                Step(Kind.AWAIT, empty, 1 - (turn & 1)),
                Step(Kind.WRITE, pair),
                Step(Kind.ARRIVE, full, 1),
            ]
            lists[2 * pair + 1] += [
                Step(Kind.AWAIT, full, turn & 1),
                Step(Kind.READ, pair),
                Step(Kind.ARRIVE, empty, 1),
            ]
    actors = tuple(Actor(f"a{n}", "", steps) for n, steps in enumerate(lists))
    barriers = tuple(BarrierStage(f"b{n}", 0, 1) for n in range(4))
    places = (Place("x", 0, by_tma=False), Place("y", 0, by_tma=False))
    wrong, phases, jumped = outcome(Skeleton(actors, barriers, places), cut=True)
    assert not wrong
    assert phases == (400,) * 4
    assert jumped > 4000


def test_a_fault_after_a_long_run_is_found() -> None:
    skeleton = random_skeleton(Random(3), 300)
    actors = list(skeleton.actors)
    steps = list(actors[1].steps)
    assert steps[-2].kind == Kind.READ
    del steps[-3]  # the last wait
    actors[1] = Actor("a1", "r1", steps)
    wrong, _, jumped = outcome(
        Skeleton(tuple(actors), skeleton.barriers, skeleton.places), cut=True
    )
    assert wrong.startswith(("UNFILLED", "UNAWAITED", "ARRIVALS"))
    assert jumped > 0


NESTED = {
    "a product": lambda: matmul(16, 60),
    "a product of uneven loops": lambda: matmul(14, 53),
    "a chain": lambda: chain(200),
}


@pytest.mark.parametrize("name", NESTED)
def test_loops_in_loops_with_a_fault_anywhere(name: str) -> None:
    """Cycles that are met again in a later loop are jumped over at once, and hide no fault."""
    case = NESTED[name]()
    right = skeleton_of(case.kernel, launch_values(case.kernel, case.values, (0, 0, 0)))
    full, cut = outcome(right, cut=False), outcome(right, cut=True)
    assert full[:2] == cut[:2]
    assert full[0] == ""
    assert cut[2] > right.steps / 3
    random = Random(name)
    wrongs = jumps = 0
    for _ in range(16):
        actors = list(right.actors)
        at = random.randrange(len(actors))
        steps = list(actors[at].steps)
        del steps[random.randrange(len(steps) // 4, len(steps))]
        actors[at] = replace(actors[at], steps=steps)
        changed_one = replace(right, actors=tuple(actors))
        full, cut = outcome(changed_one, cut=False), outcome(changed_one, cut=True)
        assert bool(full[0]) == bool(cut[0])
        assert full[0].split(":")[0] == cut[0].split(":")[0]
        wrongs += full[0] != ""
        jumps += cut[2] > 0
    assert wrongs > 8
    assert jumps > 12


@pytest.mark.parametrize("batch", range(4))
def test_cycles_of_one_run_serve_another(batch: int) -> None:
    """Of a block that has more to do, or does something else in the middle of it."""
    random = Random(batch)
    sooner = wrongs = 0
    for number in range(30):
        seed = random.random()
        one, other = (random_skeleton(Random(seed), turns) for turns in (TURNS, TURNS + 7))
        cycles: Cycles = {}
        assert not outcome(one, cut=True, cycles=cycles)[0]
        if number % 2:
            other = changed(random, other)
            if (other.barriers, other.places) != (one.barriers, one.places):
                continue
        full, alone = outcome(other, cut=False), outcome(other, cut=True)
        served = outcome(other, cut=True, cycles=cycles)
        assert full[:2] == served[:2]
        sooner += served[2] > alone[2]
        wrongs += full[0] != ""
    assert sooner > 10
    assert wrongs > 2
