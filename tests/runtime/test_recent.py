"""Caches that forget: what goes, what counts together, and many threads at once."""

import gc
import random
import weakref
from itertools import count

import pytest

from tests.support.threads import in_threads
from warpsmith import knobs
from warpsmith.runtime import recent
from warpsmith.runtime.recent import Kind, Recent


class Value:
    """Something that weak references can watch."""


def kind_of(limit: int) -> Kind:
    return Kind(lambda knobs: limit)


def test_the_least_recently_used_go_first() -> None:
    cache: Recent[int, str] = Recent(kind_of(4))
    for key in range(4):
        cache.put(key, str(key))
    assert cache.get(0) == "0"
    cache.put(4, "4")
    assert [key for key in range(5) if cache.get(key)] == [0, 2, 3, 4]


def test_a_full_cache_lets_go_of_an_eighth() -> None:
    cache: Recent[int, int] = Recent(kind_of(80))
    for key in range(81):
        cache.put(key, key)
    assert sorted(cache.entries) == list(range(11, 81))


def test_who_lets_go_of_several_is_called_once_they_are_gone() -> None:
    alive: list[int] = []
    watched: list[weakref.ref[Value]] = []
    kind = Kind(lambda knobs: 8, after=lambda: alive.append(sum(w() is not None for w in watched)))
    cache: Recent[int, Value] = Recent(kind)
    for key in range(10):
        value = Value()
        watched.append(weakref.ref(value))
        cache.put(key, value)
    assert alive == [7]  # of nine, the one that was put in among them


def test_what_is_kept_is_listed_by_use() -> None:
    cache: Recent[int, str] = Recent(kind_of(8))
    for key in range(3):
        cache.put(key, f"value {key}")
    cache.get(1)
    cache.put(0, "another")
    assert cache.by_use() == [(2, "value 2"), (1, "value 1"), (0, "value 0")]


def test_a_limit_of_one_keeps_the_last() -> None:
    cache: Recent[int, str] = Recent(kind_of(1))
    for key in range(3):
        cache.put(key, str(key))
        assert list(cache.entries) == [key]


def test_what_is_there_already_stays() -> None:
    cache: Recent[int, str] = Recent(kind_of(4))
    assert cache.put(1, "first") == "first"
    assert cache.put(1, "second") == "first"
    assert (cache.get(1), cache.made) == ("first", 1)


def test_caches_of_one_kind_share_its_limit() -> None:
    kind = kind_of(3)
    old: Recent[int, str] = Recent(kind)
    new: Recent[int, str] = Recent(kind)
    old.put(1, "1")
    for key in range(3):
        new.put(key, str(key))
    assert (len(old), len(new)) == (0, 3)


def test_what_an_object_keeps_goes_with_it() -> None:
    kind = kind_of(100)
    cache: Recent[int, Value] = Recent(kind)
    seen = weakref.ref(cache.put(1, Value()))
    assert kind.held().entries == 1
    del cache
    gc.collect()
    assert seen() is None
    assert kind.held().entries == 0
    other: Recent[int, int] = Recent(kind)
    for key in range(100):  # as many as there is room for, now
        other.put(key, key)
    assert len(other) == 100


def test_what_is_forgotten_dies_and_may_use_the_cache() -> None:
    kind = kind_of(1)
    cache: Recent[int, Value] = Recent(kind)
    counted: list[int] = []
    value = cache.put(1, Value())
    weakref.finalize(value, lambda: counted.append(kind.held().entries))
    del value
    cache.put(2, Value())
    assert counted == [1]


def test_what_dies_while_others_are_let_go_of_may_keep_more() -> None:
    """Allocations start collections of garbage, and what dies then may run any code."""
    kind = kind_of(16)
    cache: Recent[int, int] = Recent(kind)
    others: list[Recent[int, int]] = []
    numbers = count(1000)

    def dies(phase: str, told: object) -> None:
        others[:] = [Recent(kind)]
        cache.put(next(numbers), 0)

    before = gc.get_threshold()
    gc.callbacks.append(dies)
    gc.set_threshold(1)
    try:
        for key in range(200):
            cache.put(key, key)
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(dies)
    assert next(numbers) > 1100
    cache.put(-1, -1)
    assert kind.held().entries <= 17


def test_the_limit_is_that_of_the_knobs_that_hold() -> None:
    cache: Recent[int, int] = Recent(Kind(lambda knobs: knobs.kept_maps))
    with knobs.scope(kept_maps=2):
        for key in range(5):
            cache.put(key, key)
        assert len(cache) == 2
    for key in range(5):
        cache.put(key, key)
    assert len(cache) == 5


def test_what_is_put_in_seldom_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    environment = recent.current
    monkeypatch.setattr(recent, "current", lambda: read.append(1) or environment())
    cache: Recent[int, int] = Recent(Kind(lambda knobs: knobs.kept_maps))
    for key in range(640):
        cache.put(key, key)
    assert len(read) == 10


def test_what_is_said_of_a_kind() -> None:
    kind = Kind(lambda knobs: 2, size=len)
    cache: Recent[int, str] = Recent(kind)
    assert kind.held().hits == 0
    cache.put(1, "one")
    for key in (1, 1, 7):
        cache.get(key)
    cache.put(1, "again")
    cache.put(2, "three")
    cache.put(3, "four")
    held = kind.held()
    assert (held.entries, held.limit, held.bytes) == (2, 2, 9)
    assert (held.hits, held.made, held.dropped) == (2, 3, 1)
    assert kind.held().hits == 2


@pytest.mark.parametrize("limit", [1, 7, 64])
def test_threads_never_see_another_value_or_too_many(limit: int) -> None:
    kind = kind_of(limit)
    caches: list[Recent[int, tuple[int]]] = [Recent(kind) for _ in range(3)]
    wrong: list[object] = []

    def work(seed: int) -> None:
        drawn = random.Random(seed)
        for _ in range(2000):
            cache, key = drawn.choice(caches), drawn.randrange(2 * limit)
            found = cache.get(key) or cache.put(key, (key,))
            if found != (key,):
                wrong.append(found)
            if sum(map(len, caches)) > limit + 16:
                wrong.append("too many")

    in_threads(work, range(16))
    assert not wrong
    held = kind.held()
    assert held.entries <= limit
    assert held.made - held.dropped == held.entries
