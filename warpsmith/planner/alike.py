"""Segments that differ in nothing but names: layers of a model are planned and compiled once."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import field, fields
from functools import lru_cache

from warpsmith.ir.domains import IterDomain, Split, Transform
from warpsmith.ir.graph import Graph
from warpsmith.ir.memory_format import MemoryFormat
from warpsmith.ir.part import Part
from warpsmith.ir.reads import Own
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.values import dataclass

Key = tuple[Hashable, ...]


class Label:
    """A value whose hash is known, since it is compared with others again and again."""

    __slots__ = ("_hash", "value")

    def __init__(self, value: Hashable) -> None:
        self.value = value
        self._hash = hash(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        same = isinstance(other, Label) and self._hash == other._hash
        return same and self.value == other.value  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a part of a program is without its names.

    Attributes:
        key: equal for parts that are alike.
        tensors: names of the tensors, in an order that is the same in all parts that are alike.
        symbols: names of the sizes and scalars, likewise.
    """

    key: Label
    tensors: tuple[str, ...]
    symbols: tuple[str, ...]

    def names(self, other: Shape) -> Mapping[str, str]:
        """By name in the other part, which is alike, the name of the same thing in this one."""
        pairs = zip(other.tensors + other.symbols, self.tensors + self.symbols, strict=True)
        return dict(pairs)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A text with the names in it replaced, also where they begin a longer one: `T3_size0`."""
    if all(one == other for one, other in names.items()):
        return text
    return re.sub(r"\b([TS]\d+)(?=_|\b)", lambda found: names.get(found[1], found[1]), text)


@dataclass(frozen=True, slots=True)
class _Named:
    """What a tensor, an operation or a fact is, and the names in it in the order of the label."""

    label: Label
    axes: tuple[IterDomain, ...]
    symbols: tuple[str, ...]


class Labels:
    """The labels of one graph's tensors and operations, each made once.

    Args:
        formats: by number, how tensors lie in memory that lie otherwise than the graph says.
    """

    def __init__(self, graph: Graph, formats: Mapping[int, MemoryFormat]) -> None:
        self._graph = graph
        self._formats = formats
        self._labels: dict[Hashable, Label] = {}
        self._tensors: dict[tuple[int, bool], _Named] = {}
        self._operations: dict[int, _Named] = {}

    def tensor(self, tensor: TensorView, *, given: bool) -> _Named:
        """A tensor of a part; if `given`, without reductions and transforms."""
        key = (tensor.number, given)
        known = self._tensors.get(key)
        if known is None:
            walk = _Walk()
            root = tensor.shape_axes if given else tensor.root
            lying = self._formats.get(tensor.number, tensor)
            value = (
                tensor.dtype,
                walk.together(root),
                None if given else walk.together(tensor.logical),
                () if given else tuple(map(walk.transform, tensor.transforms)),
                lying.stride_order,
                lying.contiguity,
            )
            known = self._tensors[key] = self.named(value, walk)
        return known

    def operation(self, position: int) -> _Named:
        """An operation, but for the tensors that it reads and makes."""
        known = self._operations.get(position)
        if known is None:
            operation, walk = self._graph.operations[position], _Walk()
            values = tuple(
                None if isinstance(v, TensorView) else walk.scalar(v) for v in operation.inputs
            )
            kind = (type(operation).__name__, _details(operation), values, len(operation.outputs))
            known = self._operations[position] = self.named(kind, walk)
        return known

    def named(self, value: Hashable, walk: _Walk) -> _Named:
        found = self._labels.get(value)
        if found is None:
            found = self._labels[value] = Label(value)
        return _Named(found, tuple(walk.axes), tuple(walk.symbols))


def shape_of(part: Part, labels: Labels) -> Shape:
    """The shape of a part of the graph that the labels are of.

    Its key tells, for each tensor, axis and symbol, whether it is one that was met before.
    """
    graph, given = part.graph, part.given
    key: list[Hashable] = []
    tensors: dict[int, int] = {}
    axes: dict[IterDomain, int] = {}
    symbols: dict[str, int] = {}

    def name(named: _Named) -> None:
        key.append(named.label)
        key.extend([axes.setdefault(axis, len(axes)) for axis in named.axes])
        key.extend([symbols.setdefault(symbol, len(symbols)) for symbol in named.symbols])

    def meet(tensor: TensorView) -> None:
        number = tensor.number
        if number in tensors:
            key.append(tensors[number])
            return
        tensors[number] = len(tensors)
        name(labels.tensor(tensor, given=number in given))

    for number in part.reads:
        meet(graph.tensors[number])
    for number, form in part.widened.items():
        key.append(tensors[form])
        meet(graph.tensors[number])
    for scalar in graph.scalars:
        name(_fact(scalar, 0, labels))
    key.append(len(part.positions))
    for position in part.positions:
        name(labels.operation(position))
        operation = graph.operations[position]
        for value in operation.inputs:
            if isinstance(value, TensorView):
                meet(value)
        for output in operation.outputs:
            meet(output)
    for result in part.results:
        key.append(tensors[result.value.number])
        if result.alias_of is not None:
            meet(result.alias_of)
            key.append(result.here)
        if result.place is not None:
            key.append(result.place.dimension)
            meet(result.place.index)
    for facts in part.facts:
        found = (_fact(expr, number, labels) for expr, number in facts)
        numbers = ((each.label, tuple(symbols[s] for s in each.symbols)) for each in found)
        key.append(frozenset(numbers))
    key.append(tuple(tuple(tensors[number] for number in group) for group in part.together))
    key.append(part.follows)
    names = tuple(f"T{number}" for number in tensors)
    return Shape(Label(tuple(key)), names, tuple(symbols))


def _fact(expr: Expr, number: int, labels: Labels) -> _Named:
    walk = _Walk()
    return labels.named((walk.scalar(expr), number), walk)


@dataclass(frozen=True, slots=True)
class _Walk:
    """Puts axes and symbols aside as they come, so that what is left of a value has no names."""

    axes: list[IterDomain] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)

    def together(self, axes: Iterable[IterDomain]) -> Key:
        return tuple(map(self._axis, axes))

    def _axis(self, axis: IterDomain) -> Key:
        self.axes.append(axis)
        origin = None if axis.clone_of is None else self._axis(axis.clone_of)
        return (self.scalar(axis.extent), axis.kind, origin)

    def transform(self, transform: Transform) -> Key:
        axes = self.together((transform.axis, transform.outer, transform.inner))
        if isinstance(transform, Split):
            return ("split", axes, self.scalar(transform.factor), transform.inner_split)
        return ("merge", axes, transform.band)

    def scalar(self, expr: Expr) -> Hashable:
        if isinstance(expr, Symbol) and not isinstance(expr, Own):
            self.symbols.append(expr.name)
            extent = None if expr.extent is None else self.scalar(expr.extent)
            return ("symbol", expr.dtype, extent, expr.low)
        if isinstance(expr, Apply):
            return (expr.op, expr.dtype, tuple(map(self.scalar, expr.args)))
        return expr


_OPERANDS = {
    "inputs",
    "output",
    "outputs",
    "source",
    "sources",
    "a",
    "b",
    "ends",
    "indices",
    "wanted",
}
_SCALARS = {"value", "start", "step", "fill", "places", "insides"}
_WRITTEN = {"arguments"}  # by the user, for printing


def _details(operation: Operation) -> Key:
    """What an operation is besides its operands and results."""
    return tuple([getattr(operation, name) for name in _told(type(operation))])


@lru_cache(maxsize=64)
def _told(kind: type[Operation]) -> tuple[str, ...]:
    names = (each.name for each in fields(kind))
    return tuple(name for name in names if name not in _OPERANDS | _SCALARS | _WRITTEN)
