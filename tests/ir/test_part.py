"""Parts of a graph as programs of their own."""

import numpy as np
import pytest

import warpsmith
from warpsmith.errors import InternalError
from warpsmith.ir.graph import Graph
from warpsmith.ir.part import Part


def test_no_part_reads_the_narrow_form_that_it_writes() -> None:
    """Its operations would wait for each other."""
    half = np.ones(4, np.float16)
    graph = Graph.of(warpsmith.fuse(lambda x: x + x).lower(half).fusion)
    value, form = graph.sources(graph.needed[-1])[0], graph.outputs[0]
    forms = {value: form}
    whole = Part(graph, (form,), graph.needed, forms=forms)
    assert [tensor.number for tensor in whole.draft().computed][-1] == form
    with pytest.raises(InternalError, match="of those that it writes"):
        Part(graph, (form,), graph.needed[-1:], forms=forms).draft()
