"""Lengths of a scan, and which of them take longer than a longer one."""

from itertools import pairwise

from bench.scan import lengths, slower


def test_lengths_come_from_all_parts_of_the_range():
    found = lengths(400, 8, seed=3)
    assert len(found) == 400
    assert found == sorted(found)
    assert all(length % 8 == 0 for length in found)
    assert max(b - a for a, b in pairwise(found)) < 3 * (40000 - 512) / 400
    assert found != lengths(400, 8, seed=4)


def test_a_length_is_held_against_the_fastest_longer_one():
    times = [(8, 5.0), (16, 4.0), (24, 6.0), (32, 5.5), (40, 5.5)]
    assert slower(times) == [(8, 16, 1.25), (24, 32, 6 / 5.5)]
    assert slower([(8, 1.0), (16, 2.0)]) == []
