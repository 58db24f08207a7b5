"""Reductions over dimensions that a reshape merges are over those that it merges.

Layers of models flatten `[batch, length, width]` to rows before they sum a bias's gradient. Told
so, its rows are those that a norm's gradient walks, and one kernel can do both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warpsmith.ir.domains import IterDomain, IterType, Merge
from warpsmith.ir.exprs import Move, Pointwise, Reduction, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.readers import Readers, readers_of
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.ops.liveness import remove_dead
from warpsmith.ops.promotion import fresh_axes

MOST_MADE = 64
"""Tensors that are made of reshapes and computed before these."""


def reduce_before_merging(fusion: Fusion) -> None:
    """Apply it in place, to what is computed; through a cast, which then comes before, too, and
    through all that is made of tensors that merge the same and is needed by reductions alone. Not
    where another reduction of what is reshaped is over what merges: one kernel walks the same.
    """
    readers = readers_of(fusion.operations)
    found: dict[Operation, Move] = {}
    for operation in fusion.operations:
        if isinstance(operation, Reduction) and len(operation.sources) == 1:
            move = _merging(operation.source) or _merging_all(operation.source, readers)
            if move is not None:
                found[operation] = move
    for operation, move in found.items():
        parts = _merged(move)
        if parts is not None and found.keys() >= set(_reductions_of(move.output, readers)):
            assert isinstance(operation, Reduction)
            _reduce_parts(fusion, operation, move, parts)
    remove_dead(fusion)


def _reductions_of(tensor: TensorView, readers: Readers) -> Iterator[Reduction]:
    """Those of what is made of a tensor element by element."""
    pending, seen = [tensor], {tensor}
    while pending:
        for use in readers.get(pending.pop(), ()):
            if isinstance(use, Reduction):
                yield use
            elif isinstance(use, Pointwise) and use.output not in seen:
                seen.add(use.output)
                pending.append(use.output)


def _merging(tensor: TensorView) -> Move | None:
    """The reshape of something computed that the tensor is, or is a cast of."""
    made = tensor.definition
    if isinstance(made, Pointwise) and made.op == "cast":
        (source,) = made.inputs
        made = source.definition if isinstance(source, TensorView) else None
    if not (isinstance(made, Move) and made.kind == "reshape"):
        return None
    return made if made.source.definition is not None else None


def _merging_all(tensor: TensorView, readers: Readers) -> Move | None:
    """One of the reshapes that a tensor is made of element by element, where all of them are of
    tensors of one shape to one shape, and nothing but reductions needs what is made of them.
    """
    found: list[Move] = []
    pending, seen = [tensor], {tensor}
    while pending and len(seen) <= MOST_MADE:
        made = pending.pop().definition
        if isinstance(made, Pointwise):
            fresh = [t for t in tensor_inputs(made) if t not in seen]
            seen.update(fresh)
            pending += fresh
        elif isinstance(made, Move) and made.kind == "reshape":
            found.append(made)
        else:
            return None
    shapes = {
        tuple(tuple(a.extent for a in t.shape_axes) for t in (m.source, m.output)) for m in found
    }
    if pending or len(shapes) != 1 or all(move.source.definition is None for move in found):
        return None
    for each in seen:
        uses = readers.get(each, ())
        if each.is_output or not all(isinstance(use, Pointwise | Reduction) for use in uses):
            return None
    return found[0]


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
    axes: list[IterDomain] = []
    for axis, whole in zip(reduction.output.root, move.output.shape_axes, strict=True):
        if axis.is_reduction:
            axes += [IterDomain(part.extent, IterType.reduction) for part in parts[whole]]
        elif len(parts[whole]) == 1:
            axes.append(axis)
        else:
            return
    source = _before(fusion, reduction, reduction.source, {})
    output = reduction.output
    output.root = output.logical = tuple(axes)
    output.loop = list(axes)
    fusion.replace(reduction, replace(reduction, sources=(source,)))


def _before(
    fusion: Fusion, reduction: Reduction, tensor: TensorView, known: dict[TensorView, TensorView]
) -> TensorView:
    """What a tensor is a reshape of, or what is made of several such as the tensor is."""
    made = tensor.definition
    if isinstance(made, Move):
        return made.source
    if tensor not in known:
        assert isinstance(made, Pointwise)
        inputs = tuple(
            _before(fusion, reduction, value, known) if isinstance(value, TensorView) else value
            for value in made.inputs
        )
        (first, *_) = (value for value in inputs if isinstance(value, TensorView))
        known[tensor] = fusion.tensor(tensor.dtype, fresh_axes(first))
        fusion.insert_before(reduction, Pointwise(made.op, inputs, known[tensor]))
    return known[tensor]
