"""All that is reached from some things by steps."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def reached(start: Iterable[T], after: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """These things, and what comes after each that is reached, each once, as they are found."""
    seen = dict.fromkeys(start)
    pending = list(seen)
    while pending:
        found = pending.pop()
        yield found
        fresh = [each for each in dict.fromkeys(after(found)) if each not in seen]
        seen.update(dict.fromkeys(fresh))
        pending += fresh
