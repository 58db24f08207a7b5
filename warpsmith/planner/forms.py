"""In which type a value goes through memory: the one that its user gave it.

What is computed of a 16-bit tensor reads the Float value that was rounded to it, as long as both
are in one kernel. Between kernels the rounded one takes half the bytes, and is what PyTorch reads.
"""

from __future__ import annotations

from warpsmith.ir.exprs import Matmul, Pointwise
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.graph import Graph
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.ops.promotion import cast_tensor
from warpsmith.planner.between import read_at_other_places


def add_narrow_forms(fusion: Fusion) -> None:
    """Give each Float value that users know as a 16-bit one a cast to that type, in place.

    Reduced results have none: they are few, and much is computed of them.
    """
    there = {source.number for op in fusion.operations if (source := _rounded_by(op)) is not None}
    operations, fusion.operations = fusion.operations, []
    for operation in operations:
        fusion.operations.append(operation)
        if isinstance(operation, Pointwise | Matmul):
            tensor = operation.output
            if tensor.narrow is not None and tensor.number not in there:
                cast_tensor(tensor, tensor.narrow)


def narrow_forms(graph: Graph) -> dict[int, int]:
    """By number of a Float value, that of the cast in which it is stored; results stay Float.

    So does what an operation repeats, or reads at other places: it can only read that as it lies in
    memory.
    """
    wide = {t.number for op in graph.operations for t in read_at_other_places(op)}
    wide |= graph.results
    found: dict[int, int] = {}
    for operation in graph.operations:
        source = _rounded_by(operation)
        if source is not None and source.number not in wide:
            found.setdefault(source.number, operation.outputs[0].number)
    return found


def _rounded_by(operation: Operation) -> TensorView | None:
    """The Float value that the operation casts to its user's type, if it does."""
    if not (isinstance(operation, Pointwise) and operation.op == "cast"):
        return None
    (source,) = operation.inputs
    if not isinstance(source, TensorView) or source.narrow is not operation.output.dtype:
        return None
    return source if isinstance(source.definition, Pointwise | Matmul) else None
