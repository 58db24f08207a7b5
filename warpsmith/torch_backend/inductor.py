"""Stretches of a graph that Inductor compiles for torch: `options={"fallback": "inductor"}`."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from warpsmith.errors import TorchCompileWarning
from warpsmith.torch_backend.definition import tensors_of, value_of
from warpsmith.torch_backend.levels import has_effects
from warpsmith.torch_backend.source import Step
from warpsmith.torch_backend.writes import writes


def with_inductor(steps: Sequence[Step], results: Iterable[Any]) -> list[Step]:
    """Steps in which each stretch of operations of torch is one call of Inductor's.

    Random numbers stay torch's, in torch's order, and views are no work of Inductor's.
    """
    stretches = [list(found) for _, found in groupby(steps, key=_takes)]
    read = {node for node in results if isinstance(node, Node)}
    made: list[Step] = []
    for number, stretch in enumerate(stretches):
        later = read | {n for other in stretches[number + 1 :] for s in other for n in s.reads()}
        nodes = [node for step in stretch for node in step.results]
        leaving = [node for node in nodes if node in later]
        whole = all(isinstance(value_of(node), torch.Tensor) for node in leaving)
        if whole and _takes(stretch[0]) and any(_computes(node) for node in nodes):
            made += _compiled(stretch, nodes, leaving)
        else:
            made += stretch
    return made


def _takes(step: Step) -> bool:
    (first, *_) = step.results or (None,)
    known = step.function is operator.getitem or isinstance(step.function, torch._ops.OpOverload)
    if not step.single or first is None or not known or writes(first):
        return False
    return bool(tensors_of(first)) and not has_effects(first)


def _computes(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and not node.target.is_view


def _compiled(
    stretch: Sequence[Step], nodes: Sequence[Node], results: Sequence[Node]
) -> Iterator[Step]:
    """The call of a stretch; its steps as they are where Inductor fails."""
    own = set(nodes)
    inputs = [n for n in dict.fromkeys(n for s in stretch for n in s.reads()) if n not in own]
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in results))
    try:
        from torch._inductor.compile_fx import compile_fx_inner

        values = [value_of(node) for node in inputs]
        run = compile_fx_inner(GraphModule(torch.nn.Module(), graph), values)
    except Exception as failure:  # whatever it is, torch can run the stretch
        warnings.warn(
            f"[WS0372] Inductor cannot compile {len(nodes)} operations, which torch runs as they "
            f"are: {failure}",
            TorchCompileWarning,
            stacklevel=2,
        )
        yield from stretch
        return

    yield Step(tuple(results), run, tuple(inputs), {}, single=False)
