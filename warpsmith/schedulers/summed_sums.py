"""Sums of everything of which rows were summed before, as means of what each row's loss is."""

from __future__ import annotations

from warpsmith.ir.exprs import Move, Pointwise, Reduction, with_values
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.ops import reductions
from warpsmith.ops.promotion import fresh_axes
from warpsmith.schedulers.chains import renames

_LINEAR = ("mul", "div", "neg", "times_parts")
"""Operations by scalars that may come behind a sum as well as before it."""


def sum_once(fusion: Fusion, total: Reduction) -> bool:
    """Put `sum(x) * a` for `sum(sum(x, 1) * a)`, where nothing else needs sums of rows, or walks
    such rows; whether the reduction is such. One kernel does what takes another one else.
    """
    if not _is_sum(total) or not all(axis.is_reduction for axis in total.output.logical):
        return False
    value, scales, gone = total.source, list[Pointwise](), list[Operation]()
    while not isinstance(made := value.definition, Reduction):
        if value.is_output or len(fusion.uses(value)) > 1:
            return False
        if isinstance(made, Pointwise) and (source := _scaled(made)) is not None:
            scales.append(made)
            value = source
        elif isinstance(made, Move) and made.kind != "expand" and renames(made):
            value = made.source
        else:
            return False
        gone.append(made)
    if value.is_output or len(fusion.uses(value)) > 1 or not _is_sum(made):
        return False
    if value.dtype is not total.output.dtype or _others_walk(fusion, made, total):
        return False
    with fusion.placed_before(total):
        once = reductions.sum(made.source)
        found = once
        for scale in reversed(scales):
            given = [found if isinstance(each, TensorView) else each for each in scale.inputs]
            scaled = fusion.tensor(scale.output.dtype, fresh_axes(found))
            fusion.append(with_values(scale, given, [scaled]))
            found = scaled
    output = total.output
    output.root = output.logical = ()
    output.loop = []
    fusion.replace(total, Pointwise("set", (found,), output))
    for operation in (*gone, made):
        fusion.operations.remove(operation)
    if isinstance(once.definition, Reduction):
        sum_once(fusion, once.definition)
    return True


def _is_sum(operation: Reduction) -> bool:
    one = operation.op == "sum" and len(operation.outputs) == 1
    return one and operation.output.dtype.is_float and operation.source.dtype.is_float


def _scaled(made: Pointwise) -> TensorView | None:
    """What an operation that is linear in it multiplies by a scalar."""
    first, *others = made.inputs
    if made.op == "mul" and not isinstance(first, TensorView):
        first, others = others[0], [first]
    linear = made.op in _LINEAR and not any(isinstance(each, TensorView) for each in others)
    return first if linear and isinstance(first, TensorView) else None


def _others_walk(fusion: Fusion, inner: Reduction, total: Reduction) -> bool:
    """Whether a kernel may walk the same rows for other reductions, too."""
    extents = [axis.extent for axis in inner.source.shape_axes]
    return any(
        isinstance(other, Reduction)
        and other not in (inner, total)
        and [axis.extent for axis in other.source.shape_axes] == extents
        for other in fusion.operations
    )
