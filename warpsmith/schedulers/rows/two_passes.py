"""Variances in two passes: where a row stays in registers, the second pass over it costs no memory.

Welford's triples are for rows that are read once and gone. Here the mean is known before the
squares are summed, which takes half the instructions, and is at least as accurate.
"""

from __future__ import annotations

from warpsmith.ir import arithmetic, integers
from warpsmith.ir.domains import IterDomain, IterType
from warpsmith.ir.exprs import Full, Move, Pointwise, Reduction, reduction
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.ops.liveness import remove_dead


def in_two_passes(fusion: Fusion) -> None:
    """Replace each reduction to moments: `sum(x) / n`, then `sum((x - mean)^2)` where needed."""
    for operation in list(fusion.operations):
        if not (isinstance(operation, Reduction) and operation.counts_elements):
            continue
        position = fusion.operations.index(operation)
        made = _two_passes(fusion, operation)
        fusion.operations[position : position + 1] = made
        for step in made:
            for output in step.outputs:
                output.definition = step
    remove_dead(fusion)


def _two_passes(fusion: Fusion, moments: Reduction) -> list[Operation]:
    source, (mean, m2, number) = moments.source, moments.outputs
    dtype = source.dtype
    axes = mean.logical
    reduced = [axis.is_reduction for axis in axes]
    count = integers.mul(*(axis.extent for axis in axes if axis.is_reduction))

    def like(tensor: TensorView) -> TensorView:
        return fusion.tensor(dtype, tuple(IterDomain(a.extent, a.kind) for a in tensor.shape_axes))

    total = fusion.tensor(dtype, tuple(axis.clone() for axis in axes))
    flat = [IterDomain(a.extent, a.kind) for a in axes if not a.is_reduction]
    kept = iter(flat)
    wide = fusion.tensor(
        dtype,
        tuple(
            IterDomain(integers.ONE, IterType.broadcast) if gone else _again(next(kept))
            for gone in reduced
        ),
    )
    places = iter(range(len(flat)))
    origin = tuple(None if gone else next(places) for gone in reduced)
    distance, square = like(source), like(source)
    _without_reductions(mean, flat)
    _without_reductions(number, [_again(axis) for axis in flat])
    return [
        reduction("sum", source, total),
        Pointwise("div", (total, arithmetic.convert(count, dtype)), mean),
        Move("broadcast", mean, wide, origin),
        Pointwise("sub", (source, wide), distance),
        Pointwise("mul", (distance, distance), square),
        reduction("sum", square, m2),
        Full(arithmetic.convert(count, dtype), number),
    ]


def _again(axis: IterDomain) -> IterDomain:
    return IterDomain(axis.extent, axis.kind)


def _without_reductions(tensor: TensorView, axes: list[IterDomain]) -> None:
    """A result that no reduction computes any more has only the axes that were kept."""
    tensor.root = tensor.logical = tuple(axes)
    tensor.loop = list(axes)
    tensor.transforms = []
