"""Random protocols, right ones and wrong ones: rings between actors, with one thing changed."""

from random import Random

from warpsmith.protocol.skeleton import Actor, BarrierStage, Kind, Place, Skeleton, Step

BYTES = 64


def random_skeleton(random: Random, turns: int = 0) -> Skeleton:
    """A producer and one or two consumers of a ring, and sometimes a second ring behind it.

    Args:
        turns: how often each stage is used; 0 for few.
    """
    stages = random.randint(1, 3)
    consumers = random.choice((1, 1, 2))
    by_tma = random.random() < 0.6
    count = turns * stages if turns else random.randint(1, 4 if consumers == 1 else 3)
    in_turn = consumers == 2 and stages % 2 == 0 and random.random() < 0.5
    arrivals = 1 if in_turn else consumers
    barriers = [BarrierStage("full", s, 1) for s in range(stages)]
    barriers += [BarrierStage("empty", s, arrivals) for s in range(stages)]
    places = [Place("tile", s, by_tma=False) for s in range(stages)]
    lists: list[list[Step]] = [[] for _ in range(consumers + 1)]
    chained = consumers == 1 and not turns and random.random() < 0.3
    if chained:
        barriers += [BarrierStage("full2", 0, 1), BarrierStage("empty2", 0, 1)]
        places.append(Place("tile2", 0, by_tma=False))
        lists.append([])
    for use in range(count):
        stage, turn = use % stages, use // stages
        lists[0] += _fill(stage, stages + stage, stage, turn, by_tma)
        readers = (use % 2,) if in_turn else range(consumers)
        for reader in readers:
            steps = lists[1 + reader]
            steps += [Step(Kind.AWAIT, stage, turn & 1), Step(Kind.READ, stage)]
            if chained:
                steps += _fill(2 * stages, 2 * stages + 1, stages, use, False)
            steps.append(Step(Kind.ARRIVE, stages + stage, 1))
        if chained:
            lists[2] += [
                Step(Kind.AWAIT, 2 * stages, use & 1),
                Step(Kind.READ, stages),
                Step(Kind.ARRIVE, 2 * stages + 1, 1),
            ]
    actors = tuple(Actor(f"a{n}", f"r{n}", tuple(steps)) for n, steps in enumerate(lists))
    return Skeleton(actors, tuple(barriers), tuple(places))


def _fill(full: int, empty: int, place: int, turn: int, by_tma: bool) -> list[Step]:
    wait = Step(Kind.AWAIT, empty, 1 - (turn & 1))
    if not by_tma:
        return [wait, Step(Kind.WRITE, place), Step(Kind.ARRIVE, full, 1)]
    return [
        wait,
        Step(Kind.FENCE),
        Step(Kind.EXPECT, full, BYTES, arrivals=1),
        Step(Kind.LOAD, place, BYTES, full),
    ]


def changed(random: Random, skeleton: Skeleton) -> Skeleton:
    """One step is dropped, doubled, moved or changed, or a barrier counts something else."""
    actors = [list(actor.steps) for actor in skeleton.actors]
    barriers = list(skeleton.barriers)
    number = random.randrange(len(actors))
    steps = actors[number]
    at = random.randrange(len(steps))
    step = steps[at]
    match random.randrange(7):
        case 0:
            del steps[at]
        case 1:
            steps.insert(at, step)
        case 2:
            other = random.randrange(len(steps))
            steps[at], steps[other] = steps[other], steps[at]
        case 3 if step.kind == Kind.AWAIT:
            steps[at] = Step(Kind.AWAIT, step.place, 1 - step.amount)
        case 4:
            places = len(skeleton.places if step.kind in _TOUCHING else barriers)
            place = random.randrange(places)
            steps[at] = Step(step.kind, place, step.amount, step.barrier, step.arrivals)
        case 5:
            which = random.randrange(len(barriers))
            stage = barriers[which]
            barriers[which] = BarrierStage(stage.name, stage.stage, 3 - stage.count)
        case _:
            del steps[at:]
    made = zip(skeleton.actors, actors, strict=True)
    return Skeleton(
        tuple(Actor(actor.name, actor.role, tuple(steps)) for actor, steps in made),
        tuple(barriers),
        skeleton.places,
    )


_TOUCHING = (Kind.READ, Kind.WRITE, Kind.LOAD)
