"""What nvFuser refuses, in its words, where warpsmith would compute it or say it otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from warpsmith.frontends.nvfuser_direct.arguments import number
from warpsmith.frontends.nvfuser_direct.failures import Refused
from warpsmith.ir.dtypes import DataType as Type

_DIMENSIONS = ("broadcast_dims", "dim", "dims")
_LARGEST = 2**63 - 1


def dimensions(operation: str, given: Mapping[str, Any]) -> None:
    """Raise TypeError where an argument that names dimensions holds floats."""
    for name in _DIMENSIONS:
        value = given.get(name)
        if any(isinstance(each, float) for each in _listed(value)):
            raise _incompatible(operation, f"{name}={value!r}", "dimensions are integers")


def extents(shape: Any) -> None:
    """Raise TypeError where the shape of an input holds what no 64-bit integer is."""
    for each in _listed(shape):
        if isinstance(each, float) or (isinstance(each, int) and abs(each) > _LARGEST):
            raise _incompatible("define_tensor", f"extent {each!r}", "extents are 64-bit integers")


def slices(rank: int, starts: Sequence[Any], ends: Sequence[Any], strides: Any) -> None:
    """Refuse a slice that nvFuser does."""
    steps = [1] * len(starts) if strides is None else list(strides)
    if len(starts) != len(steps):
        raise Refused("Slice start_indices and strides don't match!", remedy="give one of each")
    if len(starts) != len(ends):
        raise Refused(
            "Slice indexing attribute dimensions don't match!", remedy="give as many ends"
        )
    if len(starts) != rank:
        raise Refused(
            "Number of tensor dimensions does not match slice dimensions!",
            remedy=f"give {rank} starts and ends",
        )
    for start, end, step in zip(map(number, starts), map(number, ends), steps, strict=True):
        _slice(start, end, number(step))


def _slice(start: Any, end: Any, step: Any) -> None:
    if isinstance(start, int) and start < 0:
        raise Refused(
            "Slice operation start_indices must be greater than or equal to 0",
            remedy=f"count {start} from the first element",
        )
    if isinstance(start, int) and isinstance(end, int) and end < start:
        raise Refused(
            "Slice operation end_indices must be greater than or equal to start_indices",
            remedy=f"let {end} be {start} or more",
        )
    if step != 1:
        raise Refused(
            "nvFuser Limitation: All slice operation strides must be of const size 1",
            remedy="warpsmith.fuse slices with other strides",
        )


def squeezed(rank: int, dims: Any) -> None:
    """Refuse to drop more dimensions than there are."""
    if len(_listed(dims)) > rank:
        raise Refused(
            "The dims to squeeze must be <= the number of dims of the input tensor",
            remedy=f"name at most {rank}",
        )


def condition(cond: Any) -> None:
    """Refuse a condition that is no Bool."""
    if getattr(cond, "dtype", Type.Bool) is not Type.Bool:
        raise Refused(
            f"Condition should be of DataType Bool, not {cond.dtype.name}", remedy="compare with ne"
        )


def steps(first: Any, step: Any) -> None:
    """Refuse an iota that does not move, or not by a finite number."""
    for each in map(number, (first, step)):
        if isinstance(each, float) and not isfinite(each):
            raise Refused(
                "iota: length, start, step must be finite numbers", remedy="give finite ones"
            )
    if number(step) == 0:
        raise Refused("iota: step value must not equal zero", remedy="use full for equal elements")


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else (value,)


def _incompatible(function: str, got: str, why: str) -> TypeError:
    return TypeError(f"{function}(): incompatible function arguments. It got {got}, and {why}")
