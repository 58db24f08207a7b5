"""How inputs and results lie in memory, by axes as nvFuser names them."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.frontends.nvfuser_direct.failures import unsupported
from warpsmith.ir.domains import IterDomain, Split
from warpsmith.ir.tensor import TensorView


def set_order(tensor: TensorView, axes: Sequence[IterDomain], contiguous: bool) -> None:
    """Let an input or a result lie in memory in the order of axes, the last one the fastest.

    A dimension of a result that was split lies where its inner part does, as one: strides can say
    no more.

    Raises:
        Unsupported: WS0190 for an input whose parts of dimensions lie apart.
    """
    made_of = [_dims(tensor, axis) for axis in axes]
    rank = tensor.rank
    places = [[k for k, dims in enumerate(made_of) if d in dims] for d in range(rank)]
    apart = any(there != list(range(there[0], there[-1] + 1)) for there in places if there)
    if not all(places) or (apart and tensor.is_input):
        raise unsupported(
            "TensorView.set_allocation_domain",
            f"strides of {tensor.name} say how whole dimensions lie in memory",
            "name each dimension, with its parts together",
        )
    slowest_first = sorted(range(rank), key=lambda d: (places[d][-1], d))
    tensor.stride_order = tuple(rank - 1 - slowest_first.index(d) for d in range(rank))
    if tensor.is_input:
        tensor.contiguity = (contiguous,) * rank


def _dims(tensor: TensorView, axis: IterDomain) -> set[int]:
    """The dimensions that an axis is a part of, or joins."""
    if axis in tensor.shape_axes:
        return {tensor.shape_axes.index(axis)}
    for made in tensor.transforms:
        if axis in made.results:
            operands = (made.axis,) if isinstance(made, Split) else (made.outer, made.inner)
            return {dim for each in operands for dim in _dims(tensor, each)}
    return set()
