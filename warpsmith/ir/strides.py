"""How far apart the elements of a global tensor lie along each of its dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir import integers
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.tensor import TensorView


def stride_symbol(tensor: TensorView, dimension: int) -> Symbol:
    """Run-time stride of a dimension, in elements."""
    return Symbol(f"{tensor.name}_stride{dimension}", low=0)


def stride_symbols(tensor: TensorView) -> tuple[Symbol, ...]:
    """The run-time strides of a global tensor."""
    return tuple(
        stride_symbol(tensor, dimension)
        for dimension, axis in enumerate(tensor.shape_axes)
        if not tensor.contiguity[dimension] and not axis.is_broadcast
    )


def all_strides(tensor: TensorView) -> tuple[Symbol, ...]:
    """A run-time stride for each dimension of a tensor."""
    return tuple(stride_symbol(tensor, dimension) for dimension in range(tensor.rank))


def strides(tensor: TensorView, extents: Sequence[Expr]) -> tuple[Expr, ...]:
    """Stride of each dimension of a global tensor, in elements, given the dimensions' extents.

    Contiguous dimensions have the product of the faster extents, the others a run-time symbol.
    Broadcast dimensions have 0.
    """
    result: list[Expr] = [integers.ZERO] * tensor.rank
    expected: Expr = integers.ONE
    for dimension in reversed(tensor.memory_order()):
        if tensor.shape_axes[dimension].is_broadcast:
            continue
        contiguous = tensor.contiguity[dimension]
        own = expected if contiguous else stride_symbol(tensor, dimension)
        result[dimension] = own
        expected = integers.mul(own, extents[dimension])
    return tuple(result)
