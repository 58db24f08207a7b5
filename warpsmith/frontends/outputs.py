"""Results of a fusion, and inputs that results are written into."""

from __future__ import annotations

from warpsmith import ops
from warpsmith.callers import caller
from warpsmith.errors import DefinitionError
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.program import Output
from warpsmith.ir.scalar import Const
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.values import as_tensor


def add_output(fusion: Fusion, value: object, alias_input: object = None) -> None:
    """Make a tensor a result; with `alias_input` it is written into that input and not returned.

    Inputs, and tensors that are results already, are copied: each result has memory of its own.
    """
    tensor = as_tensor(value, "add_output")
    if tensor.fusion is not fusion:
        raise DefinitionError(
            f"add_output got {tensor.name} of another fusion",
            code="WS0114",
            remedy="add it to the fusion that defines it",
        )
    if tensor.is_input or tensor.is_output:
        tensor = ops.set(tensor)
    alias = None if alias_input is None else _checked_alias(fusion, tensor, alias_input)
    fusion.outputs.append(Output(tensor, alias, caller()))


def _checked_alias(fusion: Fusion, tensor: TensorView, alias_input: object) -> TensorView:
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
    known = zip(shape, wanted, strict=False)
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
