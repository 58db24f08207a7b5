"""Lists of steps that agents take, made by walking a body's loops.

A body is made ready once for the agents that run it: runs of statements between loops become
segments, each of which knows its steps for every place of the cursors that it uses. Walking then
is little more than joining lists. A loop whose body does not look at its index repeats itself as
soon as the cursors are where they were, and is repeated as a list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from warpsmith.protocol.scalars import Scalar, Values
from warpsmith.protocol.skeleton import Kind, Step

Steps = list[Step]


class Pool:
    """Steps that are equal are one object, so that lists are compared at once."""

    def __init__(self) -> None:
        self._steps: dict[tuple[int, int, int, int, int], Step] = {}

    def step(
        self, kind: Kind, place: int = 0, amount: int = 0, barrier: int = -1, arrivals: int = 0
    ) -> Step:
        key = (int(kind), place, amount, barrier, arrivals)
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = Step(kind, place, amount, barrier, arrivals)
        return found


@dataclass(frozen=True, slots=True)
class Leaf:
    """Steps that follow from the values of some operands.

    Attributes:
        make: the steps, given the operands' values.
    """

    operands: tuple[Scalar, ...]
    make: Callable[..., Sequence[Step]]


@dataclass(frozen=True, slots=True)
class Move:
    """A cursor moves on by some slots, or starts at one.

    Attributes:
        name: of the cursor.
        by: slots.
        turn: twice its slots.
        starts: it comes into being, at slot `by` in phase 0.
    """

    name: str
    by: Scalar
    turn: int
    starts: bool = False


@dataclass(slots=True)
class Segment:
    """Leaves and moves with no loop or condition between."""

    items: list[Leaf | Move] = field(default_factory=list)
    _cursors: tuple[str, ...] = ()
    _varying: tuple[Scalar, ...] = ()
    _known: dict[tuple[int, ...], tuple[Steps, dict[str, int]]] = field(default_factory=dict)

    def seal(self, cursors: frozenset[str]) -> frozenset[str]:
        """Find out what the steps depend on; the names of loop indices among that."""
        operands = [o for i in self.items if isinstance(i, Leaf) for o in i.operands]
        operands += [i.by for i in self.items if isinstance(i, Move)]
        names = frozenset().union(*(o.names for o in operands))
        begun = {i.name for i in self.items if isinstance(i, Move) and i.starts}
        moved = {i.name for i in self.items if isinstance(i, Move)}
        self._cursors = tuple(sorted(((names & cursors) | moved) - begun))
        indices = names - cursors
        mixed = [o for o in operands if o.names & indices and o.names & moved]
        varying = [o for o in operands if o.names & indices and not o.names & moved]
        for name in sorted(frozenset().union(*(o.names & indices for o in mixed))):
            varying.append(_index(name))
        self._varying = tuple(varying)
        return indices

    def emit(self, values: Values, out: Steps) -> None:
        key = (
            *[values[name] for name in self._cursors],
            *[function(values) for function in self._varying],
        )
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._made(values)
        out += found[0]
        if found[1]:
            values.update(found[1])

    def _made(self, values: Values) -> tuple[Steps, dict[str, int]]:
        values = dict(values)
        moved: dict[str, int] = {}
        out: Steps = []
        for item in self.items:
            if isinstance(item, Leaf):
                out += item.make(*[operand(values) for operand in item.operands])
                continue
            before = 0 if item.starts else values[item.name]
            values[item.name] = (before + item.by(values)) % item.turn
            moved[item.name] = values[item.name]
        return out, moved


def _index(name: str) -> Scalar:
    return Scalar(None, lambda values: values[name], frozenset((name,)))


@dataclass(frozen=True, slots=True)
class Condition:
    """Nodes that run where a condition holds."""

    holds: Scalar
    body: tuple[Node, ...]

    def emit(self, values: Values, out: Steps) -> None:
        if self.holds(values):
            for node in self.body:
                node.emit(values, out)


@dataclass(frozen=True, slots=True)
class Loop:
    """Nodes that run so many times.

    Attributes:
        index: name of the loop's index.
        cursors: names of all that the body moves.
        looks: the body depends on the index.
    """

    index: str
    extent: Scalar
    body: tuple[Node, ...]
    cursors: tuple[str, ...]
    looks: bool

    def emit(self, values: Values, out: Steps) -> None:
        count = self.extent(values)
        if self.looks:
            for index in range(count):
                values[self.index] = index
                for node in self.body:
                    node.emit(values, out)
            return
        self._repeated(count, values, out)

    def _repeated(self, count: int, values: Values, out: Steps) -> None:
        """Iterations until the cursors are where they were, and then those again."""
        met: dict[tuple[int, ...], int] = {}
        starts: list[int] = []
        left = count
        while left > 0:
            places = tuple([values[name] for name in self.cursors])
            if places in met:
                first = met[places]
                period = len(starts) - first
                out += out[starts[first] :] * (left // period)
                left %= period
                met = {}
                for _ in range(left):
                    for node in self.body:
                        node.emit(values, out)
                return
            met[places] = len(starts)
            starts.append(len(out))
            for node in self.body:
                node.emit(values, out)
            left -= 1


Node = Segment | Condition | Loop


def walked(nodes: Sequence[Node]) -> Steps:
    """All steps of a body."""
    values: Values = {}
    out: Steps = []
    for node in nodes:
        node.emit(values, out)
    return out
