"""Kernels of one region that are one where they are predicted to take less time so.

A region that no scheduler takes whole is cut everywhere at once, and what its kernels then pass to
each other need not cross memory at every cut. Here two of them become one, the pair that gains most
first, as long as a pair gains. A kernel is priced once for all that are like it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import field
from heapq import heappop, heappush
from itertools import count

from warpsmith.ir.exprs import Matmul
from warpsmith.ir.graph import Graph
from warpsmith.ir.part import Part
from warpsmith.planner.alike import Labels, shape_of
from warpsmith.planner.decided import Decided
from warpsmith.planner.empty import is_empty
from warpsmith.planner.other_kernels import between, other
from warpsmith.planner.prices import Plan, Planned, Prices
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.candidate import Reduced
from warpsmith.values import dataclass

MOST_PRICED = 64
"""Kinds of pairs that are priced for a plan."""

MOST_WRITERS = 8
"""Kernels that each kernel may be joined with, of those whose results it reads: the last ones. A
kernel may read a result of each before it."""


@dataclass(frozen=True, slots=True, eq=False)
class _Kernel:
    """A kernel of a plan, or several that become one.

    Attributes:
        part: what it computes; None where it is joined with no other.
        sinks: a tensor of each of its kernels that the plan has.
        reads, writes: names of tensors.
        us: microseconds that it is predicted to take.
    """

    part: Part | None
    sinks: tuple[int, ...]
    reads: frozenset[str]
    writes: frozenset[str]
    us: float


Pair = tuple[_Kernel, _Kernel]
"""A kernel, and one that reads what it writes."""


def joins(
    graph: Graph, plan: Plan, decided: Decided, prices: Prices, worth: float
) -> frozenset[tuple[int, int]]:
    """Pairs of tensors whose kernels become one, `worth` times as fast as both, or faster.

    Kernels of what was added to the graph, sums that blocks leave, stay as they are.
    """
    segments, problem = plan
    own = [share for p in segments if isinstance(share := p.segment.share, Part)]
    uses = Counter(name for planned in segments for name in planned.segment.inputs)
    search = _Search(problem, worth, uses, Labels(graph, own[0].formats if own else {}))
    regions: list[list[tuple[Planned, Part | None]]] = [[]]
    for planned in segments:
        part = planned.segment.share if isinstance(planned.segment.share, Part) else None
        if part is not None and _has_product(part):
            regions.append([])
        if part is None or part.graph is not graph or not _may_join(planned, part, decided):
            part = None
        regions[-1].append((planned, part))
    found: set[tuple[int, int]] = set()
    for region in regions:
        if sum(part is not None for _, part in region) > 1:
            kernels = [_kernel(planned, part, problem, prices) for planned, part in region]
            found.update(search.pairs(kernels))
    return frozenset(found)


def _kernel(planned: Planned, part: Part | None, problem: Problem, prices: Prices) -> _Kernel:
    reads, writes = frozenset(planned.segment.inputs), frozenset(planned.segment.outputs)
    if part is None:
        return _Kernel(None, (), reads, writes, 0.0)
    return _Kernel(part, part.sinks[:1], reads, writes, prices.us(planned, problem))


def _may_join(planned: Planned, part: Part, decided: Decided) -> bool:
    """Whether it is no product's, and neither its schedule nor that it is alone was decided; but
    rows that are better kept may be kept for others, too.
    """
    left = {scheduler for scheduler, _ in planned.segment.without}
    fixed = planned.candidate is None or bool(left - {Reduced.scheduler})
    return not (fixed or _has_product(part) or decided.alone.intersection(part.sinks))


def _has_product(part: Part) -> bool:
    return any(isinstance(part.graph.operations[p], Matmul) for p in part.positions)


@dataclass
class _Search:
    """Joins kernels in pairs.

    Attributes:
        uses: by name of a tensor, how many kernels of the plan read it.
    """

    problem: Problem
    worth: float
    uses: Counter[str]
    labels: Labels
    _us: dict[object, float | None] = field(default_factory=dict)

    def pairs(self, kernels: Sequence[_Kernel]) -> Iterator[tuple[int, int]]:
        """Tensors that stand for kernels of a region which become one, two for each time."""
        alive, numbers = dict.fromkeys(kernels), count()
        waiting: list[tuple[float, int, Pair, _Kernel]] = []

        def wait_for(pairs: Iterable[Pair]) -> None:
            for pair in pairs:
                one, apart = self._one(*pair), pair[0].us + pair[1].us
                if one is not None and one.us * self.worth < apart:
                    heappush(waiting, (one.us - apart, next(numbers), pair, one))

        wait_for(_pairs(alive, alive))
        while waiting:
            _, _, pair, one = heappop(waiting)
            if not alive.keys() >= {*pair} or _meets_between(alive, *pair):
                continue
            yield pair[0].sinks[0], pair[1].sinks[0]
            for kernel in pair:
                del alive[kernel]
            alive[one] = None
            self.uses.subtract(pair[0].reads & pair[1].reads)
            self.uses.subtract(pair[0].writes & pair[1].reads)
            wait_for(_pairs(alive, [one]))

    def _one(self, writer: _Kernel, reader: _Kernel) -> _Kernel | None:
        """Both as one kernel; None where there is none."""
        first, second = writer.part, reader.part
        if first is None or second is None:
            return None
        read, results = frozenset(second.reads), first.graph.results
        inside = {t for t in read if self.uses[f"T{t}"] == 1} - results
        part = _joined(first, second, [t for t in first.sinks if t not in inside])
        if any(is_empty(tensor, self.problem.values) for tensor in (*part.read, *part.written)):
            return None  # the grid of what is empty has no blocks, and its loops no turns
        us = self._priced(part)
        if us is None:
            return None
        reads, writes = (frozenset(f"T{t}" for t in ts) for ts in (part.reads, part.sinks))
        return _Kernel(part, writer.sinks + reader.sinks, reads, writes, us)

    def _priced(self, part: Part) -> float | None:
        """Microseconds; None where no kernel computes it, or nobody is to ask any more."""
        sizes = [self.problem.size(a.extent) for t in part.read for a in t.shape_axes]
        key = shape_of(part, self.labels).key, tuple(sizes)
        if key not in self._us and len(self._us) < MOST_PRICED:
            found = other(part.fusion, self.problem)
            self._us[key] = None if found.refusals else found.us
        return self._us.get(key)


def _joined(first: Part, second: Part, kept: Sequence[int]) -> Part:
    """What computes the sinks of the second, and these of the first."""
    graph = first.graph
    made = {t for part in (first, second) for p in part.positions for t in graph.made(p)}
    sinks = tuple(dict.fromkeys((*kept, *second.sinks)))
    outside = {t for p in (*first.positions, *second.positions) for t in graph.sources(p)} - made
    return Part(graph, sinks, graph.slice(sinks, outside), first.formats, first.forms)


def _pairs(alive: Collection[_Kernel], around: Collection[_Kernel]) -> Iterator[Pair]:
    """Pairs of which one is `around`."""
    last: dict[_Kernel, list[_Kernel]] = {}
    for writer in alive:
        for reader in alive:
            if not (writer in around or reader in around) or reader is writer:
                continue
            if writer.writes.isdisjoint(reader.reads):
                continue
            if reader not in last:
                writers = (w for w in alive if not w.writes.isdisjoint(reader.reads))
                last[reader] = [w for w in writers if w is not reader][-MOST_WRITERS:]
            if writer in last[reader]:
                yield writer, reader


def _meets_between(alive: Collection[_Kernel], writer: _Kernel, reader: _Kernel) -> bool:
    """Whether the reader needs another kernel that needs the writer: one cannot be both."""
    kernels = list(alive)
    names = [(kernel.reads, kernel.writes) for kernel in kernels]
    return between(names, kernels.index(writer), kernels.index(reader)) is not None
