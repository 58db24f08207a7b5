"""Inputs that kernels write in place share no element with the other inputs of a call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpsmith.errors import ArgumentError
from warpsmith.ir.program import Program
from warpsmith.ir.tensor import TensorView
from warpsmith.runtime import arrays

MOST_WORK = 10_000
"""Steps of the search for an element that two arrays share, before they are taken to share one."""


def refuse_overlaps(fusion: Program, inputs: Sequence[object]) -> None:
    """Refuse a call that is given an element twice, where kernels write the one while they read the
    other.

    Results that replace all of an input are copied there behind the kernels, and need no such rule.

    Raises:
        ArgumentError: WS0329, with both arguments.
    """
    tensors = [place for place, value in enumerate(fusion.inputs) if isinstance(value, TensorView)]
    if len(inputs) != len(fusion.inputs):
        return  # which is refused where arguments are bound
    for output in fusion.outputs:
        if output.place is None or output.alias_of is None:
            continue
        written = fusion.inputs.index(output.alias_of)
        for other in tensors:
            if other != written and _share(inputs[written], inputs[other]):
                raise ArgumentError(
                    f"arguments {written} and {other} share memory, and kernels write into "
                    f"argument {written}",
                    code="WS0329",
                    remedy=f"pass a copy as argument {other}, or define one input for both",
                )


def _share(one: object, other: object) -> bool:
    a, b = arrays.describe(one), arrays.describe(other)
    if (a.device_kind, a.ordinal) != (b.device_kind, b.ordinal):
        return False
    try:
        return np.shares_memory(_lying_as(a), _lying_as(b), max_work=MOST_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _lying_as(info: arrays.ArrayInfo) -> np.ndarray:
    """An array of the same addresses, which may be a GPU's: nobody reads it."""
    return np.asarray(_Lying(info))


class _Lying:
    def __init__(self, info: arrays.ArrayInfo) -> None:
        size = arrays.NUMPY_DTYPES[info.dtype].itemsize
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{size}",
            "shape": info.shape,
            "strides": tuple(stride * size for stride in info.strides),
            "data": (info.pointer, True),
        }
