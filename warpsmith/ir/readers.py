"""Who reads each tensor of a program, found in one walk over its operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.tensor import Operation, TensorView

Readers = Mapping[TensorView, Sequence[Operation]]
"""By tensor, the operations that read it, in order, each once; what nobody reads is left out."""


def readers_of(operations: Iterable[Operation]) -> Readers:
    """The readers of all tensors, as the operations stand now."""
    found: dict[TensorView, list[Operation]] = {}
    for operation in operations:
        for source in tensor_inputs(operation):
            found.setdefault(source, []).append(operation)
    return found
