"""Numbers of a result's elements that their indices tell, as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.reads import CHECKS, Own, at, chosen
from warpsmith.ir.scalar import Apply, Const, Expr
from warpsmith.ir.tensor import TensorView, Value
from warpsmith.ops import pointwise
from warpsmith.ops.broadcasting import add_axes
from warpsmith.ops.factories import full, iota

MOST_SMALL = 2**28
"""Numbers below this are computed in 32 bits: few of them are added."""

_FLOORED: Final = {"floordiv": "floor_divide", "mod": "remainder"}
"""Operations of tensors that round down, as those of places do."""


def numbers(
    fusion: Fusion,
    axes: Sequence[IterDomain],
    wanted: Expr,
    indices: Sequence[TensorView] = (),
) -> TensorView:
    """An expression, or a predicate, of a result's own indices (`ir.reads.at`), and of what memory
    says (`ir.reads.chosen`), for each element.

    What is checked as a place is taken to be one: who reads there checks it.

    Args:
        axes: the result's, of which those that the expression does not have are broadcast.
        indices: tensors of the result's rank whose elements are chosen.
    """
    rank = len(axes)
    known: dict[Expr, TensorView] = {
        chosen(k, index.dtype): index for k, index in enumerate(indices)
    }
    dtype = DataType.Int32 if _is_small(axes, wanted) else DataType.Int

    def value(expr: Expr) -> Value:
        if expr in known:
            return known[expr]
        if isinstance(expr, Own):
            dim = next(k for k in range(rank) if expr == at(k))
            counted = iota(axes[dim].extent, dtype=dtype, fusion=fusion)
            return add_axes(counted, [k != dim for k in range(rank)])
        if not isinstance(expr, Apply) or not any(isinstance(node, Own) for node in expr.walk()):
            return expr
        found = value(expr.args[0])
        if expr.op in CHECKS:
            from_end = expr.op == CHECKS[1]
            behind = pointwise.add(found, expr.args[1]) if from_end else found
            return pointwise.where(pointwise.lt(found, 0), behind, found) if from_end else found
        if expr.op == "mod" and (low := _low_bits(expr.args[1])):  # what is known of these stays so
            return pointwise.bitwise_and(found, low)
        for arg in expr.args[1:]:
            found = getattr(pointwise, _FLOORED.get(expr.op, expr.op))(found, value(arg))
        return found

    found = value(wanted)
    if isinstance(found, TensorView):
        return found
    kind = found.dtype if found.dtype is DataType.Bool else dtype
    return full([1] * rank, found, kind, fusion=fusion)


def _low_bits(divisor: Expr) -> int:
    """A mask of the bits below a power of two; 0 of any other number."""
    count = divisor.value if isinstance(divisor, Const) and isinstance(divisor.value, int) else 0
    return 0 if count & (count - 1) else max(count - 1, 0)


def _is_small(axes: Sequence[IterDomain], wanted: Expr) -> bool:
    """Whether all numbers of it are constants, and 32 bits hold its sums."""
    extents = [axis.extent for axis in axes]
    nodes = [node for expr in (wanted, *extents) for node in expr.walk() if not node.args]
    constants = [node.value for node in nodes if isinstance(node, Const)]
    return len(constants) == sum(not isinstance(node, Own) for node in nodes) and all(
        abs(number) < MOST_SMALL for number in constants
    )
