"""The tensors that a call allocates: how many elements, and where they lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from warpsmith.engine.planned import PlannedSegment
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import evaluate
from warpsmith.ir.tensor import TensorView
from warpsmith.runtime.arrays import NUMPY_DTYPES
from warpsmith.schedulers.padding import pitches
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Allocation:
    """A tensor that the call allocates: an output, or what passes between kernels."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None

    @property
    def bytes(self) -> int:
        """From the first to the last element."""
        if 0 in self.shape:
            return 0
        strides = self.strides
        span = prod(self.shape) if strides is None else _reach(self.shape, strides)
        return span * NUMPY_DTYPES[self.dtype].itemsize


def allocation(tensor: TensorView, values: Mapping[str, int]) -> Allocation:
    """Where a tensor's elements lie in a call."""
    shape = tuple(evaluate(axis.extent, values) for axis in tensor.shape_axes)
    strides: tuple[int, ...] | None = None
    if tensor.stride_order is not None or False in tensor.contiguity:
        steps = [0] * len(shape)
        step = 1
        for dimension in reversed(tensor.memory_order()):
            if tensor.contiguity[dimension] is False:
                step = values[f"{tensor.name}_stride{dimension}"]
            steps[dimension] = step
            step *= max(shape[dimension], 1)
        strides = tuple(steps)
    return Allocation(tensor.name, tensor.dtype.value, shape, strides)


def largest_index(
    fusion: Fusion, allocations: Sequence[Allocation], values: Mapping[str, int]
) -> int:
    """What the largest index counts: elements that an array spans, or iterations of one loop.

    An axis that is reduced is never merged with one that is not (WS0207), so what a reduction or a
    product walks counts as two loops, and never as their product.
    """
    sizes = [prod(allocation.shape) for allocation in allocations]
    sizes += [_reach(a.shape, a.strides) for a in allocations if a.strides is not None]
    for tensor in fusion.input_tensors:
        shape = [evaluate(a.extent, values) for a in tensor.shape_axes]
        steps = [values.get(f"{tensor.name}_stride{d}", 0) for d in range(len(shape))]
        sizes += [prod(shape), _reach(shape, steps)]
    for tensor in fusion.computed:
        made = (axis for transform in tensor.transforms for axis in transform.results)
        sizes += [evaluate(axis.extent, values) for axis in (*tensor.root, *made)]
        if tensor.has_reduction:
            for reduced in (False, True):
                axes = [axis for axis in tensor.root if axis.is_reduction is reduced]
                sizes.append(prod([evaluate(axis.extent, values) for axis in axes]))
    return max(sizes, default=1)


def _reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements of memory from the first to the last one of an array."""
    return 1 + sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True))


def pitches_of(segments: Sequence[PlannedSegment], values: Mapping[str, int]) -> dict[str, int]:
    """Strides of the padded tensors that pass between segments, by symbol."""
    written = (tensor for planned in segments for tensor in planned.segment.writes)
    return {name: step for tensor in written for name, step in pitches(tensor, values).items()}
