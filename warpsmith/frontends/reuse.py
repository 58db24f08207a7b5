"""Which calls with extents of 0 and 1 a trace serves that was made at other sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsmith.frontends.argument_keys import is_array
from warpsmith.ir.tensor import TensorView
from warpsmith.runtime.arrays import ArrayInfo, describe


def may_serve(tensors: Sequence[TensorView], inputs: Sequence[Any]) -> bool:
    """Whether a trace may serve a call before its own class of calls is traced.

    An extent of 1 may mean that a dimension is repeated, and then makes another program; it need
    not. The rule: where some extent of a call is 0 or 1, the earliest trace serves it whose

    - types, ranks, devices, alignment and static arguments are those of the call,
    - dimensions of more than one element lie in memory as the call's do: in the same order, with
      gaps in the same places (this function), and whose
    - sizes fit: extents that were 1 when it was traced are 1, and those that its operations need
      equal are equal (`Executable.takes`).

    Only where no trace does, as where a dimension of 1 meets one of several elements for the first
    time, the function is traced anew, and the extents of 1 are repeated dimensions of that trace.
    """
    infos = [describe(value) for value in inputs if is_array(value)]
    if not any(extent in (0, 1) for info in infos for extent in info.shape):
        return False
    return all(map(_lies_alike, tensors, infos))


def _lies_alike(tensor: TensorView, info: ArrayInfo) -> bool:
    """Whether an array has the order and the gaps of a definition, as far as it shows them. Without
    elements it has those of rows, which then are of its class.
    """
    if 0 in info.shape:
        in_order = list(tensor.memory_order()) == list(range(tensor.rank))
        return in_order and False not in tensor.contiguity
    expected, last = 1, 0
    for d in reversed(tensor.memory_order()):
        extent, stride = info.shape[d], info.strides[d]
        if extent == 1:
            continue
        if 0 < stride < last or (stride == expected) is not tensor.contiguity[d]:
            return False
        expected, last = stride * extent, stride
    return True
