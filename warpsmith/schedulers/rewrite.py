"""Algebra on a fusion before it is cut and scheduled: equal in exact arithmetic, and better.

Rules:
  ONE_PLUS_TANH  `1 + tanh(x) = 2 / (1 + exp(-2 x))`, the heart of the tanh GELU. The right side
                 needs half the instructions and keeps its relative precision where tanh is near
                 -1, which the left side loses.
  KEPT_OR_NOTHING  `where(c, a, 0) + b = where(c, a + b, b)`, as dropout before a residual: what
                 scales `a` and the sum are one instruction then.
  ROUNDED_QUOTIENT  a quotient of floats that only 16-bit copies are made of is computed within 2
                 ulp: the exact one takes twice the instructions, for bits that are rounded away.
  NEAR_QUOTIENT  one of floats by those of a tensor, of which products, sums with other tensors and
                 sums of rows are made before all is rounded to 16 bits: two multiplications, and
                 once for a row that has one divisor what takes the rest.
  WHOLE_QUOTIENT  of an integer of 16 or 8 bits, as a float, by a constant of few bits, as pixels by
                 255: two multiplications have all its bits, and a division takes ten times as many
                 instructions.
  WHOLE_NUMBER  a quotient by one number of its row of which the nearest whole number is left needs
                 no more than what is exact where that is a middle; and `cast(clamp(round(x)))` is a
                 cast to the nearest of what is clamped before, where the bounds are whole.
  ROUNDED_EXPONENTIAL  likewise exp(x - y) of floats and a number of their row, as in a softmax and
                 its gradient, and exp(minimum(x, 0)), in 2 instructions in place of 8: its relative
                 error grows by 2^-23 for each unit of the argument, about what the rounding of that
                 makes of it. What is smaller than a normal number becomes 0, so it may only be
                 summed and scaled: a logarithm of it would be infinite.
  SUMMED_EXPONENTIAL  likewise exp(x - y) of floats and the largest of their row, of which nothing
                 but the sum of the row is made, whatever becomes of that: the joins of states that
                 have both (`one_pass.py`) take such exponentials, too.
  ROUNDED_SIGMOID  a sigmoid of floats, and x * sigmoid(x), of which only products are made that are
                 rounded to 16 bits: 4 and 5 instructions in place of 19 and 20, as precise as that
                 exponential. In a gated unit these stand behind a product.
  ONE_OF_A_ROW  a sum along n elements of x where their number is a place, else of 0, is x where the
                 row has that place: the sum of a loss's gradient along the classes.
  SUM_OF_FEW   a sum, or the largest, along two to four elements computed of repeated ones, as of
                 coordinates of all pairs of points, is computed of each in turn.
  SUM_OF_SUMS  of rows, scaled, where nothing else is made of these rows: the sum of everything.
  STACKED_BITS  a stack of both halves of a tensor's bytes, `stack([w & 15, (w >> 4) & 15], -1)`, is
                 computed as `unpack_int4` is, which a product's kernel can do itself.
  MOVED_OPERAND  a matrix product reads an operand that is only permuted as it lies before, under
                 other axes: `x @ transpose(w)` reads `w`; and one that is repeated along batches
                 of the other operand without these. Where that is its other operand, it reads a
                 copy, since an operation knows its operands' axes by tensor. A cast after the move
                 comes first: moves stand before the rounding.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Matmul, Move, Pointwise, Reduction, made_by, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.graph import Graph
from warpsmith.ir.program import Program
from warpsmith.ir.reads import Read
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.ops.liveness import remove_dead
from warpsmith.ops.promotion import fresh_axes
from warpsmith.schedulers.exponentials import near_exponential
from warpsmith.schedulers.few_summed import add_in_place_of_sum
from warpsmith.schedulers.one_of_a_row import choose_in_place_of_sum, is_number
from warpsmith.schedulers.quotients import (
    divided_by_parts,
    near_quotient,
    root_below_one,
    rounded_quotient,
)
from warpsmith.schedulers.stacked_bits import unpack_in_place_of_stack
from warpsmith.schedulers.summed_sums import sum_once
from warpsmith.schedulers.whole_numbers import rounding_cast, whole_quotient

SIGMOIDS = {"sigmoid": "sigmoid_near", "silu": "silu_near"}

Casts = dict[tuple[TensorView, DataType], TensorView]
"""Casts that were put in front of products, by what is cast and to which type."""


def rewrite(fusion: Fusion) -> None:
    """Apply the rules in place; give it a copy."""
    graph, precise = Graph.of(fusion), _precise(fusion)
    casts: Casts = {}
    for operation in list(fusion.operations):
        if isinstance(operation, Pointwise):
            better = _better(fusion, graph, operation, precise)
            if better is not None:
                fusion.replace(operation, better)
        elif isinstance(operation, Matmul):
            _read_unmoved(fusion, graph, casts, operation)
        elif isinstance(operation, Reduction):
            _ = (
                choose_in_place_of_sum(fusion, operation)
                or add_in_place_of_sum(fusion, operation)
                or sum_once(fusion, operation)
            )
        elif isinstance(operation, Read):
            unpack_in_place_of_stack(fusion, operation)
    remove_dead(fusion)  # what is computed otherwise


def _better(
    fusion: Fusion, graph: Graph, operation: Pointwise, precise: Collection[TensorView]
) -> Pointwise | None:
    """What the first rule that takes an operation puts in its place."""
    return (
        _one_plus_tanh(graph, operation)
        or _kept_or_nothing(fusion, graph, operation)
        or root_below_one(graph, operation)
        or divided_by_parts(operation)
        or rounded_quotient(graph, operation)
        or whole_quotient(graph, operation)
        or rounding_cast(fusion, graph, operation)
        or near_quotient(graph, operation)
        or near_exponential(graph, operation, precise)
        or _near_sigmoid(graph, operation, precise)
    )


def _one_plus_tanh(graph: Graph, operation: Pointwise) -> Pointwise | None:
    """`1 + tanh(x)` as one operation, where nothing else needs the tanh."""
    if operation.op != "add":
        return None
    first, second = operation.inputs
    for value, one in ((first, second), (second, first)):
        tanh = made_by(value, "tanh") if is_number(one, 1) else None
        if tanh is not None and _is_float_for_one(graph, tanh.output):
            return Pointwise("one_plus_tanh", tanh.inputs, operation.output)
    return None


def _kept_or_nothing(fusion: Fusion, graph: Graph, operation: Pointwise) -> Pointwise | None:
    """The choice of a sum, or of what is added, in place of a sum with the choice of a float or 0,
    where nothing else needs that. The sum is put before it.
    """
    if operation.op != "add":
        return None
    first, second = operation.inputs
    for kept, other in ((first, second), (second, first)):
        choice = made_by(kept, "where")
        if choice is None or not isinstance(other, TensorView) or kept is other:
            continue
        condition, value, nothing = choice.inputs
        if not isinstance(value, TensorView) or not is_number(nothing, 0):
            continue
        is_float = value.dtype is other.dtype is DataType.Float
        if is_float and _is_float_for_one(graph, choice.output):
            total = fusion.tensor(DataType.Float, fresh_axes(operation.output))
            fusion.insert_before(operation, Pointwise("add", (value, other), total))
            return Pointwise("where", (condition, total, other), operation.output)
    return None


def _is_float_for_one(graph: Graph, tensor: TensorView) -> bool:
    """Whether it is one of floats, of which one operation is made, and no result."""
    return tensor.dtype is DataType.Float and len(graph.uses(tensor)) == 1 and not tensor.is_output


def _precise(fusion: Program) -> set[TensorView]:
    """The tensors that some result of more than 16 bits is made of."""
    found = {t for t in fusion.tensors if t.is_output and not t.dtype.is_narrow}
    for operation in reversed(fusion.operations):
        if any(output in found for output in operation.outputs):
            found.update(tensor_inputs(operation))
    return found


def _near_sigmoid(
    graph: Graph, operation: Pointwise, precise: Collection[TensorView]
) -> Pointwise | None:
    """One of floats of which nothing but products are made, until these have 16 bits."""
    if operation.op not in SIGMOIDS or operation.output in precise:
        return None
    if operation.output.dtype is not DataType.Float:
        return None
    pending = [operation.output]
    while pending:
        for use in graph.uses(pending.pop()):
            if not (isinstance(use, Pointwise) and use.op in ("mul", "neg", "set", "cast")):
                return None
            pending += [t for t in use.outputs if t.dtype is DataType.Float]
    return Pointwise(SIGMOIDS[operation.op], operation.inputs, operation.output)


def _read_unmoved(fusion: Fusion, graph: Graph, casts: Casts, operation: Matmul) -> None:
    """Let a product read what its operands are permutations, and repetitions, of."""
    operands: list[TensorView] = [operation.a, operation.b]
    axes: list[tuple[int, ...]] = list(operation.axes)
    for side, other in ((0, 1), (1, 0)):
        while (move := _move_of(operands[side])) is not None:
            own = _before(move, axes[side], operands[other], axes[other])
            if own is None:
                break
            source, dtype = move.source, operands[side].dtype
            if source.dtype is not dtype:
                found = casts.get((source, dtype))
                if found is None:
                    found = _cast_of(graph, source, dtype, operation)
                if found is None:
                    found = _unary("cast", fusion, source, dtype, operation)
                source = casts[source, dtype] = found
            operands[side], axes[side] = source, own
    first, second = operands
    if first is operation.a and second is operation.b:
        return
    if first is second:
        second = _unary("set", fusion, second, second.dtype, operation)
    fusion.replace(operation, replace(operation, a=first, b=second, axes=(axes[0], axes[1])))


def _before(
    move: Move, own: tuple[int, ...], other: TensorView, others: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The product's axes of what is moved; None where it cannot read that.

    A dimension that is only repeated may go where the other operand has it.
    """
    shared = {p for p, axis in zip(others, other.shape_axes, strict=True) if not axis.is_broadcast}
    if len(move.source.shape_axes) != len([d for d in move.origin if d is not None]):
        return None
    found: dict[int, int] = {}
    summed = max((*own, *others))
    for dimension, place in zip(move.origin, own, strict=True):
        repeated = dimension is None or (
            move.kind == "expand" and move.source.shape_axes[dimension].is_broadcast
        )
        if repeated and (place == summed or place not in shared):
            return None
        if dimension is not None:
            found[dimension] = place
    return tuple(found[dimension] for dimension in range(len(found)))


def _move_of(tensor: TensorView) -> Move | None:
    """The permutation or repetition that the tensor is, or is a cast of."""
    definition = tensor.definition
    if isinstance(definition, Pointwise) and definition.op == "cast":
        (source,) = definition.inputs
        definition = source.definition if isinstance(source, TensorView) else None
    kinds = ("permute", "broadcast", "broadcast_in_dim", "expand")
    return definition if isinstance(definition, Move) and definition.kind in kinds else None


def _cast_of(
    graph: Graph, tensor: TensorView, dtype: DataType, before: Operation
) -> TensorView | None:
    """The tensor in a type, where the program casts it before an operation."""
    place = graph.maker[before.outputs[0].number]
    for position in graph.readers.get(tensor.number, ()):
        use = graph.operations[position]
        casts = isinstance(use, Pointwise) and use.op == "cast" and position < place
        if casts and use.outputs[0].dtype is dtype:
            return use.outputs[0]
    return None


def _unary(
    op: str, fusion: Fusion, tensor: TensorView, dtype: DataType, before: Operation
) -> TensorView:
    """A new tensor of that operation, which lies in memory as the operand does."""
    order = tensor.stride_order
    output = fusion.tensor(dtype, fresh_axes(tensor), stride_order=order)
    fusion.insert_before(before, Pointwise(op, (tensor,), output))
    return output
