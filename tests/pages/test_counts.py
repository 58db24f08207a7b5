"""The page about ordering shows how often ordering runs for a tile of the scheduler's product."""

from pathlib import Path

from pages import counts
from warpsmith.kernel.nodes import Synchronize
from warpsmith.kernel.products import Multiply
from warpsmith.kernel.traversal import walk

PAGE = (Path(__file__).parents[2] / "docs" / "ordering.md").read_text()


def test_the_table_of_the_page_is_that_of_the_kernel() -> None:
    assert counts.written(PAGE) == PAGE


def test_steps_are_counted_as_often_as_they_run() -> None:
    """64 steps over k, each with one fence, one commit, one wait in each role; 8 chunks."""
    kernel, values = counts.product_kernel()
    found = counts.counts(kernel, values)
    products = sum(isinstance(s, Multiply) for s in walk(kernel.body))
    chunks = sum(isinstance(s, Synchronize) for s in walk(kernel.body)) - 1  # that of the start
    assert (products, chunks) == (1, 1)  # in loops
    assert found["`wgmma.fence`"] == found["`wgmma.commit_group`"] == 64
    assert found["waits at mbarriers"] == 2 * 64
    assert found["arrivals at mbarriers"] == 64 + 8 * 64
    assert found["barriers of the threads that compute"] == found["proxy fences"] == 8
