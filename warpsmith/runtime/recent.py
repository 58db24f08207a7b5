"""What is kept of earlier calls: bounded, the least recently used goes first.

All that is kept of one kind, by whichever objects, counts towards one limit of the process. What an
object keeps goes with it.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, Generic, TypeVar

from warpsmith.knobs import Knobs, current, scoped
from warpsmith.locks import ProcessLock
from warpsmith.values import dataclass

K = TypeVar("K")
V = TypeVar("V")

_SHARE = 8
"""A full kind lets go of one in so many at a time, so that few of those that come pay for it."""

_LOOK_EVERY = 64
"""Values that are put in between two looks at the environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What is held of one kind now, and what became of it since the process began.

    Attributes:
        entries, limit: how many are kept, and how many at most.
        bytes: that they take; None where nobody counts.
        hits, made, dropped: look-ups that found one; how many were put in, and let go of again.
    """

    entries: int
    limit: int
    bytes: int | None
    hits: int
    made: int
    dropped: int


class Kind:
    """Everything of one kind that the process keeps.

    Args:
        limit: how many are kept, by the knobs that hold where one more is put in.
        size: bytes of a value, for those who ask.
        after: called once several were let go of, with no lock held.
    """

    def __init__(
        self,
        limit: Callable[[Knobs], int],
        size: Callable[[Any], int] | None = None,
        after: Callable[[], None] | None = None,
    ) -> None:
        self._limit = limit
        self._size = size
        self._after = after
        self._lock = ProcessLock()
        self._caches: set[weakref.ref[Recent[Any, Any]]] = set()
        # Every look-up that finds something draws a number, and so does what is put in.
        self.ticks = count()
        self._drawn_otherwise = 0
        self._entries = 0
        self._left: deque[int] = deque()  # entries of caches that are no more
        self._outside: int | None = None
        self._made = 0
        self._dropped = 0

    def held(self) -> Held:
        """A snapshot."""
        limit = self._limit(current())
        with self._lock.own:
            self._drawn_otherwise += 1
            hits = next(self.ticks) + 1 - self._drawn_otherwise
            values = [entry[0] for entry, _, _ in self._every()]
            made, dropped = self._made, self._dropped
        size = None if self._size is None else sum(map(self._size, values))
        return Held(
            entries=len(values), limit=limit, bytes=size, hits=hits, made=made, dropped=dropped
        )

    def join(self, cache: Recent[Any, Any]) -> None:
        """Count what this cache keeps."""
        with self._lock.own:
            self._caches.add(weakref.ref(cache, self._caches.discard))

    def leave(self, entries: int) -> None:
        """Count what a cache kept no more. Takes no lock: a cache may die anywhere."""
        self._left.append(entries)

    def put(self, cache: Recent[K, V], key: K, value: V) -> V:
        """What the cache keeps under the key from now on: what is there already, or this value."""
        limit = self._limit_now()
        gone: list[Any] = []  # dies after the lock is given back: what dies may run any code
        with self._lock.own:
            self._drawn_otherwise += 1
            found = cache.entries.get(key)
            if found is not None:
                found[1] = next(self.ticks)
                return found[0]  # type: ignore[no-any-return]
            cache.entries[key] = [value, next(self.ticks)]
            self._made += 1
            cache.made += 1
            self._entries += 1
            while self._left:
                self._entries -= self._left.popleft()
            if self._entries > limit:
                self._let_go(limit - limit // _SHARE, gone)
        if gone and self._after is not None:
            gone.clear()
            self._after()
        return value

    def _limit_now(self) -> int:
        """The limit; the environment, which takes long to read, is looked at now and then."""
        inside = scoped()
        if inside is not None:
            return self._limit(inside)
        if self._outside is None or self._made % _LOOK_EVERY == 0:
            self._outside = self._limit(current())
        return self._outside

    def _let_go(self, wanted: int, gone: list[Any]) -> None:
        """Keep the `wanted` that were used last."""
        every = self._every()
        every.sort(key=lambda each: each[0][1])
        for _, key, cache in every[: max(len(every) - wanted, 0)]:
            entry = cache.entries.pop(key, None)
            if entry is not None:
                gone.append(entry)
        self._dropped += len(gone)
        # Counted anew, since caches may have died meanwhile.
        self._left.clear()
        self._entries = len(every) - len(gone)

    def _every(self) -> list[tuple[list[Any], Any, Recent[Any, Any]]]:
        """Each entry, with its key and its cache.

        Of copies: whatever is allocated here may let something die that keeps one more.
        """
        alive = [cache for each in self._caches.copy() if (cache := each()) is not None]
        return [
            (entry, key, cache) for cache in alive for key, entry in cache.entries.copy().items()
        ]


class Recent(Generic[K, V]):
    """A dictionary that forgets; values are not None. Safe to share between threads.

    A look-up takes no lock: it reads a dictionary and notes that the entry was used.
    """

    __slots__ = ("__weakref__", "_kind", "_tick", "entries", "made")

    def __init__(self, kind: Kind) -> None:
        self.entries: dict[K, list[Any]] = {}
        """By key: the value, and the number of its last use."""
        self.made = 0
        """How many values were put in, those forgotten included."""
        self._kind = kind
        self._tick = kind.ticks.__next__
        kind.join(self)

    def get(self, key: K) -> V | None:
        """The value under a key, or None."""
        entry = self.entries.get(key)
        if entry is None:
            return None
        entry[1] = self._tick()
        return entry[0]  # type: ignore[no-any-return]

    def put(self, key: K, value: V) -> V:
        """Keep a value, unless another thread was faster: returns what is kept."""
        return self._kind.put(self, key, value)

    def by_use(self) -> list[tuple[K, V]]:
        """What is kept, what was used last behind the others."""
        entries = sorted(self.entries.copy().items(), key=lambda each: each[1][1])
        return [(key, value) for key, (value, _) in entries]

    def __del__(self) -> None:
        self._kind.leave(len(self.entries))

    def __len__(self) -> int:
        return len(self.entries)
