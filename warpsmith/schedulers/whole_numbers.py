"""Quotients that become whole numbers or floats of 8 bits, as weights do, and what these become."""

from __future__ import annotations

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Pointwise
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.graph import Graph
from warpsmith.ir.scalar import Const
from warpsmith.ir.tensor import Operation, TensorView, Value
from warpsmith.ops.promotion import fresh_axes
from warpsmith.schedulers.quotients import QUOTIENTS, is_by_one_of_a_row

BOUNDS = ("clamp", "maximum", "minimum")
"""What leaves a whole number whole, if its numbers are, and one of few bits one of few."""

NEAREST = (DataType.Int32, DataType.Int16, DataType.Int8, DataType.UInt8)
"""Types that a float becomes by way of Int32."""


def whole_quotient(graph: Graph, operation: Pointwise) -> Pointwise | None:
    """A quotient within 1 ulp of floats by one of their row, of which nothing but the nearest whole
    number is left, or the nearest float of 8 bits. Quotients that lie in the middle of two are
    exact, as all of few bits are.
    """
    output, uses = operation.output, graph.uses(operation.output)
    if operation.op not in QUOTIENTS or output.dtype is not DataType.Float:
        return None
    if output.is_output or not uses:
        return None
    if not (all(_rounds(graph, use) for use in uses) and is_by_one_of_a_row(operation)):
        return None
    return Pointwise("divide_whole", operation.inputs, output)


def _rounds(graph: Graph, use: Operation) -> bool:
    """Whether it leaves of a quotient what has few bits, behind such bounds, too."""
    if not isinstance(use, Pointwise):
        return False
    if use.op in BOUNDS and not use.output.is_output:
        bounded = all(isinstance(bound, Const) and _is_whole(bound) for bound in use.inputs[1:])
        return bounded and all(_rounds(graph, each) for each in graph.uses(use.output))
    return use.op == "round" or (use.op == "cast" and use.output.dtype.is_float8)


def rounding_cast(fusion: Fusion, graph: Graph, operation: Pointwise) -> Pointwise | None:
    """`cast(nearest_int(clamp(x)))` in place of `cast(clamp(round(x)))` between whole numbers: one
    instruction rounds and casts. What is cast is put before it.
    """
    if operation.op != "cast" or operation.output.dtype not in NEAREST:
        return None
    bounds: list[Pointwise] = []
    value = operation.inputs[0]
    while (made := _alone(graph, value)) is not None and made.op in BOUNDS:
        if not all(isinstance(bound, Const) and _is_whole(bound) for bound in made.inputs[1:]):
            return None
        bounds.append(made)
        value = made.inputs[0]
    if made is None or made.op != "round":
        return None
    (value,) = made.inputs
    assert isinstance(value, TensorView)
    for bound in reversed(bounds):
        within = fusion.tensor(DataType.Float, fresh_axes(value))
        inputs = (value, *bound.inputs[1:])
        fusion.insert_before(operation, Pointwise(bound.op, inputs, within))
        value = within
    nearest = fusion.tensor(DataType.Int32, fresh_axes(value))
    fusion.insert_before(operation, Pointwise("nearest_int", (value,), nearest))
    return Pointwise("cast", (nearest,), operation.output)


def _alone(graph: Graph, value: Value) -> Pointwise | None:
    """What makes a float that nothing but one operation needs."""
    if not isinstance(value, TensorView) or value.dtype is not DataType.Float or value.is_output:
        return None
    made = value.definition
    return made if isinstance(made, Pointwise) and len(graph.uses(value)) == 1 else None


def _is_whole(bound: Const) -> bool:
    return float(bound.value).is_integer()
