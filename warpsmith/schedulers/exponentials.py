"""Exponentials of few instructions, where what they lack is rounded away, or small in a sum."""

from __future__ import annotations

from collections.abc import Collection

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Move, Pointwise, Reduction, made_by
from warpsmith.ir.graph import Graph
from warpsmith.ir.tensor import TensorView, Value
from warpsmith.schedulers.one_of_a_row import is_number
from warpsmith.schedulers.quotients import is_by_one_of_a_row

EXPONENTIALS = ("exp", "exp_near")
"""The exponential, and the one that is as precise as a 16-bit result."""


def near_exponential(
    graph: Graph, operation: Pointwise, precise: Collection[TensorView]
) -> Pointwise | None:
    """One of floats that is as precise as what is made of it."""
    output = operation.output
    if operation.op != "exp" or output.dtype is not DataType.Float:
        return None
    rounded = output not in precise and _is_rounded(graph, operation)
    if not (rounded or _is_summed(graph, operation)):
        return None
    return Pointwise("exp_near", operation.inputs, output)


def _is_rounded(graph: Graph, operation: Pointwise) -> bool:
    """Whether it is one of floats less a number of their row or at most 1, and all that is left of
    it has no more than its size."""
    exponent = operation.inputs[0]
    largest, made = largest_taken_from(exponent), made_by(exponent, "sub")
    taken = made is not None and is_by_one_of_a_row(made)
    small = largest is not None or taken or _is_at_most_zero(exponent)
    return small and _only_scaled(graph, operation.output, largest)


def _is_summed(graph: Graph, operation: Pointwise) -> bool:
    """Whether it is one of floats less the largest of their row, for the sum of the row alone.

    The sum is 1 or more, and an element at a distance d below the largest has an error of d * 2^-23
    of its own: of a sum of n elements at one distance that is what the sum itself is rounded by.
    """
    output, largest = operation.output, largest_taken_from(operation.inputs[0])
    if output.is_output or largest is None:
        return False
    gone = [axis.is_reduction for axis in largest.output.logical]
    return all(
        isinstance(use, Reduction)
        and use.op == "sum"
        and [axis.is_reduction for axis in use.output.logical] == gone
        for use in graph.uses(output)
    )


def _is_at_most_zero(value: Value) -> bool:
    least = made_by(value, "minimum")
    return least is not None and any(is_number(each, 0) for each in least.inputs)


def largest_taken_from(value: Value) -> Reduction | None:
    """The maximum of `x`, where the value is `x` less that."""
    difference = made_by(value, "sub")
    if difference is None:
        return None
    source, most = difference.inputs
    move = most.definition if isinstance(most, TensorView) else None
    if not (isinstance(move, Move) and isinstance(move.source.definition, Reduction)):
        return None
    reduction = move.source.definition
    kept = iter(range(len(move.origin)))
    back = tuple(None if a.is_reduction else next(kept) for a in reduction.output.logical)
    same = reduction.op == "max" and reduction.source is source and move.origin == back
    return reduction if same else None


def _only_scaled(graph: Graph, tensor: TensorView, largest: Reduction | None) -> bool:
    """Whether nothing but sums and multiples is made of exponentials, and of these.

    Their sum along the dimensions of the maximum is 1 or more, and may be used in any way.
    """
    gone = None if largest is None else [axis.is_reduction for axis in largest.output.logical]
    pending, seen = [tensor], set[TensorView]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in graph.uses(value):
            match use:
                case Reduction(op="sum", output=output):
                    along = [axis.is_reduction for axis in output.logical]
                    if value is not tensor or along != gone:
                        pending.append(output)
                case Move() | Pointwise(op="mul" | "cast" | "set" | "neg" | "add" | "sub"):
                    pending += use.outputs
                case Pointwise(op="div" | "truediv", inputs=(_, other)) if other is not value:
                    pending += use.outputs
                case _:
                    return False
    return True
