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
from warpsmith.ir.exprs import Matmul, Move, Pointwise, Reduction, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.graph import Graph
from warpsmith.ir.program import Program
from warpsmith.ir.reads import Read
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.ops.liveness import remove_dead
from warpsmith.ops.promotion import fresh_axes
from warpsmith.schedulers.exponentials import is_rounded_exponential, is_summed_exponential
from warpsmith.schedulers.few_summed import add_in_place_of_sum
from warpsmith.schedulers.one_of_a_row import choose_in_place_of_sum, is_number
from warpsmith.schedulers.quotients import (
    divided_by_parts,
    near_quotient,
    root_below_one,
)
from warpsmith.schedulers.stacked_bits import unpack_in_place_of_stack
from warpsmith.schedulers.whole_numbers import round_as_it_is_cast, whole_quotient

SIGMOIDS = {"sigmoid": "sigmoid_near", "silu": "silu_near"}

Casts = dict[tuple[TensorView, DataType], TensorView]
"""Casts that were put in front of products, by what is cast and to which type."""


def rewrite(fusion: Fusion) -> None:
    """Apply the rules in place; give it a copy."""
    graph, precise = Graph.of(fusion), _precise(fusion)
    casts: Casts = {}
    unpacked = False
    for operation in list(fusion.operations):
        inner = _one_plus_tanh(graph, operation)
        if inner is not None:
            assert isinstance(operation, Pointwise)
            better = Pointwise("one_plus_tanh", inner.inputs, operation.output)
            fusion.replace(operation, better)
            fusion.operations.remove(inner)
        elif (kept := _kept_or_nothing(graph, operation)) is not None:
            assert isinstance(operation, Pointwise)
            _add_to_what_is_kept(fusion, operation, *kept)
        elif (root := root_below_one(graph, operation)) is not None:
            assert isinstance(operation, Pointwise)
            fusion.replace(operation, Pointwise("rsqrt", root.inputs, operation.output))
            fusion.operations.remove(root)
        elif (quotient := divided_by_parts(operation)) is not None:
            fusion.replace(operation, quotient)
        elif _is_rounded_quotient(graph, operation):
            assert isinstance(operation, Pointwise)
            better = Pointwise("divide_full", operation.inputs, operation.output)
            fusion.replace(operation, better)
        elif (quotient := whole_quotient(graph, operation)) is not None:
            fusion.replace(operation, quotient)
        elif round_as_it_is_cast(fusion, graph, operation):
            pass
        elif (quotient := near_quotient(graph, operation)) is not None:
            fusion.replace(operation, quotient)
        elif is_rounded_exponential(graph, operation, precise) or (
            is_summed_exponential(graph, operation)
        ):
            assert isinstance(operation, Pointwise)
            fusion.replace(operation, Pointwise("exp_near", operation.inputs, operation.output))
        elif _is_rounded_sigmoid(graph, operation, precise):
            assert isinstance(operation, Pointwise)
            name = SIGMOIDS[operation.op]
            fusion.replace(operation, Pointwise(name, operation.inputs, operation.output))
        elif isinstance(operation, Matmul):
            _read_unmoved(fusion, graph, casts, operation)
        elif isinstance(operation, Reduction):
            if not choose_in_place_of_sum(fusion, operation):
                add_in_place_of_sum(fusion, operation)
        elif isinstance(operation, Read):
            unpacked |= unpack_in_place_of_stack(fusion, operation)
    if unpacked:
        remove_dead(fusion)  # the halves


def _one_plus_tanh(graph: Graph, operation: Operation) -> Pointwise | None:
    """The tanh inside `1 + tanh(x)`, when nothing else needs it."""
    if not (isinstance(operation, Pointwise) and operation.op == "add"):
        return None
    first, second = operation.inputs
    for tanh, one in ((first, second), (second, first)):
        if not (isinstance(tanh, TensorView) and is_number(one, 1)):
            continue
        inner = tanh.definition
        if not (isinstance(inner, Pointwise) and inner.op == "tanh"):
            continue
        needed = len(graph.uses(tanh)) > 1 or tanh.is_output
        if tanh.dtype is DataType.Float and not needed:
            return inner
    return None


def _kept_or_nothing(graph: Graph, operation: Operation) -> tuple[Pointwise, TensorView] | None:
    """The choice of a float or 0 to which it adds something else, where nothing else needs it; and
    what it adds.
    """
    if not (isinstance(operation, Pointwise) and operation.op == "add"):
        return None
    first, second = operation.inputs
    for kept, other in ((first, second), (second, first)):
        if not (isinstance(kept, TensorView) and isinstance(other, TensorView)):
            continue
        inner = kept.definition
        if not (isinstance(inner, Pointwise) and inner.op == "where"):
            continue
        _, value, nothing = inner.inputs
        needed = len(graph.uses(kept)) > 1 or kept.is_output or kept is other
        if needed or not isinstance(value, TensorView) or not is_number(nothing, 0):
            continue
        if value.dtype is kept.dtype is other.dtype is DataType.Float:
            return inner, other
    return None


def _add_to_what_is_kept(
    fusion: Fusion, operation: Pointwise, choice: Pointwise, other: TensorView
) -> None:
    condition, kept, _ = choice.inputs
    total = fusion.tensor(operation.output.dtype, fresh_axes(operation.output))
    fusion.insert_before(operation, Pointwise("add", (kept, other), total))
    fusion.replace(operation, Pointwise("where", (condition, total, other), operation.output))
    fusion.operations.remove(choice)


def _is_rounded_quotient(graph: Graph, operation: Operation) -> bool:
    """Whether it divides floats, and all that is left of the quotient has 16 bits."""
    if not (isinstance(operation, Pointwise) and operation.op in ("div", "truediv")):
        return False
    quotient, uses = operation.output, graph.uses(operation.output)
    rounded = all(
        isinstance(use, Pointwise) and use.op == "cast" and use.output.dtype.is_half for use in uses
    )
    return quotient.dtype is DataType.Float and bool(uses) and rounded and not quotient.is_output


def _precise(fusion: Program) -> set[TensorView]:
    """The tensors that some result of more than 16 bits is made of."""
    found = {t for t in fusion.tensors if t.is_output and not t.dtype.is_narrow}
    for operation in reversed(fusion.operations):
        if any(output in found for output in operation.outputs):
            found.update(tensor_inputs(operation))
    return found


def _is_rounded_sigmoid(
    graph: Graph, operation: Operation, precise: Collection[TensorView]
) -> bool:
    """Whether it is one of floats, and all that is made of it are products, until these have 16
    bits.
    """
    if not (isinstance(operation, Pointwise) and operation.op in SIGMOIDS):
        return False
    if operation.output.dtype is not DataType.Float or operation.output in precise:
        return False
    pending = [operation.output]
    while pending:
        for use in graph.uses(pending.pop()):
            if not (isinstance(use, Pointwise) and use.op in ("mul", "neg", "set", "cast")):
                return False
            pending += [t for t in use.outputs if t.dtype is DataType.Float]
    return True


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
