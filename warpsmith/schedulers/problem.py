"""What a heuristic may look at: the sizes of one call and the device that it runs on."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import field
from math import prod
from typing import Any, Literal

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Expr, evaluate
from warpsmith.ir.tensor import TensorView
from warpsmith.targets.target import Target
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One call.

    Attributes:
        values: integer symbols by name: sizes `T0_size1`, strides `T0_stride1`, integer scalars.
        alignment: bytes that each global tensor's address is a multiple of, by name; 16 where
            absent (warpsmith's own allocations are).
        target: that is to run it.
        rings: whether loads run ahead through shared memory: `auto`, `prefer` or `never`.
        warp_specialize: whether a role of its own loads what kernels of rows compute.
        autotune: whether what was timed on the user's device decides, and not the model alone.
        chained: the call has other kernels, too.
        pace: whether blocks that loop over many bytes of rows keep to the memory's pace.
        found: what models have found for the call, by what they were asked; problems that are made
            of this one have it, too.
    """

    values: Mapping[str, int]
    alignment: Mapping[str, int]
    target: Target
    rings: str = "auto"
    warp_specialize: bool | Literal["auto"] = "auto"
    pace: bool = True
    autotune: bool = False
    chained: bool = False
    found: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    def size(self, expr: Expr) -> int:
        return evaluate(expr, self.values)

    def elements(self, tensor: TensorView) -> int:
        """Of a tensor."""
        return prod(self.size(axis.extent) for axis in tensor.shape_axes)

    def bytes_of(self, tensor: TensorView) -> int:
        """Of all its elements."""
        return self.elements(tensor) * tensor.dtype.size

    def aligned(self, tensor: TensorView, width: int) -> bool:
        """Whether vectors of `width` elements of the tensor start at multiples of their size."""
        wanted = min(width * tensor.dtype.size, 16)
        return self.alignment.get(tensor.name, 16) % wanted == 0


def widest_vector(dtypes: list[DataType]) -> int:
    """Elements per access: 16 bytes of the narrowest type, at most 32 of the widest."""
    if not dtypes:
        return 1
    narrow = min(dtype.size for dtype in dtypes)
    wide = max(dtype.size for dtype in dtypes)
    return max(1, min(16 // narrow, 32 // wide))
