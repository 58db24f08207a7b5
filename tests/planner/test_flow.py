"""Cheapest cuts of small graphs, also against all cuts that there are."""

import itertools
import random

import pytest

from warpsmith.planner.flow import cheapest_cut


def test_a_chain_is_cut_where_it_is_narrowest() -> None:
    readers = {"a": ["b"], "b": ["c"], "c": []}
    assert cheapest_cut("a", readers, {"c"}, {"a": 4, "b": 2, "c": 4}) == {"b"}


def test_of_equal_cuts_the_farthest_is_taken() -> None:
    readers = {"a": ["b"], "b": ["c"], "c": []}
    assert cheapest_cut("a", readers, {"c"}, dict.fromkeys("abc", 2)) == {"c"}


def test_what_two_need_is_stored_once_before_they_part() -> None:
    readers = {"a": ["b", "c"], "b": [], "c": []}
    assert cheapest_cut("a", readers, {"b", "c"}, dict.fromkeys("abc", 4)) == {"a"}


def test_what_is_free_is_cut_at_the_end() -> None:
    readers = {"a": ["b", "c"], "b": [], "c": []}
    assert cheapest_cut("a", readers, {"b", "c"}, {"a": 4, "b": 0, "c": 0}) == {"b", "c"}


@pytest.mark.parametrize("seed", range(40))
def test_no_cut_is_cheaper(seed: int) -> None:
    draw = random.Random(seed)
    nodes = list(range(draw.randint(2, 7)))
    readers = {n: [m for m in nodes if m > n and draw.random() < 0.5] for n in nodes}
    reached = {0} | {m for n in nodes for m in readers[n]}
    needed = {n for n in nodes if n in reached and (draw.random() < 0.4 or not readers[n])}
    cost = {n: draw.randint(0, 5) for n in nodes}

    def parts(cut: set[int]) -> bool:
        pending, seen = [0], set()
        while pending:
            node = pending.pop()
            if node in seen or node in cut:
                continue
            seen.add(node)
            pending += readers[node]
        return not seen & needed

    found = cheapest_cut(0, readers, needed, cost)
    assert parts(set(found))
    every = (set(c) for size in range(len(nodes) + 1) for c in itertools.combinations(nodes, size))
    assert sum(cost[n] for n in found) == min(sum(cost[n] for n in c) for c in every if parts(c))
