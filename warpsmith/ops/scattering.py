"""Operations that write to places which tensors of indices choose, the same bits every time.

Indices are sorted (`ops/sorting.py`), so that elements for one place stand side by side, in the
order in which they came. A scan sums those of each place, and every element of the result finds its
own last one by bisection. So nothing is written twice, no order depends on time, and it takes as
long for indices that are all equal as for others.
"""

from __future__ import annotations

from typing import Any

from warpsmith.errors import DefinitionError
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.reads import checked, chosen
from warpsmith.ir.scalar import Const, Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.ops import pointwise
from warpsmith.ops.broadcasting import add_axes, axis_of, joined_axis
from warpsmith.ops.choosing import choose, gather, take_along_axis
from warpsmith.ops.factories import full, iota
from warpsmith.ops.masks import check_index
from warpsmith.ops.promotion import cast_tensor, converted_tensor, rounded
from warpsmith.ops.reading import own_places, read
from warpsmith.ops.rearranging import pad
from warpsmith.ops.reshape import reshape
from warpsmith.ops.rules import CarryRule
from warpsmith.ops.scans import scan
from warpsmith.ops.shape import expand, transpose
from warpsmith.ops.sorting import count_up_to, order_of
from warpsmith.ops.values import Operand, as_tensor, as_value, dimension, fusion_of
from warpsmith.values import dataclass


def _joined(a: Any, b: Any) -> tuple[Any, Any]:
    """What begins in the second stretch leaves behind what was summed in the first."""
    total = pointwise.where(pointwise.ne(b.begins, 0), b.total, pointwise.add(a.total, b.total))
    return pointwise.bitwise_or(a.begins, b.begins), total


SEGMENTS = CarryRule(
    name="segments", identity={"begins": 0, "total": 0}, join=_joined, commutative=False
)
"""Sums of stretches, each of which begins at an element that says so."""


def scatter(arg: TensorView, index: TensorView, src: Operand, dim: int) -> TensorView:
    """`arg` with the elements of `src` at the places along a dimension that indices choose; of
    several for one place the last one. A number stands for as many as there are indices.

    Indices have the extents of `arg` in all other dimensions, and `src` has theirs. An index
    outside the dimension ends the kernel.

    Raises:
        DefinitionError: WS0180 for indices of one element in another dimension, where `arg` has
            more.
    """
    tensor, chooses, place = _operands("scatter", arg, index, dim)
    values = _source("scatter", src, chooses, tensor.dtype)
    places = _places(tensor, chooses, place)
    return as_tensor(pointwise.where(places.any, places.last(values), tensor), "scatter")


def scatter_add(arg: TensorView, index: TensorView, src: Operand, dim: int) -> TensorView:
    """`arg`, and at each place the sum of the elements of `src` for which indices choose it, in
    their order. Shapes are those of `scatter`.

    Raises:
        DefinitionError: WS0186 for bools, and as `scatter`.
    """
    tensor, chooses, place = _operands("scatter_add", arg, index, dim)
    return _added("scatter_add", tensor, chooses, src, place)


def index_add(arg: TensorView, index: TensorView, src: TensorView, dim: int) -> TensorView:
    """`arg`, and at the places along a dimension that indices of one dimension choose the sums of
    what `src` has there.
    """
    tensor, chooses = as_tensor(arg, "index_add"), as_tensor(index, "index_add")
    place = dimension(tensor, dim, "index_add")
    return _added("index_add", tensor, _along(tensor, chooses, place, "index_add"), src, place)


def index_copy(arg: TensorView, index: TensorView, src: TensorView, dim: int) -> TensorView:
    """`arg` with what `src` has, at the places along a dimension that indices of one dimension
    choose; of several for one place the last one.
    """
    tensor, chooses = as_tensor(arg, "index_copy"), as_tensor(index, "index_copy")
    place = dimension(tensor, dim, "index_copy")
    places = _places(tensor, _along(tensor, chooses, place, "index_copy"), place)
    values = converted_tensor(as_tensor(src, "index_copy"), tensor.dtype)
    return as_tensor(pointwise.where(places.any, places.last(values), tensor), "index_copy")


def embedding_backward(
    grad: TensorView, index: TensorView, num_weights: int | Expr, padding_idx: int = -1
) -> TensorView:
    """The gradient of an embedding's weight: for each row the sum of the gradients of its uses, but
    0 for the row of `padding_idx`.
    """
    slopes, chooses = as_tensor(grad, "embedding_backward"), as_tensor(index, "embedding_backward")
    width = slopes.shape_axes[-1].extent
    count = integers.mul(*(axis.extent for axis in chooses.shape_axes))
    rows, which = slopes, chooses
    if chooses.rank != 1:
        rows, which = reshape(slopes, [count, width]), reshape(chooses, [count])
    fusion = fusion_of((slopes, chooses), "embedding_backward")
    nothing = full([num_weights, width], 0, slopes.dtype, fusion=fusion)
    if padding_idx >= 0:
        padded = add_axes(as_tensor(pointwise.eq(which, padding_idx), "eq"), [False, True])
        rows = as_tensor(pointwise.where(padded, 0, rows), "embedding_backward")
    return index_add(nothing, which, rows, 0)


def _along(tensor: TensorView, chooses: TensorView, place: int, op: str) -> TensorView:
    """Indices of one dimension as those of a tensor's rank."""
    check_index(chooses, op)
    if chooses.rank != 1:
        raise _of_other_rank(op, chooses, 1)
    return add_axes(chooses, [k != place for k in range(tensor.rank)])


def _of_other_rank(op: str, tensor: TensorView, rank: int) -> DefinitionError:
    return DefinitionError(
        f"{op} got the indices {tensor.name} of {tensor.rank} dimensions",
        code="WS0187",
        remedy=f"give indices of {rank}",
    )


def _operands(
    op: str, arg: TensorView, index: TensorView, dim: int
) -> tuple[TensorView, TensorView, int]:
    tensor, chooses = as_tensor(arg, op), as_tensor(index, op)
    check_index(chooses, op)
    fusion_of((tensor, chooses), op)
    if chooses.rank != tensor.rank:
        raise _of_other_rank(op, chooses, tensor.rank)
    place = dimension(tensor, dim, op)
    for k, (axis, own) in enumerate(zip(tensor.shape_axes, chooses.shape_axes, strict=True)):
        if k != place and own.is_broadcast and not axis.is_broadcast:
            raise DefinitionError(
                f"{op}: the indices {chooses.name} have 1 element in dimension {k}, and "
                f"{tensor.name} has {axis.extent!r}",
                code="WS0180",
                remedy="expand indices that are meant for all of them; part of them has none",
            )
    return tensor, chooses, place


def _source(op: str, src: Operand, chooses: TensorView, dtype: DataType) -> TensorView:
    """What is written, in a type."""
    value = as_value(src, op)
    if isinstance(value, TensorView):
        return converted_tensor(value, dtype)
    extents = [axis.extent for axis in chooses.shape_axes]
    return full(extents, value, dtype, fusion=Fusion.of(chooses))


def _added(
    op: str, tensor: TensorView, chooses: TensorView, src: Operand, place: int
) -> TensorView:
    if tensor.dtype is DataType.Bool:
        raise DefinitionError(
            f"{op} of {tensor.name}, whose elements are no numbers",
            code="WS0186",
            remedy="cast it, and the result back",
        )
    sums = tensor.dtype.compute
    values = _source(op, src, chooses, sums)
    total = _places(tensor, chooses, place).total(values)
    return rounded(
        as_tensor(pointwise.add(converted_tensor(tensor, sums), total), op), tensor.dtype
    )


@dataclass(frozen=True, slots=True)
class _Places:
    """Which elements indices choose for each place along a dimension.

    Attributes:
        order: where the indices stand, in their order.
        begins: which of these, in order, is the first of its place.
        behind: for each place the last of these, or some number where `any` is not.
        any: whether there is one for a place.
    """

    dim: int
    order: TensorView
    begins: TensorView
    behind: TensorView
    any: TensorView

    def last(self, values: TensorView) -> TensorView:
        """The last of the values that are meant for each place, 0 where there is none."""
        found = pointwise.where(self.any, self._at(self.order, self.behind), -1)
        return self._at(values, as_tensor(found, "scatter"))

    def total(self, values: TensorView) -> TensorView:
        """The sum of those values, 0 where there is none."""
        ordered = take_along_axis(values, self.order, self.dim)
        shape = [axis.extent for axis in ordered.shape_axes]
        begins = expand(cast_tensor(self.begins, DataType.Int32), shape)
        _, sums = scan([begins, ordered], SEGMENTS, self.dim)
        return as_tensor(pointwise.where(self.any, self._at(sums, self.behind), 0), "scatter_add")

    def _at(self, values: TensorView, index: TensorView) -> TensorView:
        """Values at indices along the dimension, and 0 at negative ones."""
        both = [values, index]
        axes = [joined_axis("scatter", both, k) for k in range(values.rank) if k != self.dim]
        axes.insert(self.dim, axis_of(index.shape_axes[self.dim].extent))
        places = own_places(values.rank)
        found = chosen(0, index.dtype)
        places[self.dim] = checked(found, values.shape_axes[self.dim].extent)
        inside = integers.less(Const(-1), found)
        fill = Const(0, values.dtype)
        return read(
            "or_zero", [(values, places, inside)], axes, self.dim, indices=[index], fill=fill
        )


def or_zero(arg: TensorView, index: TensorView, dim: int) -> TensorView:
    """As `take_along_axis`, but 0 at negative indices."""
    place = dimension(arg, dim, "or_zero")
    return _Places(place, arg, arg, arg, arg)._at(arg, index)


def _places(tensor: TensorView, chooses: TensorView, dim: int) -> _Places:
    """Sort indices along a dimension, each of which is known to be that of an element."""
    extent, fusion = tensor.shape_axes[dim].extent, Fusion.of(tensor)
    numbers = iota(extent, fusion=fusion)
    known = choose(numbers, [chooses], [0], 0)
    keys = cast_tensor(transpose(known, dim, -1), DataType.Int32)
    most = integers.constant(extent)
    if most is None:
        fusion.limits |= {(extent, 2**31 - 1)}
    order = order_of(keys, 31 if most is None else max((most - 1).bit_length(), 1))
    sorted_keys = gather(keys, order, -1)
    before = pad(sorted_keys, [1, -1], -1)
    begins = as_tensor(pointwise.ne(sorted_keys, before), "scatter")
    wanted = expand(
        add_axes(numbers, [True] * (keys.rank - 1) + [False]),
        [*(axis.extent for axis in keys.shape_axes[:-1]), extent],
    )
    behind = as_tensor(pointwise.sub(count_up_to(sorted_keys, wanted), 1), "scatter")
    there = pointwise.logical_and(
        pointwise.ge(behind, 0), pointwise.eq(or_zero(sorted_keys, behind, -1), wanted)
    )
    back = (transpose(each, dim, -1) for each in (order, begins, behind, as_tensor(there, "ne")))
    return _Places(dim, *back)
