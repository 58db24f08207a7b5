"""Results that are views: in memory, element for element, what other tensors are."""

from __future__ import annotations

from collections.abc import Container

from warpsmith.ir import integers
from warpsmith.ir.exprs import Move, Pointwise
from warpsmith.ir.reads import Part, at
from warpsmith.ir.scalar import Expr
from warpsmith.ir.strides import strides
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.schedulers.chains import renames
from warpsmith.schedulers.read_through import place_before
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Viewed:
    """What a tensor is a view of, and the operations between, the last one first."""

    source: TensorView
    operations: tuple[Operation, ...]


def viewed_by(result: TensorView, stored: Container[TensorView] = ()) -> Viewed | None:
    """What a result is a reshape of that lies as it does; None for any other tensor.

    Args:
        stored: tensors that lie in memory, however they are made.
    """
    part, found = own_part(result), list[Operation]()
    while (made := part.source.definition) is not None and part.source not in stored:
        if isinstance(made, Move) and renames(made):
            part = place_before(made, part)
        elif isinstance(made, Pointwise) and made.op == "set" and _is_same(made):
            (source,) = made.inputs
            assert isinstance(source, TensorView)
            part = Part(source, part.places, part.inside)
        else:
            break
        found.append(made)
    reshaped = any(isinstance(op, Move) and op.kind == "reshape" for op in found)
    if not reshaped or False in (*result.contiguity, *part.source.contiguity):
        return None
    apart = integers.sub(_place(own_part(result)), _place(part))
    return Viewed(part.source, tuple(found)) if apart == integers.ZERO else None


def own_part(tensor: TensorView) -> Part:
    """Each element of a tensor, at its own place."""
    axes = enumerate(tensor.shape_axes)
    places = tuple(integers.ZERO if axis.is_broadcast else at(k) for k, axis in axes)
    return Part(tensor, places, integers.TRUE)


def _is_same(copy: Pointwise) -> bool:
    (source,) = copy.inputs
    return isinstance(source, TensorView) and source.dtype is copy.output.dtype


def _place(part: Part) -> Expr:
    """Where in memory an element is."""
    source = part.source
    steps = strides(source, [axis.extent for axis in source.shape_axes])
    pairs = zip(part.places, steps, source.shape_axes, strict=True)
    return integers.add(*(integers.mul(p, s) for p, s, axis in pairs if not axis.is_broadcast))
