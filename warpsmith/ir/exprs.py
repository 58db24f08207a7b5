"""Operations on tensors.

Every operation says how its output's root axes relate to its inputs' axes (`pairs`); all of
lowering's index arithmetic follows from these pairs and the tensors' transforms. Permute,
broadcast, squeeze, expand and reshape therefore need no code of their own below this form: they
are `Move`s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, Literal

from warpsmith.ir.carry import Carry, moments, simple
from warpsmith.ir.domains import IterDomain, Split
from warpsmith.ir.reads import Read, Search
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import OneResult, Operation, Pair, TensorView, Value
from warpsmith.values import dataclass

Precision = Literal["exact", "tf32", "fast"]
"""What a product may give up: nothing, bits of Float operands beyond TF32's 11, or bits of sums of
8-bit floats."""

OF_GROUP = -1
"""In a grouped product, the place of the dimension that the group of a row chooses from."""


def _positional(source: TensorView, target: TensorView) -> tuple[Pair, ...]:
    return tuple(zip(source.shape_axes, target.root, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Pointwise(OneResult):
    """`output[i] = op(inputs[i]...)`; tensors have the output's rank, broadcast axes included.

    `op` is a name of `ops/table`, or `cast`, or `set` (a copy).
    """

    op: str
    inputs: tuple[Value, ...]
    output: TensorView

    def pairs(self, source: TensorView) -> tuple[Pair, ...]:
        return _positional(source, self.output)


def made_by(value: object, *ops: str) -> Pointwise | None:
    """The operation of one of these names that makes a value; None where none does."""
    made = value.definition if isinstance(value, TensorView) else None
    return made if isinstance(made, Pointwise) and made.op in ops else None


@dataclass(frozen=True, slots=True, eq=False)
class Move(OneResult):
    """A copy that renames axes.

    `kind` is `permute`, `broadcast`, `broadcast_in_dim`, `expand`, `squeeze`, `reshape`,
    `repeat_interleave` or `tiles`, whose last tile has anything past the end. `origin[k]` is the
    input dimension that root axis `k` of the output comes from, None for a new broadcast axis.
    `arguments` are what the user wrote, for printing; of `repeat_interleave`, how often elements of
    each axis are repeated, and its extent. Those come from the outer part of the axis, by its first
    split.
    """

    kind: str
    source: TensorView
    output: TensorView
    origin: tuple[int | None, ...]
    arguments: tuple[object, ...] = field(default=())

    @property
    def inputs(self) -> tuple[Value, ...]:
        return (self.source,)

    def pairs(self, source: TensorView) -> tuple[Pair, ...]:
        axes = source.shape_axes
        parts = self.repeated_parts
        return tuple(
            (axes[dim], parts.get(axis, axis))
            for axis, dim in zip(self.output.root, self.origin, strict=True)
            if dim is not None
        )

    @property
    def repeated_parts(self) -> dict[IterDomain, IterDomain]:
        """By root axis along which elements are repeated, the part of it that tells which."""
        times = zip(self.output.root, self.repeats, strict=False)
        repeated = {axis for axis, number in times if number > 1}
        parts: dict[IterDomain, IterDomain] = {}
        for transform in self.output.transforms:
            if isinstance(transform, Split) and transform.axis in repeated:
                parts.setdefault(transform.axis, transform.outer)
        return parts

    @property
    def tiles(self) -> tuple[int, int]:
        """Of `tiles`, which dimension is divided, and how many elements a tile has."""
        place, size = self.arguments
        assert isinstance(place, int)
        assert isinstance(size, int)
        return place, size

    @property
    def repeats(self) -> tuple[int, ...]:
        """Of `repeat_interleave`, how often elements of each axis are repeated; else nothing."""
        if self.kind != "repeat_interleave":
            return ()
        times, _ = self.arguments
        assert isinstance(times, tuple)
        return times


class _OfStates:
    """An operation that joins states, each of several values."""

    __slots__ = ()

    sources: tuple[Value, ...]
    outputs: tuple[TensorView, ...]

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.sources

    @property
    def output(self) -> TensorView:
        """The first result."""
        return self.outputs[0]

    def pairs(self, source: TensorView) -> tuple[Pair, ...]:
        return _positional(source, self.output)


@dataclass(frozen=True, slots=True, eq=False)
class Reduction(_OfStates):
    """States of all elements along the outputs' reduction axes, joined by a rule.

    `sources` are the values of an element's state, one for each of the outputs, or of a part's
    state where a reduction was cut in two; constants are the same for all elements. Outputs share
    their axes position by position.
    """

    carry: Carry
    sources: tuple[Value, ...]
    outputs: tuple[TensorView, ...]

    @property
    def op(self) -> str:
        """sum, prod, max or min; empty for other rules."""
        return self.carry.name if self.carry.is_simple else ""

    @property
    def source(self) -> TensorView:
        """The first tensor of the sources, whose axes all of them have."""
        return next(value for value in self.sources if isinstance(value, TensorView))

    @property
    def is_moments(self) -> bool:
        """Whether it gives mean, sum of squared distances to it, and count."""
        return self.carry == moments(self.output.dtype)

    @property
    def counts_elements(self) -> bool:
        """Whether it takes moments of single elements, which may share a count."""
        return self.is_moments and not isinstance(self.sources[-1], TensorView)


@dataclass(frozen=True, slots=True, eq=False)
class Scan(_OfStates):
    """Along one dimension, the state of all elements up to each, joined by a rule.

    Sources and outputs are as a reduction's, and all have one shape.

    Attributes:
        dim: of the outputs' root.
        exclusive: the element itself is left out; the first result is the state of nothing.
        reverse: elements behind each are joined instead of those before it.
    """

    carry: Carry
    sources: tuple[Value, ...]
    outputs: tuple[TensorView, ...]
    dim: int
    exclusive: bool = False
    reverse: bool = False


def takes_moments(operation: Operation | None) -> bool:
    """Whether an operation is a reduction that gives moments."""
    return isinstance(operation, Reduction) and operation.is_moments


def reduction(op: str, source: TensorView, output: TensorView) -> Reduction:
    """The sum, prod, max or min of a tensor over the output's reduction axes."""
    return Reduction(simple(op, output.dtype), (source,), (output,))


@dataclass(frozen=True, slots=True, eq=False)
class Matmul(OneResult):
    """`output = sum over k of a * b`; the output's root axes are batches, m, n, k.

    `axes[i][d]` is the root axis of the output that dimension `d` of operand `i` is. The last root
    axis is the reduced one. Terms are multiplied and summed in the output's type: Float of narrow
    floats, Int32 of bytes, else the operands' own. `precision` "tf32" lets a kernel round Float
    operands, "fast" sum products of 8-bit floats, or of casts of them, with fewer bits; the exact
    product always satisfies both.

    With `ends`, it is a grouped product: `b` has a matrix for each group, along the dimension whose
    place in `axes` is `OF_GROUP`, and `a` rows of one group behind those of the other. Group `g`
    ends before row `ends[g]`, and begins where the one before it ends; rows behind all of them are
    multiplied by zeros.
    """

    a: TensorView
    b: TensorView
    output: TensorView
    axes: tuple[tuple[int, ...], tuple[int, ...]]
    precision: Precision = "exact"
    ends: TensorView | None = None

    @property
    def operands(self) -> tuple[TensorView, TensorView]:
        """What is multiplied."""
        return (self.a, self.b)

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.operands if self.ends is None else (*self.operands, self.ends)

    @property
    def rows_and_groups(self) -> Pair | None:
        """Of a grouped product its axis of rows, and that of the groups."""
        for rows, groups in (self.axes, self.axes[::-1]):
            if OF_GROUP in groups:
                operand = self.operands[self.axes.index(groups)]
                (place,) = set(rows) - set(groups)
                return self.output.root[place], operand.shape_axes[groups.index(OF_GROUP)]
        return None

    def pairs(self, source: TensorView) -> tuple[Pair, ...]:
        return tuple(
            (axis, self.output.root[position])
            for operand, axes in zip((self.a, self.b), self.axes, strict=True)
            if operand is source
            for axis, position in zip(operand.shape_axes, axes, strict=True)
            if position != OF_GROUP
        )


@dataclass(frozen=True, slots=True, eq=False)
class Full(OneResult):
    """Every element of `output` is the scalar `value`."""

    value: Expr
    output: TensorView

    @property
    def inputs(self) -> tuple[Value, ...]:
        return (self.value,)

    def pairs(self, source: TensorView) -> tuple[Pair, ...]:
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class Iota(OneResult):
    """`output[i] = start + step * i`, one dimension."""

    start: Expr
    step: Expr
    output: TensorView

    @property
    def inputs(self) -> tuple[Value, ...]:
        return (self.start, self.step)

    def pairs(self, source: TensorView) -> tuple[Pair, ...]:
        return ()


def tensor_inputs(operation: Operation) -> tuple[TensorView, ...]:
    """The tensors that an operation reads, each once."""
    tensors = [value for value in operation.inputs if isinstance(value, TensorView)]
    return tuple(tensors) if len(tensors) < 2 else tuple(dict.fromkeys(tensors))


def with_values(
    operation: Operation, inputs: Sequence[Value], outputs: Sequence[TensorView]
) -> Operation:
    """The operation on other values, as many as its own, in the same order."""
    given: tuple[Any, ...] = tuple(inputs)
    output = outputs[0]
    match operation:
        case Pointwise(op=op):
            return Pointwise(op, given, output)
        case Move(kind=kind, origin=origin, arguments=arguments):
            return Move(kind, given[0], output, origin, arguments)
        case Reduction(carry=carry):
            return Reduction(carry, given, tuple(outputs))
        case Scan():
            return replace(operation, sources=given, outputs=tuple(outputs))
        case Matmul():
            a, b, *ends = given
            return replace(operation, a=a, b=b, output=output, ends=ends[0] if ends else None)
        case Full():
            return Full(given[0], output)
        case Iota():
            return Iota(given[0], given[1], output)
        case Read():
            return operation.with_values(given, output)
        case Search(op=op):
            return Search(op, given[0], given[1], output)
    raise TypeError(f"{operation!r} is no operation of these")


def replace_tensor(operation: Operation, old: TensorView, new: TensorView) -> Operation:
    """The operation with one input tensor replaced, same output."""
    inputs = [new if value is old else value for value in operation.inputs]
    return with_values(operation, inputs, operation.outputs)


def replace_output(operation: Operation, old: TensorView, new: TensorView) -> Operation:
    """The operation writing to another tensor with the same axes."""
    outputs = [new if output is old else output for output in operation.outputs]
    return with_values(operation, operation.inputs, outputs)
