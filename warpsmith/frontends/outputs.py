"""Results of a fusion, and inputs that results are written into."""

from __future__ import annotations

from warpsmith import ops
from warpsmith.callers import caller
from warpsmith.errors import DefinitionError
from warpsmith.ir import integers
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.places import format_of_part
from warpsmith.ir.program import Output, Place
from warpsmith.ir.scalar import Const
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.values import as_tensor


def add_output(
    fusion: Fusion,
    value: object,
    alias_input: object = None,
    at: tuple[int, object] | None = None,
    *,
    apart: bool = False,
) -> None:
    """Make a tensor a result; with `alias_input` it is written into that input and not returned.

    Inputs, and tensors that are results already, are copied: each result has memory of its own.

    Args:
        at: a dimension of that input, and an input of one integer, which says of which element of
            the dimension the result takes the place. Kernels write it there, and nothing else.
        apart: the input shares no memory with others, in any call: it may be written in place.
    """
    tensor = as_tensor(value, "add_output")
    if tensor.fusion is not fusion:
        raise DefinitionError(
            f"add_output got {tensor.name} of another fusion",
            code="WS0114",
            remedy="add it to the fusion that defines it",
        )
    if tensor.is_input or tensor.is_output or at is not None:
        tensor = ops.set(tensor)
    place = None if at is None else _checked_place(fusion, tensor, *at)
    alias = None
    if alias_input is not None:
        alias = _checked_alias(fusion, tensor, alias_input, place)
    if place is not None:
        if alias is None:
            raise _refusal(tensor, "a part of no input", "say alias_input, too")
        form = format_of_part(alias, place.dimension)
        tensor.stride_order, tensor.contiguity = form.stride_order, form.contiguity
    fusion.outputs.append(Output(tensor, alias, caller(), place, apart))


def _checked_place(fusion: Fusion, tensor: TensorView, dimension: int, index: object) -> Place:
    chosen = as_tensor(index, "add_output")
    elements = [axis.extent for axis in chosen.shape_axes]
    if chosen.fusion is not fusion or not chosen.is_input or set(elements) - {integers.ONE}:
        what = f"the element that {chosen.name} of shape {elements} says, which is no input of one"
        raise _refusal(tensor, what, "name an input of one element")
    if not chosen.dtype.is_int:
        raise _refusal(tensor, f"element {chosen.name} of dtype {chosen.dtype.name}", "cast it")
    if not 0 <= dimension < tensor.rank or tensor.shape_axes[dimension].extent != integers.ONE:
        what = f"one element of dimension {dimension}, of which it has another number"
        raise _refusal(tensor, what, "name a dimension in which the result has one element")
    return Place(dimension, chosen)


def _checked_alias(
    fusion: Fusion, tensor: TensorView, alias_input: object, place: Place | None
) -> TensorView:
    alias = as_tensor(alias_input, "add_output")
    if alias.fusion is not fusion or not alias.is_input:
        raise _refusal(tensor, f"{alias.name}, which is no input of the fusion", "name an input")
    if any(output.alias_of is alias for output in fusion.outputs):
        raise _refusal(
            tensor, f"{alias.name}, which another output is written into", "use another input"
        )
    if alias.dtype is not tensor.dtype:
        raise _refusal(
            tensor,
            f"{alias.name} of dtype {alias.dtype.name}, and has dtype {tensor.dtype.name}",
            f"cast it to {alias.dtype.name}",
        )
    shape, wanted = ([axis.extent for axis in t.shape_axes] for t in (tensor, alias))
    known = [
        pair
        for d, pair in enumerate(zip(shape, wanted, strict=False))
        if not place or d != place.dimension
    ]
    clash = any(isinstance(a, Const) and isinstance(b, Const) and a != b for a, b in known)
    if clash or len(shape) != len(wanted):
        raise _refusal(
            tensor, f"{alias.name} of shape {wanted}, and has shape {shape}", "expand or reshape it"
        )
    if tensor.stride_order is not None and tensor.memory_order() != alias.memory_order():
        theirs, own = alias.memory_order(), tensor.memory_order()
        raise _refusal(
            tensor,
            f"{alias.name}, whose dimensions lie in the order {theirs} from the slowest, and is "
            f"asked to lie in the order {own}",
            "leave its stride_order out: it lies as the input does",
        )
    return alias


def _refusal(tensor: TensorView, what: str, remedy: str) -> DefinitionError:
    return DefinitionError(
        f"output {tensor.name} cannot be written into {what}", code="WS0103", remedy=remedy
    )
