"""What operations ask of the sizes that meet in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from warpsmith.callers import Line
from warpsmith.ir import integers
from warpsmith.ir.bounds import lower_bound
from warpsmith.ir.domains import IterDomain, Split
from warpsmith.ir.exprs import Matmul, Move, Pointwise, Reduction, Scan, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.reads import Own, Part, Read, Search
from warpsmith.ir.scalar import Apply, Expr
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.ops.reshape import shaping, uneven_splits
from warpsmith.ops.slicing import is_part

Asks = Literal["==", "%", ">="]

Demand = tuple[Expr, Expr, str, Asks, Expr | None]
"""The two numbers, which operation asks, in words, what it asks of them, and a number of elements:
where that is 0, nothing is asked; None asks always.
"""


def asked(fusion: Fusion) -> Iterator[tuple[Demand, Line | None]]:
    """What the program asks, with the line of the user's that asks for it."""
    for operation in fusion.operations:
        line = operation.outputs[0].line
        yield from ((demand, line) for demand in _demands(operation))
        yield from ((demand, line) for demand in _factors(operation))
    for extent, count in fusion.taken:
        yield (extent, integers.index(count), "so many of its elements are taken", ">=", None), None
    for output in fusion.outputs:
        if output.alias_of is not None:
            reason = "the output is written into that input"
            pairs = zip(output.value.shape_axes, output.alias_of.shape_axes, strict=True)
            for dimension, (a, b) in enumerate(pairs):
                if output.place is None or dimension != output.place.dimension:
                    yield (a.extent, b.extent, reason, "==", None), output.line


def _demands(operation: Operation) -> Iterator[Demand]:
    """What an operation asks of what it reads, and then of the extents that it makes."""
    match operation:
        case Pointwise(op=name):
            yield from _side_by_side(operation, name)
        case Reduction(carry=carry) | Scan(carry=carry):
            yield from _side_by_side(operation, carry.name)
        case Matmul():
            yield from _product(operation)
        case Move(kind="expand"):
            yield from _expanded(operation)
        case Move(repeats=repeats) if repeats:
            yield from _repeated(operation)
        case Read():
            yield from _read(operation)
        case Search():
            both = operation.source.shape_axes[:-1], operation.wanted.shape_axes[:-1]
            for axes in zip(*both, strict=True):
                yield from _equal(axes, "rows are searched for it")
    if isinstance(operation, Move) and operation.kind == "reshape":
        yield from _reshaped(operation)
    else:
        yield from _made(operation)
    if isinstance(operation, Reduction) and operation.carry.needs_elements:
        reason = f"{operation.carry.name} of nothing has no value"
        for axis in operation.output.logical:
            if axis.is_reduction:
                yield from _not_zero(axis.extent, reason)


def _side_by_side(operation: Operation, name: str) -> Iterator[Demand]:
    """Tensors that are read element by element have one shape."""
    tensors = [value for value in operation.inputs if isinstance(value, TensorView)]
    for column in zip(*(tensor.shape_axes for tensor in tensors), strict=True):
        yield from _equal(column, f"{name} reads both")


def _product(operation: Matmul) -> Iterator[Demand]:
    for a, place in zip(operation.a.shape_axes, operation.axes[0], strict=True):
        for b, other in zip(operation.b.shape_axes, operation.axes[1], strict=True):
            if place == other:
                yield from _equal((a, b), "a matrix product reads both")
    if operation.ends is not None and operation.rows_and_groups is not None:
        groups = (operation.rows_and_groups[1], operation.ends.shape_axes[0])
        yield from _equal(groups, "each group has a matrix and an end")


def _expanded(operation: Move) -> Iterator[Demand]:
    (wanted,) = operation.arguments
    assert isinstance(wanted, tuple)
    for axis, extent in zip(operation.source.shape_axes, wanted, strict=True):
        if not axis.is_broadcast:
            yield axis.extent, extent, "expand keeps it", "==", None


def _repeated(operation: Move) -> Iterator[Demand]:
    made = zip(operation.origin, operation.repeats, operation.output.root, strict=True)
    for dim, times, axis in made:
        if times > 1 and dim is not None:
            held = operation.source.shape_axes[dim].extent
            reason = f"repeat_interleave repeats each element {times} times"
            yield held, integers.ceildiv(axis.extent, integers.index(times)), reason, "==", None


_READ_ALONG: Mapping[str, Asks] = {
    "cat": "==",
    "gather": ">=",
    "or_zero": "==",
    "take_along_axis": "==",
}
"""What reads that keep some dimensions ask of these, but for others whose result has them."""


def _read(operation: Read) -> Iterator[Demand]:
    """That what is read lies inside the tensors which it is read from, as far as sizes tell."""
    for part in operation.parts:
        for dim, (place, axis) in enumerate(zip(part.places, part.source.shape_axes, strict=True)):
            along = part.axis_at(dim, len(operation.output.root))
            if along is not None:
                yield from _read_along(operation, part, dim, operation.output.root[along])
            elif not any(isinstance(node, Own) for node in place.walk()):
                reason = f"{operation.kind} reads that element"
                yield axis.extent, integers.add(place, 1), reason, ">=", None
                yield from _not_negative([place], reason)
    if operation.kind == "slice":
        yield from _sliced(operation)
    for column in zip(*(index.shape_axes for index in operation.indices), strict=True):
        yield from _equal(column, f"{operation.kind} reads both")


def _read_along(operation: Read, part: Part, dim: int, made: IterDomain) -> Iterator[Demand]:
    """Of a dimension of a part that the result has, too."""
    axis, asks = part.source.shape_axes[dim], _READ_ALONG.get(operation.kind)
    joined = operation.kind == "cat" and operation.arguments == (dim,)
    repeated = axis.is_broadcast and operation.kind != "cat"
    if asks is not None and not (joined or repeated):
        reason = f"{operation.kind} reads {part.source.name} along it"
        yield axis.extent, made.extent, reason, asks, None


def _sliced(operation: Read) -> Iterator[Demand]:
    starts, ends, _ = operation.arguments
    assert isinstance(starts, tuple)
    assert isinstance(ends, tuple)
    for start, end, axis in zip(starts, ends, operation.sources[0].shape_axes, strict=True):
        yield from _not_negative([start], "a slice begins there")
        if not is_part(end, axis.extent):
            yield axis.extent, end, "a slice ends there", ">=", None


def _equal(axes: tuple[IterDomain, ...], reason: str) -> Iterator[Demand]:
    extents = [axis.extent for axis in axes if not axis.is_broadcast]
    for extent in extents[1:]:
        yield extents[0], extent, reason, "==", None


def _made(operation: Operation) -> Iterator[Demand]:
    """That extents which are no input's are numbers of 0 or more."""
    read = {axis.extent for tensor in tensor_inputs(operation) for axis in tensor.shape_axes}
    for output in operation.outputs:
        made = [axis.extent for axis in output.logical if axis.extent not in read]
        yield from _quotients(made, f"an extent of {output.name} is divided by it")
        yield from _not_negative(made, f"it is an extent of {output.name}")


def _factors(operation: Operation) -> Iterator[Demand]:
    """That a loop which is split by a number of the call has parts."""
    for output in operation.outputs:
        loops = output.transforms[len(shaping(output)) :]
        for made in loops:
            if isinstance(made, Split) and lower_bound(made.factor) < 1:
                reason = f"a loop of {output.name} is split by it"
                yield made.factor, integers.ONE, reason, ">=", None


def _not_negative(extents: Iterable[Expr], reason: str) -> Iterator[Demand]:
    for extent in extents:
        if lower_bound(extent) < 0:
            yield extent, integers.ZERO, reason, ">=", None


def _not_zero(extent: Expr, reason: str) -> Iterator[Demand]:
    """0 is a multiple of every number but 0."""
    yield integers.ZERO, extent, reason, "%", None


def _quotients(extents: Iterable[Expr], reason: str) -> Iterator[Demand]:
    for node in (node for extent in extents for node in extent.walk()):
        if isinstance(node, Apply) and node.op in ("floordiv", "ceildiv", "mod"):
            yield from _not_zero(node.args[1], reason)


def _reshaped(operation: Move) -> Iterator[Demand]:
    reason = f"{operation.source.name} is reshaped"
    (wanted,) = operation.arguments
    assert isinstance(wanted, tuple)
    before, after = elements_around(operation)
    yield from _quotients(wanted, reason)
    yield from _not_negative(wanted, reason)
    for split in uneven_splits(shaping(operation.output)):
        yield split.axis.extent, split.factor, reason, "%", before
    yield before, after, reason, "==", None


def elements_around(operation: Move) -> tuple[Expr, Expr]:
    """How many there are of them before a reshape, and behind it, which is to be the same."""
    (wanted,) = operation.arguments
    assert isinstance(wanted, tuple)
    before = integers.mul(*(axis.extent for axis in operation.source.shape_axes))
    return before, integers.mul(*wanted)
