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

JOINS = {
    "sum": pointwise.add,
    "prod": pointwise.mul,
    "max": pointwise.maximum,
    "min": pointwise.minimum,
}


def add_in_place_of_sum(fusion: Fusion, total: Reduction) -> bool:
    """Put `x[.., 0] + x[.., 1] + x[.., 2]` for `sum(x, -1)`; whether the reduction is such."""
    output, source, count = total.output, total.source, _few(total)
    if not count:
        return False
    if not (_is_computed(fusion, source, of_repeated=True) or _are_all_alone(fusion)):
        return False
    with fusion.placed_before(total):
        parts = (as_tensor(select(source, k, -1), "sum") for k in range(count))
        found = as_tensor(reduce(JOINS[total.op], parts), "sum")
    kept = (axis for axis in output.logical if not axis.is_reduction)
    output.root = output.logical = tuple(IterDomain(axis.extent, axis.kind) for axis in kept)
    output.loop = list(output.logical)
    fusion.replace(total, Pointwise("set", (found,), output))
    return True


def _few(total: Reduction) -> int:
    """How many elements are joined, along the last dimension alone; 0 where they are many."""
    output, source = total.output, total.source
    gone = [k for k, axis in enumerate(output.logical) if axis.is_reduction]
    if total.op not in JOINS or len(total.outputs) > 1 or gone != [len(output.logical) - 1]:
        return 0
    count = integers.constant(source.shape_axes[-1].extent)
    wide = source.dtype is output.dtype and not source.dtype.is_narrow
    return count if count is not None and wide and 1 < count <= FEW else 0


def _are_all_alone(fusion: Fusion) -> bool:
    """Whether all sums of few elements are of computed ones that nothing else needs, and are not
    needed for each of the elements again: areas of boxes, say, each of which would be a kernel.
    """
    few = [op for op in fusion.operations if isinstance(op, Reduction) and _few(op)]
    return not any(_is_repeated(fusion, total.output) for total in few) and all(
        _is_computed(fusion, total.source, of_repeated=False) for total in few
    )


def _is_repeated(fusion: Fusion, total: TensorView) -> bool:
    """Whether a tensor, or what is computed of it, is repeated along another dimension."""
    met = [total]
    for value in met:
        for use in fusion.uses(value):
            if isinstance(use, Move) and use.kind in ("broadcast", "broadcast_in_dim", "expand"):
                return True
            if isinstance(use, Pointwise | Move) and use.outputs[0] not in met:
                met.append(use.outputs[0])
    return False


def _is_computed(fusion: Fusion, source: TensorView, *, of_repeated: bool) -> bool:
    """Whether a few operations make a tensor of inputs, of which none has all of its dimensions if
    it is to be `of_repeated` ones: what else needs any of it computes that again. Of other inputs
    nothing else is to need it.
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
        if not (of_repeated or moved) and len(fusion.uses(tensor)) > 1:
            return False
        needed |= set(tensor_inputs(operation))
    inputs = [tensor for tensor in needed if tensor.is_input]
    few = all(len(tensor.concrete_order()) < whole for tensor in inputs)
    fits = few if of_repeated else computed > 0
    return bool(inputs) and fits and computed <= MOST_REPEATED
