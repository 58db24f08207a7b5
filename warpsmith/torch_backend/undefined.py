"""Gradients of results that no loss is made of.

Autograd makes tensors of zeros in their place, and backward reads these: of the logits and the
caches that a model gives beside its loss, zeros as large as all of them. Here such gradients stay
undefined, and backward is compiled once more, for zeros that kernels know.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.fx import Graph, GraphModule, Node
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from warpsmith.torch_backend.changes import call
from warpsmith.torch_backend.sizes import hint_of, is_number
from warpsmith.torch_backend.source import Boxed

aten = torch.ops.aten

MOST_SETS = 4
"""Sets of undefined gradients for which a graph is compiled; of others zeros are made first."""


def may_be_undefined(joint: Graph) -> bool:
    """Whether a graph of forward and backward gets several results' gradients, whose sizes are
    numbers, and which lie row by row.
    """
    found = [node.meta["val"] for node in _gradients(joint)]
    return len(found) > 1 and all(
        isinstance(each, Tensor) and all(map(is_number, each.shape)) and each.is_contiguous()
        for each in found
    )


def defined(gradient: Tensor | None, shape: Sequence[int], dtype: Any, device: Any) -> Tensor:
    """A gradient, or zeros for none."""
    return torch.zeros(shape, dtype=dtype, device=device) if gradient is None else gradient


def let_be_undefined(backward: GraphModule) -> None:
    """Let a graph make zeros of gradients that are None, for whoever runs it but `for_undefined`,
    as compiled autograd does. It is changed in place.
    """
    graph = backward.graph
    inputs = graph.find_nodes(op="placeholder")
    for node in _gradients(graph):
        wanted = node.meta["val"]
        told = list(map(hint_of, wanted.shape)), wanted.dtype, wanted.device
        with graph.inserting_after(inputs[-1]):
            known = graph.call_function(defined, (node, *told))
        known.meta["val"] = wanted
        node.replace_all_uses_with(known)
        known.args = (node, *told)
    backward.recompile()


def leave_undefined(run: Callable[..., Any]) -> Callable[..., Any]:
    """A function of AOTAutograd's whose backward gets None for gradients that are undefined."""
    own: Any = None  # the class of its nodes of autograd

    @wraps(run)
    def called(*given: Any) -> Any:
        nonlocal own
        results = run(*given)
        for result in results:
            node = getattr(result, "grad_fn", None)
            if own is None and _is_made_by(node, given, results):
                own = type(node)
            if own is not None and isinstance(node, own):
                node.set_materialize_grads(False)
                break
        return results

    return called


def _is_made_by(node: Any, given: Sequence[Any], results: Sequence[Any]) -> bool:
    """Whether a node of autograd is that of the call which gave these results."""
    if not isinstance(node, BackwardCFunction) or not hasattr(node._forward_cls, "compiled_bw"):
        return False
    if any(getattr(each, "grad_fn", None) is node for each in given):
        return False  # a result that is an argument
    return not any(map(is_traceable_wrapper_subclass, (*given, *results)))


def for_undefined(
    compiled: Callable[[GraphModule, Sequence[Any]], Boxed],
    module: GraphModule,
    example_inputs: Sequence[Any],
) -> Boxed:
    """What runs a backward graph of which some gradients may be None; it is compiled when it is
    called, once for each set of them.
    """
    inputs = module.graph.find_nodes(op="placeholder")
    gradients = {inputs.index(node): node.meta["val"] for node in _gradients(module.graph)}
    made: dict[tuple[int, ...], Boxed] = {}

    def run(args: list[Any]) -> tuple[Any, ...]:
        missing = tuple([place for place in gradients if args[place] is None])
        if missing not in made and len(made) >= MOST_SETS:
            for place in missing:
                like = gradients[place]
                args[place] = defined(None, [*map(hint_of, like.shape)], like.dtype, like.device)
            missing = ()
        if missing not in made:
            left = [each for place, each in enumerate(example_inputs) if place not in missing]
            made[missing] = compiled(_with_zeros(module, missing), left)
        for place in reversed(missing):
            del args[place]
        return made[missing](args)

    run._boxed_call = True  # type: ignore[attr-defined]  # what AOTAutograd looks for
    return run


def _gradients(graph: Graph) -> list[Node]:
    """What a graph gets for gradients of results, by AOTAutograd's names."""
    inputs = graph.find_nodes(op="placeholder")
    return [node for node in inputs if node.name.startswith("tangents_")]


def _with_zeros(module: GraphModule, places: Iterable[int]) -> GraphModule:
    """The graph with zeros, computed where they are read, for some of what it gets."""
    graph = copy.deepcopy(module.graph)
    for known in graph.find_nodes(op="call_function", target=defined):
        known.replace_all_uses_with(known.args[0])
        graph.erase_node(known)
    inputs = graph.find_nodes(op="placeholder")
    for node in [inputs[place] for place in places]:
        wanted = node.meta["val"]
        shape = list(map(hint_of, wanted.shape))
        kind = {"dtype": wanted.dtype, "device": wanted.device}
        with graph.inserting_before(inputs[-1].next):
            node.replace_all_uses_with(call(graph, aten.full.default, shape, 0, **kind))
        graph.erase_node(node)
    return GraphModule(module, graph)
