"""Which dimensions of a product its tiles walk: batches, rows and columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

from warpsmith.ir.exprs import Matmul, Pointwise, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.tensor import TensorView


@dataclass(frozen=True, slots=True)
class Shape:
    """The places of a product's root axes, of which the last two are n and k.

    Attributes:
        batches: what tiles are numbered over, axes of extent 1 by definition among them.
        rows: what a tile's rows walk as one dimension: the dimensions that only `a` has, as far as
            they lie in its memory as one. None where all of them have extent 1 by definition.
        columns: n.
    """

    batches: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def swapped(self) -> Shape:
        """The shape of the product whose operands have changed places."""
        return Shape(self.batches, self.columns, self.rows)


def shape_of(product: Matmul) -> Shape:
    """The shape of a product, whose operands may be copies of inputs."""
    root = product.output.root
    first = len(root) - 2
    rows: list[int] = []
    for place in reversed(range(first)):
        if root[place].is_broadcast:
            continue
        if not _is_row(product, place) or (rows and not _is_one(product, place, rows[0])):
            break
        rows.insert(0, place)
    batches = tuple(place for place in range(first) if place not in rows)
    return Shape(batches, tuple(rows), (first,))


def swap_operands(fusion: Fusion, product: Matmul) -> Matmul:
    """The same product in place of one, with its second operand first, whose n are then rows."""
    swapped = replace(product, a=product.b, b=product.a, axes=product.axes[::-1])
    fusion.replace(product, swapped)
    return swapped


def fastest_of(product: Matmul, which: int) -> int | None:
    """The place of the product's root axis along which an operand's memory is the fastest; the
    operands are numbered 0 and 1. None for one of a single element.
    """
    order = concrete_order(memory_of((product.a, product.b)[which]))
    return product.axes[which][order[-1]] if order else None


def is_turned(product: Matmul, which: int) -> bool:
    """Whether an operand lies along m or n, and not along k."""
    return fastest_of(product, which) != len(product.output.root) - 1


def memory_of(operand: TensorView) -> TensorView:
    """The tensor in global memory that an operand is, or is a copy of; what is computed is stored,
    and so is one itself.
    """
    definition = operand.definition
    if not (isinstance(definition, Pointwise) and definition.op == "set"):
        return operand
    (source,) = tensor_inputs(definition)
    return source


def concrete_order(tensor: TensorView) -> list[int]:
    """The dimensions of a tensor from slowest to fastest, without those of one element."""
    return [d for d in tensor.memory_order() if not tensor.shape_axes[d].is_broadcast]


def _is_row(product: Matmul, place: int) -> bool:
    """Whether `a` has the dimension, and `b` has not."""
    return _has(product.a, product.axes[0], place) and not _has(product.b, product.axes[1], place)


def _has(operand: TensorView, axes: tuple[int, ...], place: int) -> bool:
    return place in axes and not memory_of(operand).shape_axes[axes.index(place)].is_broadcast


def _is_one(product: Matmul, slow: int, fast: int) -> bool:
    """Whether two dimensions of `a` lie in memory as one."""
    memory, axes = memory_of(product.a), product.axes[0]
    order = concrete_order(memory)
    outer, inner = axes.index(slow), axes.index(fast)
    follows = order.index(inner) == order.index(outer) + 1
    return follows and memory.contiguity[outer] is True


def places_of(domains: DomainMap, product: Matmul, tensor: TensorView) -> list[int | None]:
    """For each dimension of a tensor, which of the product's root axes it is.

    None for a dimension of one element, and for one that the product lacks.
    """
    known = {
        domains.group(axis): place
        for place, axis in enumerate(product.output.root)
        if not axis.is_broadcast and not axis.is_reduction
    }
    return [
        None if axis.is_broadcast else known.get(domains.group(axis)) for axis in tensor.shape_axes
    ]
