"""Which dimensions of a product its tiles walk: batches, rows and columns."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir.exprs import Matmul, Pointwise, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.reads import stretch_of
from warpsmith.ir.tensor import TensorView
from warpsmith.schedulers.matmul.loads import found_loads, loads_of
from warpsmith.values import dataclass


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
    a, b = memory_of(product.a), memory_of(product.b)
    rows: list[int] = []
    for place in reversed(range(first)):
        if root[place].is_broadcast:
            continue
        is_row = _has(a, product.axes[0], place) and not _has(b, product.axes[1], place)
        if not is_row or (rows and not _is_one(a, product.axes[0], place, rows[0])):
            break
        rows.insert(0, place)
    batches = tuple(place for place in range(first) if place not in rows)
    return Shape(batches, tuple(rows), (first,))


def last_row(product: Matmul) -> tuple[int, ...]:
    """The last of the rows of a product's shape; empty where it has none.

    A dimension of the left operand alone is one, from whatever memory that is computed: this may
    be a whole program away.
    """
    root = product.output.root
    place = next((p for p in reversed(range(len(root) - 2)) if not root[p].is_broadcast), None)
    if place is None or place in product.axes[1]:
        return shape_of(product).rows[-1:]
    return (place,)


def swap_operands(fusion: Fusion, product: Matmul) -> Matmul:
    """The same product in place of one, with its second operand first, whose n are then rows."""
    swapped = replace(product, a=product.b, b=product.a, axes=product.axes[::-1])
    fusion.replace(product, swapped)
    return swapped


def fastest_of(product: Matmul, which: int) -> int | None:
    """The place of the product's root axis along which an operand's memory is the fastest; the
    operands are numbered 0 and 1. None for one of a single element.
    """
    order = memory_of((product.a, product.b)[which]).concrete_order()
    return product.axes[which][order[-1]] if order else None


def is_turned(product: Matmul, which: int) -> bool:
    """Whether an operand lies along m or n, and not along k."""
    return fastest_of(product, which) != len(product.output.root) - 1


def memory_of(operand: TensorView) -> TensorView:
    """The tensor in global memory that an operand is, of which it is a copy or a stretch, or from
    which it is computed first.
    """
    return next((load.memory for load in found_loads(operand)), operand)


def sources_of(operand: TensorView) -> tuple[TensorView, ...]:
    """The tensors in global memory, as large as an operand, that it is computed from element by
    element: the operand where it is one, and none where something else than elements is computed.
    """
    return tuple(dict.fromkeys(load.memory for load in loads_of(operand)))


def tiles_of(operand: TensorView) -> tuple[TensorView, ...]:
    """The copies of these tensors that lead to an operand, where each is copied first."""
    return tuple(load.copy for load in loads_of(operand))


def is_computed(operand: TensorView) -> bool:
    """Whether an operand is more than a tensor in global memory, or a copy or a stretch of one."""
    definition = operand.definition
    if definition is None or stretch_of(operand) is not None:
        return False
    return not _copies(operand) or any(map(is_computed, tensor_inputs(definition)))


def _copies(tensor: TensorView) -> bool:
    return isinstance(tensor.definition, Pointwise) and tensor.definition.op == "set"


def _has(memory: TensorView, axes: tuple[int, ...], place: int) -> bool:
    return place in axes and not memory.shape_axes[axes.index(place)].is_broadcast


def _is_one(memory: TensorView, axes: tuple[int, ...], slow: int, fast: int) -> bool:
    """Whether two dimensions of an operand lie in memory as one."""
    order = memory.concrete_order()
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
