"""Stages whose values threads branch by, where nobody wrote some of them.

A `bulk` copy writes nothing where its source has ended. What is computed of that is stored nowhere,
and costs nothing, unless it decides which way a thread goes.
"""

from __future__ import annotations

from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Move, Pointwise, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import Operation, TensorView

_NAMES = (
    "acosh asinh atan atan2 atanh cos div erf erfc erfcinv erfcx erfinv fmod gcd kept lgamma log "
    "log10 log1p log2 mod nextafter philox pow remainder sin tan tanh truediv"
)
_IN_DOUBLE = "acos asin cosh exp exp2 expm1 sigmoid silu sinh"

BRANCHING = frozenset(_NAMES.split())
"""Functions whose text NVRTC makes branches of."""

BRANCHING_IN_DOUBLE = BRANCHING | frozenset(_IN_DOUBLE.split())
"""Those of numbers in double precision."""


def branched_by(fusion: Fusion) -> frozenset[TensorView]:
    """The tensors that `bulk` copies load, of which something is computed by branches.

    Reductions and products leave out what is out of range.
    """
    needed: set[TensorView] = set()
    for operation in reversed(fusion.operations):
        if not isinstance(operation, Pointwise | Move):
            continue
        if _branches(operation) or not needed.isdisjoint(operation.outputs):
            needed.update(tensor_inputs(operation))
    return frozenset(
        tensor
        for tensor in needed
        if tensor.copied_by is LoadStoreOpType.bulk and tensor.memory is MemoryType.shared
    )


def _branches(operation: Operation) -> bool:
    if not isinstance(operation, Pointwise):
        return False
    double = operation.output.dtype is DataType.Double
    return operation.op in (BRANCHING_IN_DOUBLE if double else BRANCHING)
