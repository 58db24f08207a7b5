"""Tensors as they lie in memory in one call."""

from __future__ import annotations

from math import prod

from warpsmith.ir.tensor import TensorView
from warpsmith.schedulers.problem import Problem
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Stored:
    """What a tensor takes in memory; `dtype` and `shape` say what is stored."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int

    def __str__(self) -> str:
        """`T4 bfloat16[16,1024]`."""
        return f"{self.name} {self.dtype}[{','.join(map(str, self.shape))}]"


def stored(tensor: TensorView, problem: Problem) -> Stored:
    """A tensor in a call; its size in bytes counts each element once."""
    shape = tuple(problem.size(axis.extent) for axis in tensor.shape_axes)
    return Stored(tensor.name, tensor.dtype.value, shape, prod(shape) * tensor.dtype.size)
