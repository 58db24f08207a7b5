"""What a program asks of the sizes of its inputs: dimensions that meet must be equal.

A definition with symbolic extents cannot say that two tensors have one shape; the operations that
read them do. Each such demand becomes an `Agreement` that a call is held against.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from warpsmith.callers import Line
from warpsmith.engine.asked import Asks, asked, elements_around
from warpsmith.errors import ArgumentError
from warpsmith.ir.arithmetic import convert
from warpsmith.ir.domains import Split
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Move
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Const, Expr, Symbol, evaluate
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.reshape import shaping
from warpsmith.values import dataclass


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
    for (left, right, reason, asks, elements), line in asked(fusion):
        if not _holds(left, right, asks) and (right, left, asks, elements) not in found:
            agreement = Agreement(left, right, reason, asks, elements, names, line)
            found.setdefault((left, right, asks, elements), agreement)
    return tuple(found.values())


def _holds(left: Expr, right: Expr, asks: Asks) -> bool:
    """Whether a demand holds whatever a call passes."""
    if not (isinstance(left, Const) and isinstance(right, Const)):
        return left == right
    if asks == "%":
        return bool(right.value != 0 and left.value % right.value == 0)
    return bool(left.value >= right.value if asks == ">=" else left.value == right.value)


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
                before, after = (evaluate(each, numbers) for each in elements_around(operation))
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
