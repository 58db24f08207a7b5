"""From the indices of loops to the indices of a tensor's axes.

Given groups of axes whose indices are known, every other group that transforms connect to them can
be computed: split and merge work in both directions. Which transform computes each group is found
by breadth-first search, once for all derivations of a map that know the same groups; index
expressions are built on demand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from functools import cached_property

from warpsmith.ir import integers
from warpsmith.ir.domains import Merge, Split, Transform
from warpsmith.ir.groups import Groups, groups_of
from warpsmith.ir.integers import Facts
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.scalar import Expr
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class _Ways:
    """How groups are computed from some whose indices are known.

    Attributes:
        by: the transform that computes each.
        inexact: on the way to a group, what may run past its end, as far as it was asked for.
    """

    by: dict[Group, Transform]
    inexact: dict[tuple[Group, Facts], tuple[Group, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, domains: DomainMap, known: tuple[Group, ...]) -> _Ways:
        found: _Ways | None = domains.derived.get(known)
        if found is None:
            found = domains.derived[known] = cls(_computed(domains, known))
        return found


def _computed(domains: DomainMap, known: Iterable[Group]) -> dict[Group, Transform]:
    """Which transform computes each group."""
    by: dict[Group, Transform] = {}
    reached = set(known)
    queue = deque(known)
    while queue:
        group = queue.popleft()
        for transform in (*domains.touching(group), *domains.across(group)):
            for target in _given(domains, transform, reached):
                reached.add(target)
                by[target] = transform
                queue.append(target)
    return by


def _given(domains: DomainMap, transform: Transform, reached: set[Group]) -> list[Group]:
    """Groups of a transform that the reached ones determine and that are not reached yet."""
    whole, outer, inner = domains.sides(transform)
    chosen = domains.chosen_for(transform)
    if chosen is not None:
        found = [chosen[0]] if outer in reached else []
        found += [whole] if outer in reached and inner in reached else []
        return [group for group in found if group not in reached]
    if not reached.issuperset(domains.rows_of(transform)):
        return []
    if whole in reached:
        return [group for group in (outer, inner) if group not in reached]
    return [whole] if outer in reached and inner in reached else []


class Derivation:
    """Indices of all groups that follow from the indices of some.

    Args:
        domains: the groups.
        known: index expression of each group that a loop or thread index gives.
    """

    def __init__(self, domains: DomainMap, known: Mapping[Group, Expr]) -> None:
        self._domains = domains
        self._known = known
        self._index: dict[Group, Expr] = dict(known)
        self._inside: dict[Group, Expr] = {}

    def reaches(self, group: Group) -> bool:
        return group in self._index or group in self._by

    def reached(self) -> tuple[Group, ...]:
        """All groups whose index can be had."""
        return (*self._known, *self._by)

    def index(self, group: Group) -> Expr:
        """Index expression of a group that `reaches` says can be had."""
        known = self._index.get(group)
        if known is None:
            known = self._index[group] = self._build(group, self._by[group])
        return known

    def needs(self, group: Group) -> set[Group]:
        """The known groups from which a group that can be had is computed."""
        found: set[Group] = set()
        stack, seen = [group], set()
        while stack:
            current = stack.pop()
            if current in seen:
                continue
            seen.add(current)
            if current in self._known:
                found.add(current)
                continue
            stack += self._sources(current, self._by[current])
        return found

    def inside(self, group: Group) -> Expr:
        """Predicate under which a group's index lies inside its extent."""
        known = self._inside.get(group)
        if known is None:
            known = self._within(group)
            self._inside[group] = known
        return known

    def _within(self, group: Group) -> Expr:
        head, place = self._head(group), self.place(group)
        if head is None:
            return integers.less(place, self._end(group))
        begun = integers.less(head, integers.add(place, 1))
        return integers.conjunction(
            begun, integers.less(place, integers.add(self._end(group), head))
        )

    def ends(self, group: Group) -> Expr:
        """Predicate under which a group's index lies before its end, if not behind its begin."""
        return integers.less(self.index(group), self._end(group))

    def place(self, group: Group) -> Expr:
        """A group's index, counted from the first piece of a row that begins anywhere."""
        head = self._head(group)
        return self.index(group) if head is None else integers.add(self.index(group), head)

    def steps(self, group: Group) -> bool:
        """Whether a group's index has gone on from its first, or that of a row that begins anywhere
        and is several dimensions, of which it is one.
        """
        whole = group
        while self._head(whole) is None:
            transform = None if whole in self._known else self._by.get(whole)
            if not isinstance(transform, Merge) or self._domains.sides(transform)[0] == whole:
                return self.place(group) != integers.ZERO
            whole = self._domains.sides(transform)[0]
        return self.place(whole) != integers.ZERO

    def _head(self, group: Group) -> Expr | None:
        """What stands before a row in the first piece of it; None of what is made by no split of
        rows by where they begin in memory.
        """
        transform = None if group in self._known else self._by.get(group)
        rows = () if transform is None else self._domains.rows_of(transform)
        if transform is None or not rows or self._domains.sides(transform)[0] != group:
            return None
        return self._before(transform, rows)

    def _before(self, transform: Transform, rows: tuple[Group, ...]) -> Expr:
        assert isinstance(transform, Split), "only splits are by where rows begin"
        whole, _, _ = self._domains.sides(transform)
        start: Expr = integers.ZERO
        for counted in rows:
            behind = integers.mul(start, self._domains.extent(counted))
            start = integers.add(behind, self.index(counted))
        return integers.mod(integers.mul(start, self._domains.extent(whole)), transform.grain)

    def worth(self, group: Group) -> Expr:
        """Predicate under which there is anything to do at a group's index: it is inside, and what
        is chosen for a part of rows is so for one that has any.
        """
        transform = None if group in self._known else self._by.get(group)
        groups = None if transform is None else self._groups(transform)
        if transform is not None and groups is not None:
            whole, outer, inner = self._domains.sides(transform)
            if group != whole:
                part, size = self.index(outer), self._domains.extent(inner)
                return integers.less(groups.row(part, size), groups.end(part, size))
        return self.inside(group)

    def _end(self, group: Group) -> Expr:
        """What a group's index is to be below: the end of its rows' group, or its extent."""
        transform = None if group in self._known else self._by.get(group)
        groups = None if transform is None else self._groups(transform)
        if transform is not None and groups is not None:
            whole, outer, inner = self._domains.sides(transform)
            if group == whole:
                return groups.end(self.index(outer), self._domains.extent(inner))
        return self._domains.extent(group)

    @property
    def _by(self) -> dict[Group, Transform]:
        """Which transform computes each group."""
        return self._ways.by

    @cached_property
    def _ways(self) -> _Ways:
        """What is asked is often known without."""
        return _Ways.of(self._domains, tuple(self._known))

    def _sources(self, group: Group, transform: Transform) -> list[Group]:
        """The groups from which a transform computes one."""
        whole, outer, inner = self._domains.sides(transform)
        others = self._domains.rows_of(transform)
        if group == whole:
            return [outer, inner, *others]
        return [whole, *others] if self._domains.chosen_for(transform) is None else [outer]

    def _groups(self, transform: Transform) -> Groups | None:
        chosen = self._domains.chosen_for(transform)
        if chosen is None:
            return None
        whole, _, _ = self._domains.sides(transform)
        return groups_of(chosen[1], *map(self._domains.extent, (chosen[0], whole)))

    def _build(self, group: Group, transform: Transform) -> Expr:
        whole, outer, inner = self._domains.sides(transform)
        groups = self._groups(transform)
        if groups is not None:
            part, size = self.index(outer), self._domains.extent(inner)
            if group != whole:
                return groups.of_part(part, size)
            return integers.add(groups.row(part, size), self.index(inner))
        if isinstance(transform, Merge) and transform.band > 1:
            return self._build_banded(group, transform)
        radix = self._domains.extent(inner)
        rows = self._domains.rows_of(transform)
        if rows:
            head = self._before(transform, rows)
            if group == whole:
                place = integers.add(integers.mul(self.index(outer), radix), self.index(inner))
                return integers.sub(place, head)
            place = integers.add(self.index(whole), head)
            return (integers.floordiv if group == outer else integers.mod)(place, radix)
        if group == whole:
            return integers.add(integers.mul(self.index(outer), radix), self.index(inner))
        if isinstance(transform, Split) and self._domains.extent(outer) == integers.ONE:
            return integers.ZERO if group == outer else self.index(whole)
        if group == outer:
            return integers.floordiv(self.index(whole), radix)
        return integers.mod(self.index(whole), radix)

    def _build_banded(self, group: Group, merge: Merge) -> Expr:
        """An index of axes that are merged in bands, of which the last may be narrower."""
        whole, outer, inner = self._domains.sides(merge)
        rows, columns = map(self._domains.extent, (outer, inner))
        count = integers.mul(merge.band, columns)
        at = self.index(whole) if group != whole else self.index(outer)
        number = integers.floordiv(at, count if group != whole else merge.band)
        first = integers.mul(number, merge.band)
        left = integers.minimum(integers.sub(rows, first), merge.band)
        width: Expr = integers.maximum(left, 1)  # past the end there is none
        if integers.divides(merge.band, rows):
            width = integers.index(merge.band)
        if group == whole:
            start = integers.add(integers.mul(number, count), integers.sub(at, first))
            return integers.add(start, integers.mul(self.index(inner), width))
        place = integers.mod(at, count)
        if group == outer:
            return integers.add(first, integers.mod(place, width))
        return integers.floordiv(place, width)

    def inexact_splits(self, group: Group, facts: Facts) -> tuple[Group, ...]:
        """Groups on the way to `group` whose index may run past their extent.

        Those are the inputs of splits that are not known to divide, met while going from parts to
        the whole. A predicate `index < extent` on each makes `group`'s index valid. A predicate on
        the whole of a split implies the one on its outer part, which is left out.
        """
        if group in self._known:
            return ()
        known = self._ways.inexact.get((group, facts))
        if known is None:
            found: list[Group] = []
            self._collect_inexact(group, facts, found, set())
            known = self._ways.inexact[group, facts] = tuple(found)
        return known

    def _collect_inexact(
        self,
        group: Group,
        facts: Facts,
        found: list[Group],
        seen: set[Group],
    ) -> None:
        if group in seen or group not in self._by:
            return
        seen.add(group)
        transform = self._by[group]
        whole, outer, inner = self._domains.sides(transform)
        chosen = self._domains.chosen_for(transform)
        if chosen is not None and group != whole:
            found.append(group)
            return
        if group != whole:
            self._collect_inexact(whole, facts, found, seen)
            return
        self._collect_inexact(outer, facts, found, seen)
        self._collect_inexact(inner, facts, found, seen)
        if not isinstance(transform, Split) or whole in found:
            return
        if chosen is not None or not self._domains.divides(transform, facts):
            self._drop_implied(outer, found)
            found.append(whole)

    def _drop_implied(self, group: Group, found: list[Group]) -> None:
        for implied in self.outer_parts(group):
            if implied in found:
                found.remove(implied)

    def outer_parts(self, group: Group) -> Iterator[Group]:
        """The group, its outer part, and that one's outer part, and so on: a bound on a whole
        bounds all of them, and where the index of one runs past its end, so does the whole's.
        """
        while True:
            yield group
            transform = self._by.get(group)
            if transform is None:
                return
            whole, outer, _ = self._domains.sides(transform)
            if whole != group or (isinstance(transform, Merge) and transform.band > 1):
                return
            group = outer
