"""Compiled graphs as bytes, which another process reads.

Nothing but what runs is written: a region is the nodes that it computes, with the sizes and types
of what they read. Kernels are found again by what they follow from.
"""

from __future__ import annotations

import io
import math
import operator
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.fx import Graph, Node
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.node import map_aggregate, map_arg
from torch.utils._python_dispatch import _disable_current_modes

from warpsmith.ir.exprs import Precision
from warpsmith.knobs import Device, Knobs
from warpsmith.torch_backend.definition import value_of
from warpsmith.torch_backend.program import Program, Recipe
from warpsmith.values import dataclass

_NUMBERS: Mapping[type, tuple[str, type]] = {
    torch.SymInt: ("SymInt", int),
    torch.SymFloat: ("SymFloat", float),
    torch.SymBool: ("SymBool", bool),
}

_KNOWN = ("torch", "warpsmith", operator.__name__, math.__name__, "_operator", "builtins")
"""Modules whose functions do the same in a process with the same versions."""


class NotStored(Exception):
    """What in a graph another process would not find, in words."""


def written(value: object) -> bytes:
    """A value of what this package makes of graphs.

    Raises:
        NotStored: where it holds what cannot be written.
    """
    found = io.BytesIO()
    try:
        with _disable_current_modes():
            _Writer(found, protocol=5).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as failure:
        raise NotStored(str(failure)) from failure
    return found.getvalue()


def read(content: bytes, knobs: Knobs) -> Any:
    """What was written. Whatever is raised, it cannot be read here.

    Args:
        knobs: that hold for its kernels, but for the device, which is as it was.
    """
    with unset_fake_temporarily():
        return _Reader(io.BytesIO(content), knobs).load()


@dataclass(frozen=True, slots=True)
class _Readers:
    """Stands for what whoever reads has of its own."""

    name: str


_MODE, _KNOBS = _Readers("mode"), _Readers("knobs")


class _Writer(pickle.Pickler):
    def persistent_id(self, value: object, /) -> str | None:
        return value.name if type(value) is _Readers else None

    def reducer_override(self, value: Any, /) -> Any:
        if isinstance(value, Program):
            places = [value.recipe.reads.index(node) for node in value.inputs]
            return _program, (_KNOBS, value.knobs.device, value.recipe, places)
        if isinstance(value, Recipe):
            return _recipe, _parts_of(value)
        if isinstance(value, FakeTensor):
            lies = tuple(value.shape), value.stride()
            return _tensor, (_MODE, *lies, value.dtype, value.device)
        if isinstance(value, torch.Tensor) and type(value) is not torch.Tensor:
            raise NotStored(f"a constant is a {type(value).__name__}")
        if type(value) in _NUMBERS:
            name, kind = _NUMBERS[type(value)]
            return _number, (_MODE, name, kind, value.node.expr, value.node.hint)
        if isinstance(value, OpOverload):
            return _operation, (*value._schema.name.split("::"), value._overloadname)
        if isinstance(value, HigherOrderOperator | torch.nn.Module):
            raise NotStored(f"{value} has a graph of its own")
        function = callable(value) and not isinstance(value, type)
        module = getattr(value, "__module__", None) if function else None
        if module is not None and not module.startswith(_KNOWN):
            raise NotStored(f"{module}.{value.__qualname__} is not torch's, and may change")
        return NotImplemented


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, knobs: Knobs) -> None:
        super().__init__(file)
        mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
        self._own = {_MODE.name: mode, _KNOBS.name: knobs}

    def persistent_load(self, name: str, /) -> object:
        return self._own[name]


@dataclass(frozen=True, slots=True)
class _At:
    """The node with this number: what a recipe reads comes first, then what it computes."""

    number: int


def _parts_of(recipe: Recipe) -> tuple[Any, ...]:
    numbers = {node: k for k, node in enumerate((*recipe.reads, *recipe.nodes))}

    def told(given: Any) -> Any:
        return map_arg(given, lambda node: _At(numbers[node]))

    body = [(n.target, told(n.args), told(n.kwargs), value_of(n)) for n in recipe.nodes]
    reads = [value_of(node) for node in recipe.reads]
    results = [numbers[node] for node in recipe.results]
    return reads, body, results, recipe.precision, len(recipe.beside)


def _recipe(
    reads: Sequence[Any],
    body: Sequence[tuple[Any, Any, Any, Any]],
    results: Sequence[int],
    precision: Precision,
    beside: int,
) -> Recipe:
    graph = Graph()
    nodes: list[Node] = []

    def known(value: Any) -> Any:
        return nodes[value.number] if isinstance(value, _At) else value

    for number, value in enumerate(reads):
        nodes.append(graph.placeholder(f"read_{number}"))
        nodes[-1].meta["val"] = value
    for target, args, kwargs, value in body:
        nodes.append(
            graph.call_function(target, map_aggregate(args, known), map_aggregate(kwargs, known))
        )
        nodes[-1].meta["val"] = value
    own, chosen = nodes[len(reads) :], [nodes[number] for number in results]
    return Recipe(tuple(own), tuple(chosen), precision, tuple(nodes[:beside]))


def _program(knobs: Knobs, device: Device, recipe: Recipe, places: Sequence[int]) -> Program:
    own = knobs.replace(device=device)
    return Program(recipe, own, [recipe.reads[place] for place in places])


def _tensor(
    mode: FakeTensorMode,
    shape: Sequence[Any],
    strides: Sequence[Any],
    dtype: torch.dtype,
    device: torch.device,
) -> torch.Tensor:
    with mode:
        return torch.empty_strided(shape, strides, dtype=dtype, device=device)


def _number(mode: FakeTensorMode, name: str, kind: type, expression: Any, hint: Any) -> Any:
    return getattr(torch, name)(SymNode(expression, mode.shape_env, kind, hint))


def _operation(library: str, name: str, overload: str) -> OpOverload:
    packet = getattr(getattr(torch.ops, library), name)
    found: OpOverload = getattr(packet, overload)
    return found
