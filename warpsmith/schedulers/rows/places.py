"""Places of extremes of rows that stay in registers, by an extreme and the least place that has it.

A state of both is for rows that are read once and gone: to join two takes ten instructions. Here a
second pass over a row costs no memory, and an extreme of 16 bits takes half an instruction.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from warpsmith.ir import integers
from warpsmith.ir.carry import Carry, sides, simple
from warpsmith.ir.domains import IterDomain, IterType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Move, Reduction, reduction
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.program import Program
from warpsmith.ir.scalar import Apply
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.ops import pointwise
from warpsmith.ops.carries import ARGMAX, ARGMIN
from warpsmith.ops.values import as_tensor


def finds_places(program: Program) -> bool:
    """Whether it reduces something to the place of an extreme."""
    return any(_extreme_of(operation) is not None for operation in program.operations)


def places_of_extremes(fusion: Fusion) -> None:
    """Put `m = max(x)` and `min(where(x is m, place, all there are))` for each such reduction; a
    NaN is the extreme wherever there is one.
    """
    for operation in list(fusion.operations):
        rule = _extreme_of(operation)
        if rule is None or not isinstance(operation, Reduction):
            continue
        (source, places), (value, place) = operation.sources, operation.outputs
        assert isinstance(source, TensorView)
        least = _least(place.dtype)
        fusion.insert_before(operation, reduction(rule, source, value))
        with fusion.placed_before(operation):
            wide = _wide(fusion, value)
            found = pointwise.logical_or(pointwise.eq(source, wide), pointwise.ne(source, source))
            chosen = as_tensor(pointwise.where(found, places, least.identity[0]), least.name)
        fusion.replace(operation, Reduction(least, (chosen,), (place,)))


def _extreme_of(operation: Operation) -> str | None:
    """The rule of the extreme whose place an operation finds; None for one that finds none."""
    if not isinstance(operation, Reduction) or operation.carry.states != tuple(ARGMAX.identity):
        return None
    return _rules(operation.carry.dtypes).get(operation.carry)


@cache
def _rules(dtypes: tuple[DataType, ...]) -> Mapping[Carry, str]:
    """By the rule that carries a place, the one of the extreme."""
    pairs = ((ARGMAX, "max"), (ARGMIN, "min"))
    return {rule.typed(dtypes, dtypes): extreme for rule, extreme in pairs}


@cache
def _least(dtype: DataType) -> Carry:
    """The least of whole numbers that are not negated: where any may be, a minimum takes three
    instructions (`minimum_maximum` of the prelude).
    """
    a, b = (sides(("place",), (dtype,), side)[0] for side in "ab")
    join = Apply("where", (Apply("lt", (b, a), DataType.Bool), b, a), dtype)
    identity = simple("min", dtype).identity
    return Carry("least", ("place",), (dtype,), identity, (join,), needs_elements=True)


def _wide(fusion: Fusion, value: TensorView) -> TensorView:
    """What there is once a row, for each of its elements."""
    axes = tuple(
        IterDomain(integers.ONE, IterType.broadcast)
        if axis.is_reduction
        else IterDomain(axis.extent, axis.kind)
        for axis in value.logical
    )
    counted = iter(range(len(axes)))
    origin = tuple(None if axis.is_reduction else next(counted) for axis in value.logical)
    wide = fusion.tensor(value.dtype, axes)
    fusion.append(Move("broadcast", value, wide, origin))
    return wide
