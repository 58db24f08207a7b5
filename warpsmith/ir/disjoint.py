"""Disjoint sets that are joined two by two."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Disjoint(Generic[T]):
    """Things of which some belong together; each set is known by one of its own."""

    def __init__(self, things: Iterable[T] = ()) -> None:
        self._first = {thing: thing for thing in things}

    def __contains__(self, thing: object) -> bool:
        return thing in self._first

    def add(self, thing: T) -> None:
        """A new set of one thing."""
        self._first[thing] = thing

    def find(self, thing: T) -> T:
        """That by which the set of a thing is known."""
        first = self._first
        while first[thing] is not thing:
            first[thing] = first[first[thing]]
            thing = first[thing]
        return thing

    def join(self, one: T, other: T) -> bool:
        """One set of the sets of both, known by what the second was; whether they were two."""
        first, second = self.find(one), self.find(other)
        self._first[first] = second
        return first is not second

    def sets(self) -> list[list[T]]:
        """All sets, things in the order in which they were added, sets in that of their first."""
        groups: dict[T, list[T]] = {}
        for thing in self._first:
            groups.setdefault(self.find(thing), []).append(thing)
        return list(groups.values())
