"""Plans beside the one that a program's structure gives, tried where they promise to be faster.

The plan computes again whatever depends on no reduction, and has as much in a kernel as a scheduler
takes. A tensor that several kernels compute, or one kernel for many more elements than it has, may
better be stored, a result that lies otherwise than the others, or than what is reduced, have a
kernel of its own, and two products of one operand, of which few tiles are made, a kernel each. A
trial is a whole plan; what differs is priced together and apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from warpsmith.ir.exprs import Matmul, Move, Pointwise, Reduction
from warpsmith.ir.graph import Graph
from warpsmith.ir.part import Part
from warpsmith.ir.tensor import TensorView
from warpsmith.planner.begun import begun, grow
from warpsmith.planner.crossing import enlarges
from warpsmith.planner.decided import NOTHING, Decided
from warpsmith.planner.divided import divided
from warpsmith.planner.epilogues import Offers
from warpsmith.planner.joins import joins
from warpsmith.planner.prices import Plan, Planned, Prices
from warpsmith.planner.scattered import scattered
from warpsmith.planner.segment import Segment
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.traffic import Traffic, elements, instructions

WORTH = 1.05
"""So many times as fast the kernels that differ are predicted to be where a plan is left."""

WORTH_BEGINNING = 1.0
"""The same where a product's kernel begins a reduction, and computes nothing else than before: ten
of ten drawn sizes were 3 to 25 % faster so. With an activation's gradient, too, four trained layers
took 0 to 1.5 % longer than two kernels, of which 1 % less was predicted (an H200, 2026-11-28)."""

MOST_TRIALS = 12
"""Plans that are tried for a call."""


def faster(
    offers: Offers,
    plan: Callable[[Decided], Plan | None],
) -> Decided:
    """What a call's plan is to have otherwise; nothing where that is not clearly faster.

    Args:
        plan: of what was decided; None where no scheduler takes a part of it in this call.
    """
    first = plan(NOTHING)
    assert first is not None, "there is always a plan"
    best: Plan = first
    prices, decided, trials = Prices(), NOTHING, 0

    def one_of(ways: Iterable[Decided], worth: float = WORTH) -> bool:
        """Take the way that saves most, where one saves enough."""
        nonlocal best, decided
        found: list[tuple[float, Decided, Plan]] = []
        for way in ways:
            trial = plan(decided | way)
            if trial is not None:
                before, after = prices.both(best, trial)
                found += [(before - after, way, trial)] if after * worth < before else []
        if found:
            _, way, best = max(found, key=lambda each: each[0])
            decided |= way
        return bool(found)

    def join() -> None:
        joined = joins(offers.graph, best, decided, prices, WORTH)
        one_of([Decided(joined=joined)] if joined else [])

    join()
    proposals, changed = _proposals(offers, *best, prices), False
    segments = best[0]
    for ways in begun(offers, segments):
        grows = grow(ways[0], segments)
        changed |= one_of(ways, WORTH if grows else WORTH_BEGINNING)
    for ways in proposals:
        changed |= one_of(ways[: max(0, MOST_TRIALS - trials)])
        trials += len(ways)
    if changed:
        join()
    return decided


def _proposals(
    offers: Offers, segments: Sequence[Planned], problem: Problem, prices: Prices
) -> Iterator[tuple[Decided, ...]]:
    """Ways to store, or to write, something otherwise, of which one may be taken; what promises to
    save most comes first, and last what is computed for that. What is alike is proposed together.
    """
    yield from divided(segments, problem, prices, WORTH)
    yield from scattered(offers.graph, segments, problem)
    shares = [(planned.segment, planned.segment.share) for planned in segments]
    parts = [(segment, share) for segment, share in shares if isinstance(share, Part)]
    stores = _Stores(offers, parts, problem)
    kinds: dict[object, list[int]] = {}
    for number in stores.candidates():
        kinds.setdefault(stores.kind(number), []).append(number)
    saved = ((stores.saved_us(numbers[0]), numbers) for numbers in kinds.values())
    most = [numbers for _, numbers in sorted((s for s in saved if s[0] > 0), key=lambda s: -s[0])]
    later = [
        numbers
        for place, numbers in enumerate(most)
        if any(stores.is_before(numbers[0], other[0]) for other in most[:place])
    ]
    for numbers in [each for each in most if each not in later] + later:
        chosen = frozenset(numbers)
        if written := stores.written(numbers):
            yield (Decided(reread=written),)
        else:
            yield Decided(kept=chosen), Decided(alone=chosen)


class _Stores:
    """What several kernels compute, or one for more elements than it has."""

    def __init__(
        self, offers: Offers, parts: Sequence[tuple[Segment, Part]], problem: Problem
    ) -> None:
        self._offers, self._problem = offers, problem
        self._parts = parts
        self._users: dict[int, list[int]] = {}
        for place, (_, part) in enumerate(parts):
            for position in part.positions:
                for number in part.graph.made(position):
                    self._users.setdefault(number, []).append(place)
        self._written = frozenset(number for _, part in parts for number in part.sinks)
        self._rates = problem.target.rates

    def candidates(self) -> list[int]:
        """Numbers of results of single operations that are computed and not stored, or that one
        kernel writes and others compute.
        """
        graph = self._offers.graph
        # What is stored in 16 bits is known by the value that is rounded.
        values = {form: number for number, form in self._offers.forms.items()}
        widened = {values.get(number, number) for number in _widened(graph, graph.needed)}
        found = []
        for number, users in self._users.items():
            position = graph.maker.get(number)
            if position is None or number in values:
                continue
            if self.written((number,)) and len(users) < 2:
                continue
            again = isinstance(graph.operations[position], Reduction) and len(users) > 1
            if not (again or isinstance(graph.operations[position], Pointwise)):
                continue
            if number in widened or (len(users) > 1 and self._is_last(number, users)):
                found.append(number)
        return found

    def written(self, numbers: Iterable[int]) -> frozenset[int]:
        """Of tensors, the numbers of those that are written, or of what is written of them."""
        own = (each for n in numbers for each in (n, self._offers.forms.get(n, n)))
        return self._written.intersection(own)

    def _is_last(self, number: int, users: Sequence[int]) -> bool:
        """Whether what follows is not computed by the same kernels again."""
        graph = self._offers.graph
        behind = (t for p in graph.readers.get(number, ()) for t in graph.made(p))
        return any(self._users.get(each, []) != users for each in behind)

    def kind(self, number: int) -> object:
        """Equal for tensors that parts which are alike compute likewise."""
        own = ((self._parts[place][0], self._parts[place][1]) for place in self._users[number])
        return frozenset((s.shape.key, part.computed.index(number)) for s, part in own)

    def is_before(self, number: int, other: int) -> bool:
        """Whether kernels compute a tensor for another one that is computed by the same: it is
        stored for nothing where that one is.
        """
        users = self._users[number]
        if users != self._users[other]:
            return False
        part = self._parts[users[0]][1]
        return part.graph.maker[number] in part.graph.slice([other], part.reads)

    def saved_us(self, number: int) -> float:
        """Microseconds that storing it saves at most, less what that must be of the time of the
        kernels that have it: 0 or less where it is not worth a trial.
        """
        stored = self._offers.forms.get(number, number)
        size = self._bytes(self._offers.graph.tensors[stored])
        saved: list[float] = []
        reduced = False
        for place in self._users[number]:
            _, part = self._parts[place]
            if not {number, stored}.isdisjoint(part.sinks):
                continue
            chain = part.graph.slice([number], part.reads)
            rest = part.graph.slice(part.sinks, {*part.reads, number})
            spared = set(chain) - set(rest)
            kept = {*part.graph.reads(rest), *self._formed(part.graph.reads(rest))}
            gone = [t for t in part.reads if t not in kept]
            moved = sum(self._bytes(part.graph.tensors[t]) for t in gone) - size
            made = [_is_reduced(part.graph, t) for t in gone]
            reduced |= any(made) and not all(made)
            saved.append(max(moved / self._rates.memory, self._issued_us(part, spared, number)))
        spent = 0.0 if self.written((number,)) else size / self._rates.memory
        spent += (WORTH - 1) * sum(
            self._rates.launch_us + self._memory_us(self._parts[place][1])
            for place in self._users[number]
        )
        if len(self._users[number]) > 1:
            if not self.written((number,)):
                saved.remove(max(saved))  # of the kernel that computes it still
            return sum(saved) - spent
        alone = saved[0] - spent - self._rates.launch_us
        return max(alone, self._rates.launch_us) if reduced else alone

    def _memory_us(self, part: Part) -> float:
        """Microseconds that a kernel's bytes take at least."""
        moved = sum(self._bytes(part.graph.tensors[t]) for t in (*part.reads, *part.sinks))
        return moved / self._rates.memory

    def _formed(self, numbers: Iterable[int]) -> Iterator[int]:
        return (self._offers.forms[t] for t in numbers if t in self._offers.forms)

    def _issued_us(self, part: Part, chain: Iterable[int], number: int) -> float:
        """Microseconds that a kernel computes less where it has no chain of operations, which is
        those in which it computes longer than its bytes take, at most.
        """
        operations = part.graph.operations
        if any(isinstance(operations[p], Reduction | Matmul) for p in chain):
            return 0.0
        tensors = [part.graph.tensors[t] for t in (*part.reads, *part.sinks)]
        walks = max((elements(t, self._problem) for t in tensors), default=0)
        own = elements(part.graph.tensors[number], self._problem)
        times = max(walks - own, own if len(self._users[number]) > 1 else 0)
        less, whole = (
            sum(instructions(operations[p]) for p in positions) * each
            for positions, each in ((chain, times), (part.positions, walks))
        )
        less_us, whole_us = (
            Traffic(0, 0.0, issued).us(self._problem.target) - self._rates.launch_us
            for issued in (less, whole)
        )
        return min(less_us, whole_us - self._memory_us(part))

    def _bytes(self, tensor: TensorView) -> int:
        return elements(tensor, self._problem) * tensor.dtype.size


def _is_reduced(graph: Graph, number: int) -> bool:
    return number in graph.maker and isinstance(graph.operations[graph.maker[number]], Reduction)


def _widened(graph: Graph, positions: Iterable[int]) -> Iterator[int]:
    """Numbers of what operations read that has fewer dimensions than what they make of it, before
    it is moved or made wider.
    """
    for position in positions:
        output = graph.operations[position].outputs[0]
        for number in graph.sources(position):
            if len(graph.tensors[number].concrete_order()) < len(output.concrete_order()):
                while (maker := graph.maker.get(number)) is not None:
                    made = graph.operations[maker]
                    if not isinstance(made, Move) and not enlarges(made):
                        break
                    (number,) = graph.sources(maker)
                yield number
