"""Segments that differ in nothing but names: layers of a model are planned and compiled once."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields

from warpsmith.ir.domains import IterDomain, Split, Transform
from warpsmith.ir.exprs import Operation, Value
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.ir.tensor import TensorView

Key = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a fusion is without its names.

    Attributes:
        key: equal for fusions that are alike.
        tensors: names of the tensors, in an order that is the same in all fusions that are alike.
        symbols: names of the sizes and scalars, likewise.
    """

    key: Key
    tensors: tuple[str, ...]
    symbols: tuple[str, ...]

    def names(self, other: Shape) -> Mapping[str, str]:
        """By name in the other fusion, which is alike, the name of the same thing in this one."""
        pairs = zip(other.tensors + other.symbols, self.tensors + self.symbols, strict=True)
        return dict(pairs)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A text with the names in it replaced, also where they begin a longer one: `T3_size0`."""
    return re.sub(r"\b([TS]\d+)(?=_|\b)", lambda found: names.get(found[1], found[1]), text)


def shape_of(fusion: Fusion) -> Shape:
    """The shape of a fusion on which no schedule is laid."""
    walk = _Walk()
    inputs = tuple(
        walk.tensor(v) if isinstance(v, TensorView) else walk.scalar(v) for v in fusion.inputs
    )
    operations = tuple(map(walk.operation, fusion.operations))
    outputs = tuple(
        (walk.tensor(o.value), None if o.alias_of is None else walk.tensor(o.alias_of))
        for o in fusion.outputs
    )
    facts = tuple(
        frozenset((walk.scalar(expr), number) for expr, number in known)
        for known in (fusion.divisors, fusion.limits)
    )
    together = tuple(tuple(map(walk.tensor, group)) for group in fusion.together)
    key = (inputs, operations, outputs, facts, together, fusion.follows)
    return Shape(key, tuple(walk.tensors), tuple(walk.symbols))


@dataclass(frozen=True, slots=True)
class _Walk:
    """Numbers tensors, axes and symbols as they come."""

    tensors: dict[str, int] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)
    axes: dict[IterDomain, int] = field(default_factory=dict)

    def tensor(self, tensor: TensorView) -> Key:
        number = self.tensors.get(tensor.name)
        if number is not None:
            return (number,)
        number = self.tensors[tensor.name] = len(self.tensors)
        return (
            number,
            tensor.dtype,
            self._axes(tensor.root),
            self._axes(tensor.logical),
            tuple(map(self._transform, tensor.transforms)),
            tensor.stride_order,
            tensor.contiguity,
        )

    def operation(self, operation: Operation) -> Key:
        values = tuple(map(self._value, operation.inputs))
        outputs = tuple(map(self.tensor, operation.outputs))
        return (type(operation).__name__, _details(operation), values, outputs)

    def scalar(self, expr: Expr) -> Hashable:
        if isinstance(expr, Symbol):
            number = self.symbols.setdefault(expr.name, len(self.symbols))
            extent = None if expr.extent is None else self.scalar(expr.extent)
            return ("symbol", number, expr.dtype, extent, expr.low)
        if isinstance(expr, Apply):
            return (expr.op, expr.dtype, tuple(map(self.scalar, expr.args)))
        return expr

    def _value(self, value: Value) -> Hashable:
        return self.tensor(value) if isinstance(value, TensorView) else self.scalar(value)

    def _axes(self, axes: Iterable[IterDomain]) -> Key:
        return tuple(map(self._axis, axes))

    def _axis(self, axis: IterDomain) -> Key:
        number = self.axes.get(axis)
        if number is not None:
            return (number,)
        origin = None if axis.clone_of is None else self._axis(axis.clone_of)
        number = self.axes[axis] = len(self.axes)
        return (number, self.scalar(axis.extent), axis.kind, origin)

    def _transform(self, transform: Transform) -> Key:
        axes = self._axes((transform.axis, transform.outer, transform.inner))
        if isinstance(transform, Split):
            return ("split", axes, self.scalar(transform.factor), transform.inner_split)
        return ("merge", axes)


_OPERANDS = {"inputs", "output", "outputs", "source", "sources", "a", "b"}
_SCALARS = {"value", "start", "step"}
_WRITTEN = {"arguments"}  # by the user, for printing


def _details(operation: Operation) -> Key:
    """What an operation is besides its operands and results."""
    names = (f.name for f in fields(operation))
    return tuple(getattr(operation, n) for n in names if n not in _OPERANDS | _SCALARS | _WRITTEN)
