"""What a program asks of the sizes of its inputs: dimensions that meet must be equal.

A definition with symbolic extents cannot say that two tensors have one shape; the operations that
read them do. Each such demand becomes an `Agreement` that a call is held against.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from warpsmith.callers import Line
from warpsmith.errors import ArgumentError
from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.exprs import Matmul, Move, Operation, Pointwise, Reduction
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Const, Expr, evaluate
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.reshape import shaping, uneven_splits


@dataclass(frozen=True, slots=True)
class Agreement:
    """`left == right`, or, if `divides`, that `right` divides `left`.

    Attributes:
        reason: which operation asks for it, in words.
        names: what users know sizes by: `T0_size1` -> `dimension 1 of argument 0 (T0)`.
        line: where the operation was defined.
    """

    left: Expr
    right: Expr
    reason: str
    divides: bool
    names: Mapping[str, str]
    line: Line | None

    def check(self, values: Mapping[str, float]) -> None:
        """Raise ArgumentError if the values of the symbols break it."""
        numbers = {name: int(value) for name, value in values.items() if value == value // 1}
        try:
            left, right = evaluate(self.left, numbers), evaluate(self.right, numbers)
        except ZeroDivisionError:
            raise ArgumentError(
                f"an extent that must not be 0 is 0: {self.reason}",
                code="WS0313",
                remedy="pass arrays that have elements",
                line=self.line,
            ) from None
        if self.divides and right == 0:
            raise ArgumentError(
                f"{self._text(self.right)} is 0, and must not be: {self.reason}",
                code="WS0316",
                remedy="pass arrays that have elements",
                line=self.line,
            )
        if self.divides:
            if left % right == 0:
                return
            raise ArgumentError(
                f"{self._text(self.left)} is {left}, and must be a multiple of {right}: "
                f"{self.reason}",
                code="WS0311",
                remedy="pass arrays of fitting shapes",
                line=self.line,
            )
        if left != right:
            raise ArgumentError(
                f"{self._text(self.left)} is {left} and {self._text(self.right)} is {right}, "
                f"and they must be equal: {self.reason}",
                code="WS0312",
                remedy="pass arrays of fitting shapes; only extents defined as 1 are broadcast",
                line=self.line,
            )

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
    found: dict[tuple[Expr, Expr, bool], Agreement] = {}
    for (left, right, reason, divides), line in _all_demands(fusion):
        constant = isinstance(left, Const) and isinstance(right, Const)
        if left != right and (right, left, divides) not in found and not constant:
            agreement = Agreement(left, right, reason, divides, names, line)
            found.setdefault((left, right, divides), agreement)
    return tuple(found.values())


Demand = tuple[Expr, Expr, str, bool]


def _all_demands(fusion: Fusion) -> Iterator[tuple[Demand, Line | None]]:
    """What the program asks, with the line of the user's that asks for it."""
    for operation in fusion.operations:
        line = operation.outputs[0].line
        yield from ((demand, line) for demand in _demands(operation))
    for output in fusion.outputs:
        if output.alias_of is not None:
            reason = "the output is written into that input"
            for a, b in zip(output.value.shape_axes, output.alias_of.shape_axes, strict=True):
                yield (a.extent, b.extent, reason, False), output.line


def _demands(operation: Operation) -> Iterator[Demand]:
    if isinstance(operation, Pointwise):
        tensors = [value for value in operation.inputs if isinstance(value, TensorView)]
        for column in zip(*(tensor.shape_axes for tensor in tensors), strict=True):
            yield from _equal(column, f"{operation.op} reads both")
    elif isinstance(operation, Matmul):
        for a, place in zip(operation.a.shape_axes, operation.axes[0], strict=True):
            for b, other in zip(operation.b.shape_axes, operation.axes[1], strict=True):
                if place == other:
                    yield from _equal((a, b), "a matrix product reads both")
    elif isinstance(operation, Move) and operation.kind == "expand":
        (wanted,) = operation.arguments
        assert isinstance(wanted, tuple)
        for axis, extent in zip(operation.source.shape_axes, wanted, strict=True):
            if not axis.is_broadcast:
                yield axis.extent, extent, "expand keeps it", False
    elif isinstance(operation, Move) and operation.kind == "reshape":
        yield from _reshape(operation)
    elif isinstance(operation, Reduction) and operation.carry.needs_elements:
        for axis in operation.output.logical:
            if axis.is_reduction:  # only a number that is not 0 divides 0
                yield integers.ZERO, axis.extent, f"{operation.op} of nothing has no value", True


def _equal(axes: tuple[IterDomain, ...], reason: str) -> Iterator[Demand]:
    extents = [axis.extent for axis in axes if not axis.is_broadcast]
    for extent in extents[1:]:
        yield extents[0], extent, reason, False


def _reshape(operation: Move) -> Iterator[Demand]:
    reason = f"{operation.source.name} is reshaped"
    for split in uneven_splits(shaping(operation.output)):
        yield split.axis.extent, split.factor, reason, True
    (wanted,) = operation.arguments
    assert isinstance(wanted, tuple)
    given = (axis.extent for axis in operation.source.shape_axes)
    yield integers.mul(*given), integers.mul(*wanted), reason, False
