"""Quotients of few instructions: by constants, as of pixels and 255, by roots, and near ones."""

from __future__ import annotations

import math

import numpy as np

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Move, Pointwise, Reduction, made_by
from warpsmith.ir.graph import Graph
from warpsmith.ir.scalar import Const
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.schedulers.one_of_a_row import is_number, unexpanded

QUOTIENTS = ("div", "truediv")

FAR = 2.0**64
"""Of a divisor, at most, and at least one over it: then no part of its reciprocal is denormal."""


def divided_by_parts(operation: Pointwise) -> Pointwise | None:
    """Two multiplications with the parts of the divisor's reciprocal, `x * high + x * low`, in
    place of a division in Float by a constant; None where it is something else.

    The sum of both parts is off by 2^-46 before the one rounding of `fma`, so a result has other
    bits than the quotient's only where that lies next to the middle of two floats; denormal ones
    are within 1 ulp. Those of whole numbers X and C of 16 bits are the same in all bits: X / C and
    a middle, M of 25 bits, are at least 1 / (M * C) apart, relative, or 2^-41, and never equal.
    Both parts have the divisor's sign, so that infinities stay what they are.
    """
    if operation.op not in QUOTIENTS:
        return None
    dividend, divisor = operation.inputs
    if operation.output.dtype is not DataType.Float or not isinstance(divisor, Const):
        return None
    parts = _parts(float(np.float32(divisor.value)))
    if parts is None:
        return None
    numbers = (Const(part, DataType.Float) for part in parts)
    return Pointwise("times_parts", (dividend, *numbers), operation.output)


def _parts(divisor: float) -> tuple[float, float] | None:
    """The reciprocal of a number: as a float no further from zero, and what that lacks; None of
    what has none, and of powers of 2, which have one of one part.
    """
    if not 1 / FAR <= abs(divisor) <= FAR or math.frexp(abs(divisor))[0] == 0.5:
        return None
    high = np.float32(1 / divisor)
    if abs(float(high)) > abs(1 / divisor):
        high = np.nextafter(high, np.float32(0))
    return float(high), float(np.float32(1 / divisor - float(high)))


def root_below_one(graph: Graph, operation: Pointwise) -> Pointwise | None:
    """1 by the root of a float, where nothing else needs that: one instruction has both, where a
    root and a quotient of all bits have dozens.
    """
    divides = operation.op in QUOTIENTS and is_number(operation.inputs[0], 1)
    if (
        not (divides or operation.op == "reciprocal")
        or operation.output.dtype is not DataType.Float
    ):
        return None
    root = made_by(operation.inputs[-1], "sqrt")
    if root is None or len(graph.uses(root.output)) > 1 or root.output.is_output:
        return None
    return Pointwise("rsqrt", root.inputs, operation.output)


def rounded_quotient(graph: Graph, operation: Pointwise) -> Pointwise | None:
    """A quotient of floats of which all that is left has 16 bits, within 2 ulp."""
    quotient, uses = operation.output, graph.uses(operation.output)
    rounded = all(
        isinstance(use, Pointwise) and use.op == "cast" and use.output.dtype.is_half for use in uses
    )
    if operation.op not in QUOTIENTS or quotient.dtype is not DataType.Float:
        return None
    if not uses or not rounded or quotient.is_output:
        return None
    return Pointwise("divide_full", operation.inputs, quotient)


def near_quotient(graph: Graph, operation: Pointwise) -> Pointwise | None:
    """A quotient within 2 ulp of floats by those of a tensor, where that does as well: all that is
    made of it are products, sums with other tensors, what is rounded to 16 bits, and sums along
    rows, which may be left as they are: they have roundings of their own.
    """
    if operation.op not in QUOTIENTS or operation.output.dtype is not DataType.Float:
        return None
    if not isinstance(operation.inputs[1], TensorView):
        return None
    pending, seen = [operation.output], set[TensorView]()
    while pending:
        value = pending.pop()
        if value.is_output:
            return None
        for use in graph.uses(value):
            if not _keeps_precision(use, value):
                return None
            rounded = isinstance(use, Reduction) or use.outputs[0].dtype.is_narrow
            pending += [t for t in use.outputs if not rounded and t not in seen]
            seen.update(use.outputs)
    return Pointwise("divide_near", operation.inputs, operation.output)


def is_by_one_of_a_row(operation: Pointwise) -> bool:
    """Whether several elements have the same second operand, such as a divisor."""
    other = unexpanded(operation.inputs[1])
    if not isinstance(other, TensorView):
        return False
    axes = zip(other.shape_axes, operation.output.shape_axes, strict=True)
    return any(one.is_broadcast and not each.is_broadcast for one, each in axes)


def _keeps_precision(use: Operation, value: TensorView) -> bool:
    """Whether what it makes of a value has an error of about that one's, or roundings of many."""
    match use:
        case Reduction(op="sum") | Move():
            return True
        case Pointwise(op="where", inputs=(condition, *_)):
            return condition is not value
        case Pointwise(op="add" | "sub"):
            return all(isinstance(each, TensorView) for each in use.inputs)
        case Pointwise(op="mul" | "neg" | "set" | "div" | "truediv"):
            return True
        case Pointwise(op="cast"):
            return use.output.dtype.is_half
    return False
