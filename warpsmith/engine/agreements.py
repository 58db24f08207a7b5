"""What a program asks of the sizes of its inputs: dimensions that meet must be equal.

A definition with symbolic extents cannot say that two tensors have one shape; the operations that
read them do. Each such demand becomes an `Agreement` that a call is held against.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from warpsmith.callers import Line
from warpsmith.errors import ArgumentError
from warpsmith.ir import integers
from warpsmith.ir.arithmetic import convert
from warpsmith.ir.bounds import lower_bound
from warpsmith.ir.domains import IterDomain, Split
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Matmul, Move, Pointwise, Reduction, Scan, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.reads import Own, Read, Search
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol, evaluate
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.ops.reshape import shaping, uneven_splits
from warpsmith.ops.slicing import is_part
from warpsmith.values import dataclass

Asks = Literal["==", "%", ">="]


@dataclass(frozen=True, slots=True)
class Agreement:
    """What two numbers must be: equal, the left one a multiple of the right one, or no less.

    Attributes:
        asks: `==`, `%` or `>=`.
        elements: a number of elements: where it is 0, nothing is asked. None asks always.
        reason: which operation asks for it, in words.
        names: what users know sizes by: `T0_size1` -> `dimension 1 of argument 0 (T0)`.
        line: where the operation was defined.
    """

    left: Expr
    right: Expr
    reason: str
    asks: Asks
    elements: Expr | None
    names: Mapping[str, str]
    line: Line | None

    def check(self, numbers: dict[str, int]) -> None:
        """Raise ArgumentError if the values of the symbols break it."""
        try:
            if self.elements is not None and evaluate(self.elements, numbers) == 0:
                return
            left, right = evaluate(self.left, numbers), evaluate(self.right, numbers)
        except ZeroDivisionError:
            raise self._broken(
                "an extent that must not be 0 is 0",
                code="WS0313",
                remedy="pass arrays that have elements",
            ) from None
        if self.asks == ">=" and left < right:
            raise self._broken(
                f"{self._text(self.left)} is {left}, and must be {right} or more",
                code="WS0318",
                remedy="pass numbers and arrays that make it so",
            )
        if self.asks == "%" and right == 0:
            raise self._broken(
                f"{self._text(self.right)} is 0, and must not be",
                code="WS0316",
                remedy="pass arrays that have elements",
            )
        if self.asks == "%" and left % right:
            raise self._broken(
                f"{self._text(self.left)} is {left}, and must be a multiple of {right}",
                code="WS0311",
                remedy="pass arrays of fitting shapes",
            )
        if self.asks == "==" and left != right:
            raise self._broken(
                f"{self._text(self.left)} is {left} and {self._text(self.right)} is {right}, "
                "and they must be equal",
                code="WS0312",
                remedy="pass arrays of fitting shapes; only extents defined as 1 are broadcast",
            )

    def _broken(self, what: str, *, code: str, remedy: str) -> ArgumentError:
        return ArgumentError(f"{what}: {self.reason}", code=code, remedy=remedy, line=self.line)

    def _text(self, expr: Expr) -> str:
        if isinstance(expr, Const):
            return "the extent in the definition"
        return self.names.get(repr(expr), f"the size {expr!r}")


def agreements(fusion: Fusion) -> tuple[Agreement, ...]:
    """Every demand of the program once; demands that always hold are left out."""
    names = {
        repr(axis.extent): f"dimension {d} of argument {position} ({value.name})"
        for position, value in enumerate(fusion.inputs)
        if isinstance(value, TensorView)
        for d, axis in enumerate(value.shape_axes)
    }
    names |= {
        repr(convert(value, DataType.Index)): f"argument {position} ({value.name})"
        for position, value in enumerate(fusion.inputs)
        if isinstance(value, Symbol)
    }
    found: dict[tuple[object, ...], Agreement] = {}
    for (left, right, reason, asks, elements), line in _all_demands(fusion):
        constant = isinstance(left, Const) and isinstance(right, Const)
        if left != right and (right, left, asks, elements) not in found and not constant:
            agreement = Agreement(left, right, reason, asks, elements, names, line)
            found.setdefault((left, right, asks, elements), agreement)
    return tuple(found.values())


def emptied(fusion: Fusion, values: Mapping[str, float]) -> Iterator[int]:
    """Numbers of the tensors without elements whose extents are not what their reshape gives.

    A split by 0 gives no extent, and where there are no elements the others need not fit either.
    """
    numbers = whole_numbers(values)
    if 0 not in numbers.values():
        return
    for operation in fusion.operations:
        if isinstance(operation, Move) and operation.kind == "reshape":
            splits = [t for t in shaping(operation.output) if isinstance(t, Split)]
            try:
                before, after = (evaluate(each, numbers) for each in _elements(operation))
                if before == after == 0 and not all(_is_whole(split, numbers) for split in splits):
                    yield operation.output.number
            except ZeroDivisionError:  # a quotient of sizes; `Agreement.check` refuses it
                return


def _is_whole(split: Split, numbers: dict[str, int]) -> bool:
    axis, outer, inner = (
        evaluate(each.extent, numbers) for each in (split.axis, split.outer, split.inner)
    )
    return evaluate(split.factor, numbers) != 0 and axis == outer * inner


def whole_numbers(values: Mapping[str, float]) -> dict[str, int]:
    """The values that extents may depend on."""
    return {name: int(value) for name, value in values.items() if value == value // 1}


Demand = tuple[Expr, Expr, str, Asks, Expr | None]
"""The first attributes of an `Agreement`."""


def _all_demands(fusion: Fusion) -> Iterator[tuple[Demand, Line | None]]:
    """What the program asks, with the line of the user's that asks for it."""
    for operation in fusion.operations:
        line = operation.outputs[0].line
        yield from ((demand, line) for demand in _demands(operation))
        yield from ((demand, line) for demand in _factors(operation))
    for output in fusion.outputs:
        if output.alias_of is not None:
            reason = "the output is written into that input"
            pairs = zip(output.value.shape_axes, output.alias_of.shape_axes, strict=True)
            for dimension, (a, b) in enumerate(pairs):
                if output.place is None or dimension != output.place.dimension:
                    yield (a.extent, b.extent, reason, "==", None), output.line


def _demands(operation: Operation) -> Iterator[Demand]:
    if isinstance(operation, Pointwise | Reduction | Scan):
        tensors = [value for value in operation.inputs if isinstance(value, TensorView)]
        name = operation.op if isinstance(operation, Pointwise) else operation.carry.name
        for column in zip(*(tensor.shape_axes for tensor in tensors), strict=True):
            yield from _equal(column, f"{name} reads both")
    elif isinstance(operation, Matmul):
        for a, place in zip(operation.a.shape_axes, operation.axes[0], strict=True):
            for b, other in zip(operation.b.shape_axes, operation.axes[1], strict=True):
                if place == other:
                    yield from _equal((a, b), "a matrix product reads both")
        if operation.ends is not None and operation.rows_and_groups is not None:
            groups = (operation.rows_and_groups[1], operation.ends.shape_axes[0])
            yield from _equal(groups, "each group has a matrix and an end")
    elif isinstance(operation, Move) and operation.kind == "expand":
        (wanted,) = operation.arguments
        assert isinstance(wanted, tuple)
        for axis, extent in zip(operation.source.shape_axes, wanted, strict=True):
            if not axis.is_broadcast:
                yield axis.extent, extent, "expand keeps it", "==", None
    elif isinstance(operation, Move) and operation.repeats:
        made = zip(operation.origin, operation.repeats, operation.output.root, strict=True)
        for dim, times, axis in made:
            if times > 1 and dim is not None:
                held = operation.source.shape_axes[dim].extent
                reason = f"repeat_interleave repeats each element {times} times"
                yield held, integers.ceildiv(axis.extent, integers.index(times)), reason, "==", None
    elif isinstance(operation, Read):
        yield from _read(operation)
    elif isinstance(operation, Search):
        both = operation.source.shape_axes[:-1], operation.wanted.shape_axes[:-1]
        for axes in zip(*both, strict=True):
            yield from _equal(axes, "rows are searched for it")
    if isinstance(operation, Move) and operation.kind == "reshape":
        yield from _reshape(operation)
    else:
        yield from _made(operation)
    if isinstance(operation, Reduction) and operation.carry.needs_elements:
        for axis in operation.output.logical:
            if axis.is_reduction:  # only a number that is not 0 divides 0
                yield (
                    integers.ZERO,
                    axis.extent,
                    f"{operation.carry.name} of nothing has no value",
                    "%",
                    None,
                )


_READ_ALONG: Mapping[str, Asks] = {
    "cat": "==",
    "gather": ">=",
    "or_zero": "==",
    "take_along_axis": "==",
}
"""What reads that keep some dimensions ask of these, but for others whose result has them."""


def _read(operation: Read) -> Iterator[Demand]:
    """That what is read lies inside the tensors which it is read from, as far as sizes tell."""
    axes = operation.output.root
    for part in operation.parts:
        for dim, (place, axis) in enumerate(zip(part.places, part.source.shape_axes, strict=True)):
            along = part.axis_at(dim, len(axes))
            asks = _READ_ALONG.get(operation.kind)
            if along is not None:
                joined = operation.kind == "cat" and operation.arguments == (dim,)
                repeated = axis.is_broadcast and operation.kind != "cat"
                if asks is not None and not (joined or repeated):
                    reason = f"{operation.kind} reads {part.source.name} along it"
                    yield axis.extent, axes[along].extent, reason, asks, None
            elif not any(isinstance(node, Own) for node in place.walk()):
                reason = f"{operation.kind} reads that element"
                yield axis.extent, integers.add(place, 1), reason, ">=", None
                yield from _not_negative([place], reason)
    if operation.kind == "slice":
        starts, ends, _ = operation.arguments
        assert isinstance(starts, tuple)
        assert isinstance(ends, tuple)
        reason = "a slice ends there"
        for start, end, axis in zip(starts, ends, operation.sources[0].shape_axes, strict=True):
            yield from _not_negative([start], "a slice begins there")
            if not is_part(end, axis.extent):
                yield axis.extent, end, reason, ">=", None
    for column in zip(*(index.shape_axes for index in operation.indices), strict=True):
        yield from _equal(column, f"{operation.kind} reads both")


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


def _quotients(extents: Iterable[Expr], reason: str) -> Iterator[Demand]:
    for node in (node for extent in extents for node in extent.walk()):
        if isinstance(node, Apply) and node.op in ("floordiv", "ceildiv", "mod"):
            yield integers.ZERO, node.args[1], reason, "%", None  # only a number but 0 divides 0


def _reshape(operation: Move) -> Iterator[Demand]:
    reason = f"{operation.source.name} is reshaped"
    (wanted,) = operation.arguments
    assert isinstance(wanted, tuple)
    before, after = _elements(operation)
    yield from _quotients(wanted, reason)
    yield from _not_negative(wanted, reason)
    for split in uneven_splits(shaping(operation.output)):
        yield split.axis.extent, split.factor, reason, "%", before
    yield before, after, reason, "==", None


def _elements(operation: Move) -> tuple[Expr, Expr]:
    """How many there are of them before a reshape, and behind it, which is to be the same."""
    (wanted,) = operation.arguments
    assert isinstance(wanted, tuple)
    return integers.mul(*(axis.extent for axis in operation.source.shape_axes)), integers.mul(
        *wanted
    )
