"""When regions run that read what their graph gets alone."""

from typing import Any

import pytest
import torch
from torch.fx import Graph, Node

from warpsmith.torch_backend import sinking as module
from warpsmith.torch_backend.sinking import sink
from warpsmith.torch_backend.source import Step


def node(graph: Graph, name: str, rows: int, *reads: Node, op: Any = torch.relu) -> Node:
    made = graph.call_function(op, reads) if reads else graph.placeholder(name)
    made.meta["val"] = torch.empty(rows, 8)
    return made


@pytest.mark.parametrize("lets_go", [False, True])
@pytest.mark.parametrize("saved", [1, 50])
@pytest.mark.parametrize("leaves", [False, True])
def test_a_region_waits_where_that_takes_less_memory(
    monkeypatch: pytest.MonkeyPatch, lets_go: bool, saved: int, leaves: bool
) -> None:
    monkeypatch.setattr(module, "_LETS_GO", lets_go)
    graph = Graph()
    slopes, kept = node(graph, "tangents_1", 100), node(graph, "view_3", saved)
    weight = node(graph, "primals_1", 1000)
    product = node(graph, "mm", 100, slopes, kept, weight)
    view = graph.call_function(torch.ops.aten.permute.default, (product, [1, 0]))
    view.meta["val"] = product.meta["val"].t()
    other = node(graph, "other", 10, slopes)
    last = node(graph, "last", 10, view, other)
    made = [
        (3, Step((product,), print, (slopes, kept, weight), {}, single=False)),
        (4, Step.of(view)),
        (5, Step((other,), print, (slopes,), {}, single=False)),
        (6, Step.of(last)),
    ]
    places = [place for place, _ in sink(made, [last, view] if leaves else [last])]
    # Waiting, it keeps what was saved, and where autograd lets go of it, too, the other gradient.
    waits = not leaves and not lets_go
    assert places == [6 if waits else 3, 4, 5 if lets_go else 6, 6]


def test_it_does_not_wait_where_it_keeps_as_much_as_it_makes() -> None:
    graph = Graph()
    kept = node(graph, "view_3", 100)
    made = node(graph, "mm", 100, kept)
    last = node(graph, "last", 10, made)
    steps = [(1, Step((made,), print, (kept,), {}, single=False)), (2, Step.of(last))]
    assert sink(steps, [last]) == steps


def test_what_reads_more_than_the_graph_gets_keeps_its_place() -> None:
    graph = Graph()
    given = node(graph, "primals_1", 100)
    first = node(graph, "first", 1, given)
    made = node(graph, "mm", 100, first)
    last = node(graph, "last", 10, made)
    steps = [
        (1, Step.of(first)),
        (2, Step((made,), print, (first,), {}, single=False)),
        (3, Step.of(last)),
    ]
    assert sink(steps, [last]) == steps
