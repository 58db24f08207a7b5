"""Sums of a few elements, none of which lies in memory: operations on each, and no reduction.

Such are distances of all pairs of points in space, whose differences are of repeated coordinates:
threads of rows of three would have little to do, and meet for it.
"""

from __future__ import annotations

from functools import reduce

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.exprs import Move, Pointwise, Reduction, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.reads import Read
from warpsmith.ir.tensor import TensorView
from warpsmith.ops import pointwise
from warpsmith.ops.slicing import select
from warpsmith.ops.values import as_tensor
from warpsmith.schedulers.chains import MOST_REPEATED, renames

FEW = 4
"""Elements of such a row, at most: each is computed in turn, of coordinates that L1 gives again."""

JOINS = {"sum": pointwise.add, "max": pointwise.maximum, "min": pointwise.minimum}


def add_in_place_of_sum(fusion: Fusion, total: Reduction) -> bool:
    """Put `x[.., 0] + x[.., 1] + x[.., 2]` for `sum(x, -1)`; whether the reduction is such."""
    output, join = total.output, JOINS.get(total.op)
    gone = [k for k, axis in enumerate(output.logical) if axis.is_reduction]
    if join is None or len(total.outputs) > 1 or gone != [len(output.logical) - 1]:
        return False
    source = total.source
    count = integers.constant(source.shape_axes[-1].extent)
    if count is None or not 1 < count <= FEW or source.dtype is not output.dtype:
        return False
    if source.dtype.is_narrow or not _is_of_repeated(fusion, source):
        return False
    with fusion.placed_before(total):
        parts = (as_tensor(select(source, k, -1), "sum") for k in range(count))
        found = as_tensor(reduce(join, parts), "sum")
    kept = (axis for axis in output.logical if not axis.is_reduction)
    output.root = output.logical = tuple(IterDomain(axis.extent, axis.kind) for axis in kept)
    output.loop = list(output.logical)
    fusion.replace(total, Pointwise("set", (found,), output))
    return True


def _is_of_repeated(fusion: Fusion, source: TensorView) -> bool:
    """Whether a few operations make a tensor, of inputs of which none has all of its dimensions:
    what else needs any of it computes that again.
    """
    whole, computed = len(source.concrete_order()), 0
    needed = {source}
    for operation in reversed(fusion.operations):
        if needed.isdisjoint(operation.outputs):
            continue
        (tensor,) = operation.outputs if len(operation.outputs) == 1 else (None,)
        moved = isinstance(operation, Move) and renames(operation) and operation.kind != "reshape"
        moved |= isinstance(operation, Read) and not operation.indices
        if tensor is None or tensor.is_output:
            return False
        if not (moved or isinstance(operation, Pointwise)):
            return False
        computed += isinstance(operation, Pointwise)
        needed |= set(tensor_inputs(operation))
    inputs = [tensor for tensor in needed if tensor.is_input]
    few = all(len(tensor.concrete_order()) < whole for tensor in inputs)
    return bool(inputs) and few and computed <= MOST_REPEATED
