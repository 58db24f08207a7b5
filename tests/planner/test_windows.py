"""What windows give is stored where sums are made of it, and results without these."""

import pytest

from warpsmith import DataType, FusionDefinition, ops
from warpsmith.ir import integers
from warpsmith.ir.graph import Graph
from warpsmith.ir.reads import WINDOW, at
from warpsmith.ops.reading import read
from warpsmith.planner.windows import of_windows


@pytest.mark.parametrize(("again", "count"), [(True, 1), (False, 0)])
def test_windows_that_are_summed_and_needed_again_are_stored(again: bool, count: int) -> None:
    """In 16 bits, where they are."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([64, 32], True, DataType.Half)
        y = fd.define_tensor([64, 32], True, DataType.Float)
        windows = read(WINDOW, [(x, [at(0), at(1)], integers.TRUE)], x.root)
        rounded = ops.cast(ops.add(windows, windows), DataType.Half)
        product = ops.mul(ops.cast(rounded, DataType.Float), y)
        total = ops.sum(product, [1], keepdim=True)
        fd.add_output(ops.sub(product, total) if again else total)
    graph = Graph.of(fd.fusion)
    found = of_windows(graph, graph.needed, graph.results, ())
    assert found == [rounded.number] * count
    assert not of_windows(graph, graph.needed, graph.results, {rounded.number, windows.number})
