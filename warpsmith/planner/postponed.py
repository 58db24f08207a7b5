"""Operations that wait for the region of what reads them.

What a region computes for later ones alone is stored, and read again. Where the later one rather
reads what it is made of, no more bytes are moved: a sum of two gradients that only a later norm
reads, a gate that is made of a part of a product, what a forward pass saved in few bytes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from warpsmith.ir.disjoint import Disjoint
from warpsmith.ir.exprs import Move, Pointwise
from warpsmith.ir.graph import Graph
from warpsmith.ir.reads import Read
from warpsmith.planner.crossing import Crossing, enlarges
from warpsmith.values import dataclass


def postponed(
    graph: Graph,
    last: Mapping[int, int],
    taken: Container[int],
    crossing: Crossing,
) -> dict[int, int]:
    """By position of each operation that no product's kernel takes, the number of its region.

    It is that of the last product that it depends on, or a later one, where all that read its
    result are in later regions, and these move no more bytes so.

    Args:
        last: by position of an operation, the number of the last product that it depends on.
        taken: positions of the operations that kernels of products take.
        crossing: says in which form a tensor is stored.
    """
    numbers = {position: number for position, number in last.items() if position not in taken}
    regions: dict[int, list[int]] = {}
    for position in sorted(numbers):
        regions.setdefault(numbers[position], []).append(position)
    for number in sorted(regions, reverse=True):
        region = _Region(graph, last, numbers, number, regions[number], crossing)
        stay: set[int] = set()
        while True:
            later = region.later(stay)
            groups = region.together(later)
            costly = [p for group in groups if not region.is_worth(group, later) for p in group]
            if not costly:
                break
            stay.update(costly)
        numbers |= later
    return numbers


@dataclass(frozen=True, slots=True)
class _Region:
    """The operations of one number, of which some may wait.

    Attributes:
        numbers: by position of an operation, that of its region so far.
    """

    graph: Graph
    last: Mapping[int, int]
    numbers: Mapping[int, int]
    number: int
    positions: Sequence[int]
    crossing: Crossing

    def later(self, stay: Container[int]) -> dict[int, int]:
        """The numbers to which operations may be postponed, but those that stay."""
        graph, found = self.graph, dict[int, int]()
        for position in reversed(self.positions):
            operation, made = graph.operations[position], graph.made(position)
            kinds = isinstance(operation, Pointwise | Move | Read)
            if position in stay or not kinds or graph.results.intersection(made):
                continue
            readers = self._readers(made)
            wanted = [found.get(r, self.numbers.get(r, self.number)) for r in readers]
            if wanted and min(wanted) > self.number:
                found[position] = min(wanted)
        return found

    def together(self, later: Mapping[int, int]) -> list[set[int]]:
        """Those of them that pass each other something, or read the same, in one later region."""
        graph, found = self.graph, Disjoint[int]()
        known: dict[tuple[int, int], int] = {}
        for position in sorted(later):
            found.add(position)
            for tensor in (*graph.sources(position), *graph.made(position)):
                found.join(position, known.setdefault((tensor, later[position]), position))
        return [*map(set, found.sets())]

    def is_worth(self, group: set[int], later: Mapping[int, int]) -> bool:
        """Whether no more bytes are moved where all of a group wait, by what an element has."""
        graph, region = self.graph, later[next(iter(group))]
        made = {number for position in group for number in graph.made(position)}
        kept = waits = 0
        whole: set[int] = set()
        for number in made:
            outside = {later.get(r, self.numbers[r]) for r in self._readers([number]) - group}
            stored = made.intersection(self.crossing.stored(number)) if outside else set[int]()
            kept += sum((2 if outside == {region} else 1) * self._bytes(n) for n in stored - whole)
            whole |= stored
        read: dict[int, bool] = {}
        for position in sorted(group, reverse=True):
            operation = graph.operations[position]
            widens = isinstance(operation, Move) and enlarges(operation)
            if not widens and not whole.isdisjoint(graph.made(position)):
                whole.update(graph.sources(position))
                elsewhere = isinstance(operation, Read)
                read |= {t: elsewhere for t in graph.sources(position) if t not in made}
        for number, elsewhere in read.items():
            others = self._readers([number]) - group
            maker = graph.maker.get(number)
            computed = maker is not None and self.numbers.get(maker) == self.number
            if computed and number not in graph.results:
                waits += 2 * self._bytes(number)
                continue
            if elsewhere or region not in {later.get(r, self.numbers.get(r)) for r in others}:
                waits += self._bytes(number)
            if elsewhere or self.number not in {self.numbers.get(r) for r in others}:
                kept += self._bytes(number)
        return waits <= kept

    def _readers(self, numbers: Iterable[int]) -> frozenset[int]:
        found = (r for number in numbers for r in self.graph.readers.get(number, ()))
        return frozenset(r for r in found if r in self.last)

    def _bytes(self, number: int) -> int:
        """Of an element, as it is stored."""
        return self.graph.tensors[self.crossing.forms.get(number, number)].dtype.size
