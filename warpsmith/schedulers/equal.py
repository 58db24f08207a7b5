"""What windows, and elements of heads, compute at the same places is computed once."""

from __future__ import annotations

from warpsmith.ir.exprs import Full, Iota, Move, Pointwise, tensor_inputs, with_values
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.random_blocks import OF_BLOCK
from warpsmith.ir.reads import Read, is_window
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.ir.turns import turn_of
from warpsmith.ops.liveness import remove_dead


def share_equal(fusion: Fusion) -> None:
    """Keep one of operations that are equal, in place, of a fusion that has windows, each of which
    reads its factor of a channel, say, or turns heads.
    """
    if not any(is_window(op) or turn_of(op) for op in fusion.operations):
        return
    known: dict[object, TensorView] = {}
    same: dict[TensorView, TensorView] = {}
    kept: list[Operation] = []
    for operation in fusion.operations:
        found = operation
        if any(each in same for each in tensor_inputs(operation)):
            inputs = [
                same.get(value, value) if isinstance(value, TensorView) else value
                for value in operation.inputs
            ]
            found = with_values(operation, inputs, operation.outputs)
            for output in found.outputs:
                output.definition = found
        key = _key(found)
        if key is not None and not found.outputs[0].is_output:
            first = known.setdefault(key, found.outputs[0])
            if first is not found.outputs[0]:
                same[found.outputs[0]] = first
                continue
        kept.append(found)
    fusion.operations = kept
    remove_dead(fusion)  # what counted is not shared


def _key(operation: Operation) -> object:
    """Equal for operations that give the same; None of such as are left as they are."""
    inputs: tuple[object, ...] = operation.inputs
    kind: object = None
    if isinstance(operation, Pointwise):
        kind = None if operation.op in OF_BLOCK else operation.op
    elif isinstance(operation, Read):
        sources, indices = len(operation.sources), len(operation.indices)
        kind = ("read", operation.kind, sources, indices, operation.fill is None)
    elif isinstance(operation, Move):
        moved = (operation.kind, operation.origin)
        kind = None if operation.output.transforms else moved
        counted = operation.source.definition
        if kind is not None and isinstance(counted, Iota):  # no two dimensions have one of them
            kind = (*moved, counted.start, counted.step, operation.source.dtype)
            inputs = ()
    elif isinstance(operation, Full):
        kind = "full"
    if kind is None:
        return None
    output = operation.outputs[0]
    axes = tuple((axis.extent, axis.kind) for axis in output.root)
    return kind, inputs, output.dtype, axes
