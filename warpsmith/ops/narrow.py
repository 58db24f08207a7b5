"""Operands of products that are computed of fewer bytes, as weights of 8 or 4 bits are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpsmith.ir.exprs import Move, Pointwise, tensor_inputs
from warpsmith.ir.tensor import TensorView
from warpsmith.reach import reached


def narrow_inputs(operand: TensorView) -> tuple[TensorView, ...]:
    """The inputs, with all dimensions of an operand, that it is computed of element by element;
    none where an element of all of them together has no fewer bytes than one of the operand.
    """
    found = tuple(dict.fromkeys(_inputs(operand)))
    narrow = sum(tensor.dtype.size for tensor in found) < operand.dtype.size
    return found if narrow else ()


def _inputs(operand: TensorView) -> Iterator[TensorView]:
    """Those inputs; the operand's own number of bytes, as itself, where it is computed otherwise.

    What is repeated is smaller, and so is what lacks a dimension.
    """
    rank = sum(not axis.is_broadcast for axis in operand.shape_axes)

    def before(tensor: TensorView) -> Sequence[TensorView]:
        made = tensor.definition
        repeats = isinstance(made, Move) and made.repeats
        return tensor_inputs(made) if isinstance(made, Pointwise | Move) and not repeats else ()

    for tensor in reached((operand,), before):
        made = tensor.definition
        if made is None:
            if sum(not axis.is_broadcast for axis in tensor.shape_axes) >= rank:
                yield tensor
        elif not isinstance(made, Pointwise | Move) and tensor_inputs(made):
            yield operand
