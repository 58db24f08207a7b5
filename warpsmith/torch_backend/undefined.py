"""Gradients of results that no loss is made of.

Autograd makes tensors of zeros in their place, and backward reads these: of the logits and the
caches that a model gives beside its loss, zeros as large as all of them. Here such gradients stay
undefined, and backward is compiled once more, for zeros that kernels know.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.fx import Graph, GraphModule, Node, Proxy
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from warpsmith.torch_backend.changes import call
from warpsmith.torch_backend.sizes import hint_of, is_number
from warpsmith.torch_backend.source import Boxed

aten = torch.ops.aten

Places = tuple[int, ...]
"""Which inputs of a graph are None, in order."""

Like = tuple[list[int], torch.dtype, torch.device]
"""What zeros in the place of a gradient are like: their shape, type and device."""

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
    """A gradient, or zeros for none. Where a graph is traced again, as one that is read from disk
    is, it is a call in that graph, too.
    """
    if isinstance(gradient, Proxy):
        told = gradient, list(shape), dtype, device
        made: Tensor = gradient.tracer.create_proxy("call_function", defined, told, {})
        return made
    return torch.zeros(shape, dtype=dtype, device=device) if gradient is None else gradient


def let_be_undefined(backward: GraphModule) -> None:
    """Let a graph make zeros of gradients that are None, for whoever runs it but `for_undefined`,
    as compiled autograd does. It is changed in place.
    """
    graph = backward.graph
    inputs = graph.find_nodes(op="placeholder")
    for node in _gradients(graph):
        told = _like(node)
        with graph.inserting_after(inputs[-1]):
            known = graph.call_function(defined, (node, *told))
        known.meta["val"] = node.meta["val"]
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


def gradients_of(backward: Graph) -> dict[int, Like]:
    """What a graph gets for gradients of results, by AOTAutograd's names, by their places among its
    inputs.
    """
    inputs = backward.find_nodes(op="placeholder")
    return {inputs.index(node): _like(node) for node in _gradients(backward)}


def likely(gradients: Mapping[int, Like]) -> Iterator[Places]:
    """Sets of undefined gradients that a call will have: none, or all but those of losses, which
    are numbers; of results without one all but the first.
    """
    yield ()
    losses = [place for place, (shape, *_) in gradients.items() if not shape]
    kept = losses or list(gradients)[:1]
    if missing := tuple([place for place in gradients if place not in kept]):
        yield missing


def for_undefined(
    gradients: Mapping[int, Like],
    compiled: Callable[[Places], Boxed],
    known: Collection[Places] | None = None,
) -> Boxed:
    """What runs a backward graph of which some gradients may be None.

    Args:
        compiled: what runs it for gradients that are None, asked for when they are met first.
        known: all sets of these for which that can be had; None where it is compiled for any.
    """
    made: dict[Places, Boxed] = {}

    def run(args: list[Any]) -> tuple[Any, ...]:
        missing = tuple([place for place in gradients if args[place] is None])
        if missing not in made and (
            len(made) >= MOST_SETS or (known is not None and missing not in known)
        ):
            for place in missing:
                args[place] = defined(None, *gradients[place])
            missing = ()
        if missing not in made:
            made[missing] = compiled(missing)
        for place in reversed(missing):
            del args[place]
        return made[missing](args)

    run._boxed_call = True  # type: ignore[attr-defined]  # what AOTAutograd looks for
    return run


def without(
    backward: GraphModule, inputs: Sequence[Any], missing: Places
) -> tuple[GraphModule, list[Any]]:
    """A graph that makes zeros of some gradients itself, and its inputs."""
    left = [each for place, each in enumerate(inputs) if place not in missing]
    return _with_zeros(backward, missing), left


def _gradients(graph: Graph) -> list[Node]:
    inputs = graph.find_nodes(op="placeholder")
    return [node for node in inputs if node.name.startswith("tangents_")]


def _like(node: Node) -> Like:
    wanted = node.meta["val"]
    return list(map(hint_of, wanted.shape)), wanted.dtype, wanted.device


def _with_zeros(module: GraphModule, places: Iterable[int]) -> GraphModule:
    """The graph with zeros, computed where they are read, for some of what it gets."""
    graph = copy.deepcopy(module.graph)
    for known in graph.find_nodes(op="call_function", target=defined):
        known.replace_all_uses_with(known.args[0])
        graph.erase_node(known)
    inputs = graph.find_nodes(op="placeholder")
    for node in [inputs[place] for place in places]:
        shape, dtype, device = _like(node)
        kind = {"dtype": dtype, "device": device}
        with graph.inserting_before(inputs[-1].next):
            node.replace_all_uses_with(call(graph, aten.full.default, shape, 0, **kind))
        graph.erase_node(node)
    return GraphModule(module, graph)
