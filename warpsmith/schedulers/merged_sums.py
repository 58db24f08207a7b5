"""Reductions over dimensions that a reshape merges are over those that it merges.

Layers of models flatten `[batch, length, width]` to rows before they sum a bias's gradient. Told
so, its rows are those that a norm's gradient walks, and one kernel can do both.
"""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir.domains import IterDomain, IterType, Merge
from warpsmith.ir.exprs import Move, Pointwise, Reduction
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.liveness import remove_dead
from warpsmith.ops.promotion import fresh_axes


def reduce_before_merging(fusion: Fusion) -> None:
    """Apply it in place, to what is computed; through a cast, which then comes before, too."""
    for operation in list(fusion.operations):
        if isinstance(operation, Reduction) and len(operation.sources) == 1:
            move = _merging(operation.source)
            parts = None if move is None else _merged(move)
            if move is not None and parts is not None:
                _reduce_parts(fusion, operation, move, parts)
    remove_dead(fusion)


def _merging(tensor: TensorView) -> Move | None:
    """The reshape of something computed that the tensor is, or is a cast of."""
    made = tensor.definition
    if isinstance(made, Pointwise) and made.op == "cast":
        (source,) = made.inputs
        made = source.definition if isinstance(source, TensorView) else None
    if not (isinstance(made, Move) and made.kind == "reshape"):
        return None
    return made if made.source.definition is not None else None


def _merged(move: Move) -> dict[IterDomain, tuple[IterDomain, ...]] | None:
    """By dimension of a reshape's result, those of its source that it has; None where that splits
    any, or adds one.
    """
    axes = move.source.shape_axes
    parts: dict[IterDomain, tuple[IterDomain, ...]] = {
        axis: (axes[dim],)
        for axis, dim in zip(move.output.root, move.origin, strict=True)
        if dim is not None
    }
    for transform in move.output.transforms:
        if not isinstance(transform, Merge) or not (
            transform.outer in parts and transform.inner in parts
        ):
            return None
        parts[transform.axis] = parts.pop(transform.outer) + parts.pop(transform.inner)
    own = move.output.shape_axes
    if not parts.keys() >= {*own} or any(axis.is_broadcast for axis in (*axes, *own)):
        return None
    return parts if sum((parts[axis] for axis in own), ()) == axes else None


def _reduce_parts(
    fusion: Fusion,
    reduction: Reduction,
    move: Move,
    parts: dict[IterDomain, tuple[IterDomain, ...]],
) -> None:
    """Let it reduce what is reshaped, unless it keeps a dimension that is merged."""
    source = move.source
    axes: list[IterDomain] = []
    for axis, whole in zip(reduction.output.root, move.output.shape_axes, strict=True):
        if axis.is_reduction:
            axes += [IterDomain(part.extent, IterType.reduction) for part in parts[whole]]
        elif len(parts[whole]) == 1:
            axes.append(axis)
        else:
            return
    if source.dtype is not reduction.source.dtype:
        cast = fusion.tensor(reduction.source.dtype, fresh_axes(source))
        fusion.insert_before(reduction, Pointwise("cast", (source,), cast))
        source = cast
    output = reduction.output
    output.root = output.logical = tuple(axes)
    output.loop = list(axes)
    fusion.replace(reduction, replace(reduction, sources=(source,)))
