"""Copies of the parts of a fusion, each made once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from warpsmith.ir.domains import IterDomain, Transform, of_axes
from warpsmith.ir.exprs import tensor_inputs, with_values
from warpsmith.ir.program import Output, Place
from warpsmith.ir.tensor import Operation, TensorView

Known = dict[Any, Any]
"""By the original (a fusion, an axis, a transform, a tensor, an operation) its clone."""


class Clones:
    """Clones of axes, transforms, tensors and operations, made when they are asked for.

    Scalar expressions are their own clones: they are immutable.

    Args:
        known: the clones that there are, that of the fusion among them; those that are made are
            added.
    """

    def __init__(self, known: Known) -> None:
        self._known = known

    def operation(self, operation: Operation) -> Operation:
        """The operation on the clones of its tensors; it defines those of its outputs."""
        inputs = [self.tensor(v) if isinstance(v, TensorView) else v for v in operation.inputs]
        outputs = [self.tensor(output) for output in operation.outputs]
        clone = self._known[operation] = with_values(operation, inputs, outputs)
        for output in outputs:
            output.definition = clone
        return clone

    def tensor(self, tensor: TensorView) -> TensorView:
        """A tensor of the same name, without a definition until its operation has a clone."""
        found: TensorView | None = self._known.get(tensor)
        if found is not None:
            return found
        clone = self._known[tensor] = object.__new__(type(tensor))
        for name in TensorView.__slots__:
            setattr(clone, name, getattr(tensor, name))
        clone.fusion = self._known[tensor.fusion]
        clone.definition = None
        clone.root = self._axes(tensor.root)
        clone.logical = clone.root if tensor.logical is tensor.root else self._axes(tensor.logical)
        clone.loop = list(map(self.axis, tensor.loop))
        clone.transforms = list(map(self._transform, tensor.transforms))
        clone.allocation = None if tensor.allocation is None else self._axes(tensor.allocation)
        clone.lanes = None if tensor.lanes is None else self.axis(tensor.lanes)
        return clone

    def output(self, output: Output) -> Output:
        """A result that the same line of the user's program made."""
        alias = None if output.alias_of is None else self.tensor(output.alias_of)
        place = output.place
        if place is not None:
            place = Place(place.dimension, self.tensor(place.index))
        value = self.tensor(output.value)
        return replace(output, value=value, alias_of=alias, place=place)

    def axis(self, axis: IterDomain) -> IterDomain:
        found: IterDomain | None = self._known.get(axis)
        if found is not None:
            return found
        origin = None if axis.clone_of is None else self.axis(axis.clone_of)
        clone = IterDomain(axis.extent, axis.kind, clone_of=origin, parallel=axis.parallel)
        self._known[axis] = clone
        return clone

    def _axes(self, axes: tuple[IterDomain, ...]) -> tuple[IterDomain, ...]:
        return tuple(map(self.axis, axes))

    def _transform(self, transform: Transform) -> Transform:
        """Tensors may share a transform, as they share its axes."""
        found: Transform | None = self._known.get(transform)
        if found is not None:
            return found
        clone = self._known[transform] = of_axes(transform, self.axis)
        return clone


def walked_together(
    operation: Operation, *, through_inputs: bool = False
) -> dict[IterDomain, IterDomain]:
    """Clones of the dimensions that an operation makes itself, as `iota` and `expand`
    do: the same iterations as these, which nothing else tells of a clone in the same fusion.

    Args:
        through_inputs: those that it has from an input, too, whose readers may differ in theirs.
    """
    given: set[IterDomain] = set()
    for source in tensor_inputs(operation):
        if through_inputs and source.is_input:
            continue
        given.update(axis for a, axis in operation.pairs(source) if not a.is_broadcast)
    made = (axis for output in operation.outputs for axis in output.root)
    return {a: a.clone() for a in made if not (a.is_broadcast or a in given)}
