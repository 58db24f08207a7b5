"""What the machine remembers of barriers, places and actors.

Time is told by stamps: each actor counts how often it has let others know of its steps. A step with
stamp t of actor b comes before all that an actor does whose clock shows t or more for b.
"""

from __future__ import annotations

from warpsmith.protocol.skeleton import Actor, Async, Step

Clock = list[int]
"""By actor, how much of its past is known."""

PENDING = 1 << 40
"""The stamp of what has begun and is not known to be over."""


class Phase:
    """One phase of one barrier stage.

    Attributes:
        arrived: arrivals so far.
        expected, copied: bytes that were announced, and that copies will bring.
        clock: what the arrivals knew, together.
        heard: what those who sent knew, or had heard; empty where nobody sent.
        arrivals: by actor, the stamp of its latest arrival.
        announced: by actor, the stamp of its latest announcement without an arrival.
        seen, waits: by actor, the stamps of its first and latest wait that this phase let pass.
        joined: by actor, waits that it had passed when the clock took up what it knew.
    """

    __slots__ = (
        "announced",
        "arrivals",
        "arrived",
        "clock",
        "copied",
        "expected",
        "heard",
        "joined",
        "seen",
        "waits",
    )

    def __init__(self) -> None:
        self.arrived = 0
        self.expected = 0
        self.copied = 0
        self.clock: Clock = []
        self.heard: Clock = []
        self.arrivals: dict[int, int] = {}
        self.announced: dict[int, int] = {}
        self.seen: dict[int, int] = {}
        self.waits: dict[int, int] = {}
        self.joined: dict[int, int] = {}

    def over(self, actor: ActorState) -> bool:
        """Whether the phase is over for an actor by what it knows or has heard."""
        return self.known(actor.clock) or (bool(actor.heard) and self.known(actor.heard))

    def known(self, clock: Clock) -> bool:
        """Whether the phase is over for one who knows so much.

        Bytes land when they like, so only a wait shows that a phase with bytes is over.
        """
        for actor, stamp in self.seen.items():
            if clock[actor] >= stamp:
                return True
        if self.expected or self.copied:
            return False
        return all(clock[actor] >= stamp for actor, stamp in self.arrivals.items())


class BarrierState:
    """A barrier stage: `done` phases are over; of the others, three matter at a time.

    Attributes:
        begun: actor and stamp of the initialization.
        alive: it is initialized and not invalidated.
    """

    __slots__ = ("alive", "begun", "count", "current", "done", "older", "previous")

    def __init__(self, count: int, alive: bool) -> None:
        self.count = count
        self.alive = alive
        self.begun = (0, 0)
        self.restart()

    def restart(self) -> None:
        self.done = 0
        self.older, self.previous, self.current = Phase(), Phase(), Phase()


class PlaceState:
    """What was done to a place since the TMA unit filled it, or ever.

    Attributes:
        filled: something was written.
        fill: the phase that ends when the TMA unit has filled it; None where it has not.
        filler: who asked for that, the latest where several do.
        past, past_fences: by actor, the stamps of the latest use before that, and of fences then.
        reads, writes, stores, products: by actor, the stamp of its latest one; `PENDING` for
            asynchronous ones that are not awaited.
        fences: by actor, the stamp of a proxy fence after its latest access.
        shown: by actor, that of the first after its latest write, which asynchronous reads see.
        copying, storing, multiplying: by actor, asynchronous accesses that are not awaited.
    """

    __slots__ = (
        "copying",
        "fences",
        "fill",
        "filled",
        "filler",
        "filling",
        "multiplying",
        "past",
        "past_fences",
        "products",
        "reads",
        "shown",
        "stores",
        "storing",
        "writes",
    )

    def __init__(self) -> None:
        self.filled = False
        self.fill: Phase | None = None
        self.filler = -1
        self.filling = (-1, 0)
        self.reads: dict[int, int] = {}
        self.writes: dict[int, int] = {}
        self.stores: dict[int, int] = {}
        self.fences: dict[int, int] = {}
        self.shown: dict[int, int] = {}
        self.products: dict[int, int] = {}
        self.copying: dict[int, int] = {}
        self.storing: dict[int, int] = {}
        self.multiplying: dict[int, int] = {}
        self.past: dict[int, int] = {}
        self.past_fences: dict[int, int] = {}

    def refill(self, fill: Phase, filler: int, filling: tuple[int, int], *, several: bool) -> None:
        """All that was done to it is past, which others that fill it are to know, too."""
        uses = (self.reads, self.writes, self.stores, self.products)
        if several:
            self.past = {a: max(used.get(a, 0) for used in uses) for used in uses for a in used}
            self.past_fences = dict(self.fences)
        self.filled = True
        self.fill, self.filler, self.filling = fill, filler, filling
        for used in (*uses, self.fences, self.shown):
            used.clear()

    def asynchronous(self, sort: int) -> tuple[dict[int, int], dict[int, int]]:
        """By actor, accesses of one sort that are not awaited, and the stamp of the latest."""
        if sort == Async.STORES:
            return self.storing, self.stores
        if sort == Async.PRODUCTS:
            return self.multiplying, self.products
        return self.copying, self.writes


class ActorState:
    """An actor on its way.

    Attributes:
        at: number of the next step.
        clock: what it knows; its own entry is the stamp of its next steps.
        heard: what others knew who sent something, as it knows from its bytes: that phases are
            over, and nothing of what was done to memory. Empty where it knows of none.
        learned: waits that have passed, by which it may have learned of others.
        fenced: its clock at its latest proxy fence.
        unfenced: places that it has touched since.
        open: by sort (see `Async`), places of asynchronous accesses since the latest commit.
        groups: by sort, the places of each group that is not awaited.
    """

    __slots__ = (
        "at",
        "clock",
        "end",
        "fenced",
        "groups",
        "heard",
        "learned",
        "open",
        "steps",
        "unfenced",
        "weight",
    )

    def __init__(self, actor: Actor, number: int, actors: int) -> None:
        self.steps: list[Step] = actor.steps if isinstance(actor.steps, list) else list(actor.steps)
        self.weight = actor.weight
        self.at = 0
        self.end = len(self.steps)
        self.clock: Clock = [0] * actors
        self.clock[number] = 1
        self.heard: Clock = []
        self.learned = 0
        self.fenced: Clock = [0] * actors
        self.unfenced: set[int] = set()
        self.open: tuple[list[int], ...] = tuple([] for _ in Async)
        self.groups: tuple[list[tuple[int, ...]], ...] = tuple([] for _ in Async)


def together(first: Clock, second: Clock) -> Clock:
    """What both know; an empty clock knows nothing."""
    return list(map(max, first, second)) if first and second else [*first, *second]
