"""Tensors of UInt64: seeds of random numbers, which kernels have as Ints with the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpsmith.frontends.nvfuser_direct.enums import DataType
from warpsmith.frontends.nvfuser_direct.failures import Refused, unsupported
from warpsmith.frontends.nvfuser_direct.values import TensorView


class SeedView(TensorView):
    """A tensor of UInt64, which attention's gradients take, and nothing else."""

    __slots__ = ()

    def dtype(self) -> DataType:
        return DataType.UInt64


def check(operation: str, given: Mapping[str, Any]) -> None:
    """Refuse UInt64 as an operand of anything else."""
    if operation != "sdpfa_bwd" and any(isinstance(each, SeedView) for each in given.values()):
        raise unsupported(
            f"ops.{operation} of UInt64",
            "kernels have no such elements, and only seeds of attention are",
            "use Int",
        )


def as_ints(value: Any) -> Any:
    """The same bits as Ints of PyTorch.

    Raises:
        Refused: WS0194 for other than UInt64.
    """
    import torch

    if value.dtype is not torch.uint64:
        raise Refused(
            f"Expected a seed of UInt64, but got a tensor of {value.dtype}",
            remedy="define the input by this type: it tells whose numbers decided",
        )
    return value.view(torch.int64)


def as_seeds(value: Any) -> Any:
    """The same bits as PyTorch's unsigned integers."""
    import torch

    return value.view(torch.uint64)
