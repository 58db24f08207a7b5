"""Lists of steps that actors take, made by walking a body's loops.

A body is made ready once for the actors that run it: runs of statements between loops become
segments, each of which knows its steps for every place of the cursors that it uses. Walking then
is little more than joining lists. Iterations of a loop in which nothing depends on its index
repeat themselves as soon as the cursors are where they were, and are repeated as a list; those in
which something does are few: first and last ones, as ranges of conditions and bytes show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field

from warpsmith.protocol.ranges import Range
from warpsmith.protocol.scalars import Scalar, Seen, Values, index
from warpsmith.protocol.skeleton import Kind, Step
from warpsmith.values import dataclass

Steps = list[Step]

MOST_STEPS = 1 << 22
"""Of one actor's list."""

MOST_ITERATIONS = 1 << 16
"""Of loops that one actor's list is made of, where each must be looked at."""

FEW = 4
"""Iterations that are walked sooner than it is found out whether they are alike."""


class TooLongError(Exception):
    """An actor would take more than `MOST_STEPS` steps, or `MOST_ITERATIONS` that are not alike."""


@dataclass(slots=True)
class Walk:
    """How far a body has been walked.

    Attributes:
        steps: so far.
        iterations: that were looked at.
    """

    values: Values = field(default_factory=dict)
    steps: Steps = field(default_factory=list)
    iterations: int = 0

    def iteration(self, nodes: Sequence[Node]) -> None:
        """Walk a loop's body once.

        Raises:
            TooLongError: it was too much.
        """
        self.iterations += 1
        if self.iterations > MOST_ITERATIONS or len(self.steps) > MOST_STEPS:
            raise TooLongError
        for node in nodes:
            node.emit(self)

    def again(self, steps: Steps) -> None:
        """Take steps of a loop that has been walked before."""
        self.iterations += 1
        if self.iterations > MOST_ITERATIONS or len(self.steps) + len(steps) > MOST_STEPS:
            raise TooLongError
        self.steps += steps

    def repeat(self, start: int, times: int) -> None:
        """Take all steps since `start` so many times more."""
        if len(self.steps) + (len(self.steps) - start) * times > MOST_STEPS:
            raise TooLongError
        self.steps += self.steps[start:] * times


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
    """A cursor moves on by some stages, or starts at one.

    Attributes:
        name: of the cursor.
        by: stages.
        turn: twice its stages.
        starts: it comes into being, at stage `by` in phase 0.
    """

    name: str
    by: Scalar
    turn: int
    starts: bool = False


@dataclass(slots=True)
class Segment:
    """Steps and moves with no loop or condition between."""

    items: list[Leaf | Move] = field(default_factory=list)
    _cursors: tuple[str, ...] = ()
    _varying: tuple[Scalar, ...] = ()
    _known: dict[tuple[int, ...], tuple[Steps, dict[str, int]]] = field(default_factory=dict)

    def seal(self, cursors: frozenset[str]) -> None:
        """Find out what the steps depend on, given the names of all cursors."""
        operands: list[Scalar] = []
        needed: set[str] = set()
        moved: set[str] = set()
        begun: set[str] = set()
        for item in self.items:
            own = item.operands if isinstance(item, Leaf) else (item.by,)
            operands += own
            needed.update(name for o in own for name in o.names & cursors if name not in begun)
            if isinstance(item, Move):
                moved.add(item.name)
                if item.starts:
                    begun.add(item.name)
                elif item.name not in begun:
                    needed.add(item.name)
        names = frozenset().union(*(o.names for o in operands))
        self._cursors = tuple(sorted(needed))
        indices = names - cursors
        mixed = [o for o in operands if o.names & indices and o.names & moved]
        varying = [o for o in operands if o.names & indices and not o.names & moved]
        for name in sorted(frozenset().union(*(o.names & indices for o in mixed))):
            varying.append(index(name))
        self._varying = tuple(varying)

    def emit(self, walk: Walk) -> None:
        values = walk.values
        key = (
            *[values[name] for name in self._cursors],
            *[function(values) for function in self._varying],
        )
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._made(values)
        walk.steps += found[0]
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


@dataclass(frozen=True, slots=True)
class Condition:
    """Nodes that run where a condition holds."""

    holds: Scalar
    body: tuple[Node, ...]

    def emit(self, walk: Walk) -> None:
        if self.holds(walk.values):
            for node in self.body:
                node.emit(walk)


@dataclass(frozen=True, slots=True)
class Loop:
    """Nodes that run so many times.

    Attributes:
        name: of the loop's index.
        cursors: names of all that the body moves.
        watched: what in the body depends on the index.
        inner: loops inside, by the names of their indices, with their extents.
        key: where it stands in another loop, names of all that its steps depend on.
    """

    name: str
    extent: Scalar
    body: tuple[Node, ...]
    cursors: tuple[str, ...]
    watched: tuple[Scalar, ...]
    inner: tuple[tuple[str, Scalar], ...]
    key: tuple[str, ...] | None = None
    _known: dict[tuple[int | None, ...], tuple[Steps, dict[str, int]]] = field(default_factory=dict)

    def emit(self, walk: Walk) -> None:
        if self.key is None:
            self._emit(walk)
            return
        values = walk.values
        key = tuple([values.get(name) for name in self.key])
        found = self._known.get(key)
        if found is None:
            start = len(walk.steps)
            self._emit(walk)
            moved = {name: values[name] for name in self.cursors if name in values}
            self._known[key] = walk.steps[start:], moved
        else:
            walk.again(found[0])
            values.update(found[1])

    def _emit(self, walk: Walk) -> None:
        count = self.extent(walk.values)
        if count <= 0:
            return
        if not self.watched:
            self._repeated(count, walk)
            return
        if count <= FEW:
            self._one_by_one(0, count, walk)
            return
        ranges: dict[str, Range] = {name: (value, value) for name, value in walk.values.items()}
        for start, end in ((0, count), (1, count), (0, count - 1), (1, count - 1)):
            if self._alike(start, end, ranges):
                for before, after in ((0, start), (start, end), (end, count)):
                    self._as_one(before, after, walk)
                return
        middle = count // 2
        self._split(0, middle, ranges, walk)
        self._split(middle, count, ranges, walk)

    def _split(self, start: int, end: int, ranges: dict[str, Range], walk: Walk) -> None:
        """Iterations from `start` to before `end`, those that are alike as one."""
        if end - start <= FEW:
            self._one_by_one(start, end, walk)
        elif self._alike(start, end, ranges):
            self._as_one(start, end, walk)
        else:
            middle = (start + end) // 2
            self._split(start, middle, ranges, walk)
            self._split(middle, end, ranges, walk)

    def _one_by_one(self, start: int, end: int, walk: Walk) -> None:
        for number in range(start, end):
            walk.values[self.name] = number
            walk.iteration(self.body)

    def _as_one(self, start: int, end: int, walk: Walk) -> None:
        """Iterations from `start` to before `end`, which are alike."""
        if start < end:
            walk.values[self.name] = start
            self._repeated(end - start, walk)

    def _alike(self, start: int, end: int, ranges: dict[str, Range]) -> bool:
        """Whether iterations from `start` to before `end` differ in no more than their number."""
        ranges[self.name] = (start, end - 1)
        self._range_inner(ranges)
        seen: Seen = {}
        return all(each.independent(self.name, ranges, seen) for each in self.watched)

    def _range_inner(self, ranges: dict[str, Range]) -> None:
        """Bounds of the indices of loops inside; those of one name share theirs."""
        most: dict[str, float] = {}
        for name, extent in self.inner:
            most[name] = max(extent.range(ranges)[1] - 1, most.get(name, 0))
            ranges[name] = (0, most[name])

    def _repeated(self, count: int, walk: Walk) -> None:
        """Iterations until the cursors are where they were, and then those again."""
        met: dict[tuple[int | None, ...], int] = {}
        starts: list[int] = []
        for done in range(count):
            places = tuple([walk.values.get(name) for name in self.cursors])
            if places in met:
                first = met[places]
                times, rest = divmod(count - done, len(starts) - first)
                walk.repeat(starts[first], times)
                for _ in range(rest):
                    walk.iteration(self.body)
                return
            met[places] = len(starts)
            starts.append(len(walk.steps))
            walk.iteration(self.body)


Node = Segment | Condition | Loop


def moved_by(nodes: Iterable[Node]) -> frozenset[str]:
    """Names of the cursors that nodes move."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, Segment):
            found |= {item.name for item in node.items if isinstance(item, Move)}
        else:
            found |= moved_by(node.body)
    return frozenset(found)


def walked(nodes: Sequence[Node]) -> Steps:
    """All steps of a body."""
    walk = Walk()
    for node in nodes:
        node.emit(walk)
    return walk.steps


def scalars_of(nodes: Sequence[Node]) -> Iterator[Scalar]:
    """All that nodes, and those inside them, evaluate."""
    for node in nodes:
        if isinstance(node, Segment):
            for item in node.items:
                yield from (item.by,) if isinstance(item, Move) else item.operands
        else:
            yield node.extent if isinstance(node, Loop) else node.holds
            yield from scalars_of(node.body)


def loops_of(nodes: Sequence[Node]) -> Iterator[Loop]:
    """All loops, outer ones first."""
    for node in nodes:
        if not isinstance(node, Segment):
            if isinstance(node, Loop):
                yield node
            yield from loops_of(node.body)
