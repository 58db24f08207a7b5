"""Speed of two trees: what counts as slower, and processes that serve a tree."""

from pathlib import Path

import pytest

from bench.against import Timed, Tree, summary

ROOT = Path(__file__).resolve().parents[2]


def test_the_smaller_time_of_each_side_counts() -> None:
    rows = [
        Timed("norms", "a", "warpsmith", (10.0, 12.0), (11.0, 10.0)),
        Timed("norms", "b", "warpsmith", (10.0, 10.0), (10.5, 10.4)),
    ]
    assert summary(rows) == [
        "norms: 2 rows, 1.0198 of the time before, 1 slower",
        "  1.040  b warpsmith: from 10.0 us",
    ]


def test_a_tree_lists_its_problems_and_says_what_fails() -> None:
    tree = Tree(ROOT, "matmul", "--serve")
    titles = tree.answer()
    assert len(titles) > 5
    assert all(suite == "matmul" for suite, _ in titles)
    with pytest.raises(RuntimeError, match="Error"):  # there is no such problem
        tree.times(len(titles))
    tree.close()
