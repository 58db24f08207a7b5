"""Orders: argsort, sort and the largest elements, the same for equal elements every time.

Rows are sorted by the bits of their elements, from the lowest on: each time what has a 0 goes
before what has a 1, in the order in which it stood. Where it goes follows from how many zeros there
are up to each place, a scan; which element a place gets, bisection finds in these counts. So rows
of any length, which a call passes, are sorted by as many pairs of kernels as a type has bits, all
alike.
"""

from __future__ import annotations

from typing import Any

from warpsmith.errors import DefinitionError
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView
from warpsmith.ops import pointwise
from warpsmith.ops.broadcasting import add_axes
from warpsmith.ops.carries import reduce
from warpsmith.ops.choosing import gather
from warpsmith.ops.factories import full, iota
from warpsmith.ops.promotion import cast_tensor
from warpsmith.ops.reading import search
from warpsmith.ops.rules import CarryRule
from warpsmith.ops.scans import cumsum
from warpsmith.ops.shape import expand, transpose
from warpsmith.ops.slicing import narrow
from warpsmith.ops.values import as_tensor, dimension

LEAST, NOWHERE = -(2**63), 2**63 - 1
"""What is below all keys, and behind all places."""


def _first_of(a: Any, b: Any) -> tuple[Any, Any]:
    """Of two numbers with their places the larger one, of equal ones that which comes first."""
    before = pointwise.logical_and(pointwise.eq(b.key, a.key), pointwise.lt(b.index, a.index))
    second = pointwise.logical_or(pointwise.gt(b.key, a.key), before)
    return pointwise.where(second, b.key, a.key), pointwise.where(second, b.index, a.index)


EXTREME = CarryRule(name="extreme", identity={"key": LEAST, "index": NOWHERE}, join=_first_of)

AT_ONCE = 16
"""The largest elements of a row are found one after the other, up to so many; more by sorting."""

_FRACTIONS = {
    DataType.Half: 13,
    DataType.BFloat16: 16,
    DataType.Float8_e4m3fn: 20,
    DataType.Float8_e5m2: 21,
}
"""Low bits of a Float that are 0 where it is a number of a narrower type."""


def count_up_to(arg: TensorView, wanted: TensorView) -> TensorView:
    """For each number how many elements of a row of `arg`, which ascends, are no larger.

    Rows lie along the last dimension; in all others both have the same extents.
    """
    return search("count_up_to", as_tensor(arg, "count_up_to"), as_tensor(wanted, "count_up_to"))


def nth_parted(arg: TensorView, wanted: TensorView) -> TensorView:
    """Of rows of zeros and ones, sorted in order, the zeros first: for each place in that order
    where its element stood. `arg` is how many zeros there are up to each element.
    """
    return search("nth_parted", as_tensor(arg, "nth_parted"), as_tensor(wanted, "nth_parted"))


def argsort(
    arg: TensorView, dim: int = -1, descending: bool = False, stable: bool = True
) -> TensorView:
    """Where the elements of a dimension stand, the smallest first, or the largest; NaN is larger
    than all numbers. Equal ones keep their order, whether that is asked for or not. One number
    without dimensions stands at 0.
    """
    tensor = as_tensor(arg, "argsort")
    if tensor.rank == 0 and dim in (0, -1):
        return full([], 0, DataType.Int, fusion=Fusion.of(tensor))
    place = dimension(tensor, dim, "argsort")
    rows = transpose(tensor, place, -1)
    keys, bits = _keys(rows)
    if descending:
        keys = as_tensor(pointwise.bitwise_not(keys), "argsort")
    return transpose(order_of(keys, bits), place, -1)


def sort(
    arg: TensorView, dim: int = -1, descending: bool = False, stable: bool = True
) -> tuple[TensorView, TensorView]:
    """(elements of a dimension in order, where they stood), as `argsort` orders them."""
    order = argsort(arg, dim, descending, stable)
    return gather(arg, order, dim) if order.rank else as_tensor(arg, "sort"), order


def topk(
    arg: TensorView, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[TensorView, TensorView]:
    """(the k largest elements of a dimension, or the smallest, where they stand), in order; of
    equal ones those that come first.

    Raises:
        DefinitionError: WS0185 for a k that is no number of elements. A call checks what only it
            knows.
    """
    tensor = as_tensor(arg, "topk")
    place = dimension(tensor, dim, "topk")
    extent = integers.constant(tensor.shape_axes[place].extent)
    if type(k) is not int or k < 0 or (extent is not None and k > extent):
        raise DefinitionError(
            f"topk of {tensor.name} got k {k!r} for a dimension of "
            f"{tensor.shape_axes[place].extent!r} elements",
            code="WS0185",
            remedy="give a whole number from 0 to the extent",
        )
    if 0 < k <= AT_ONCE and not tensor.shape_axes[place].is_broadcast:
        if extent is None:
            Fusion.of(tensor).taken |= {(tensor.shape_axes[place].extent, k)}
        order = _first(tensor, k, place, largest)
    else:
        order = narrow(argsort(tensor, place, descending=largest), place, 0, k)
    return gather(tensor, order, place), order


def _first(tensor: TensorView, k: int, place: int, largest: bool) -> TensorView:
    """The first k places in order: each round looks among the elements behind the one before."""
    keys = _signed(tensor, largest)
    extent = keys.shape_axes[place].extent
    numbers = iota(extent, fusion=Fusion.of(tensor))
    index = add_axes(numbers, [d != place for d in range(tensor.rank)])
    state: tuple[TensorView, ...] = (keys, expand(index, [a.extent for a in keys.shape_axes]))
    found: list[TensorView] = []
    for _ in range(k):
        top, first = reduce(list(state), EXTREME, [place], keepdim=True)
        found.append(first)
        behind = pointwise.logical_or(
            pointwise.lt(keys, top),
            pointwise.logical_and(pointwise.eq(keys, top), pointwise.gt(index, first)),
        )
        left = pointwise.where(behind, keys, LEAST), pointwise.where(behind, index, NOWHERE)
        state = tuple(as_tensor(each, "topk") for each in left)
    return _joined(found, place)


def _joined(parts: list[TensorView], place: int) -> TensorView:
    """Columns of one element side by side."""
    if len(parts) == 1:
        return parts[0]
    number = iota(len(parts), fusion=Fusion.of(parts[0]))
    which = add_axes(number, [d != place for d in range(parts[0].rank)])
    result = parts[-1]
    for k in reversed(range(len(parts) - 1)):
        result = as_tensor(pointwise.where(pointwise.eq(which, k), parts[k], result), "topk")
    return result


def order_of(keys: TensorView, bits: int) -> TensorView:
    """Where elements of rows stand, in the order of so many of their lowest bits, without a sign.

    Args:
        keys: Int or Int32; rows lie along the last dimension.
    """
    extent = keys.shape_axes[-1].extent
    fusion = Fusion.of(keys)
    fusion.limits |= {(extent, 2**31 - 1)}
    numbers = add_axes(iota(extent, fusion=fusion), [True] * (keys.rank - 1) + [False])
    wanted = expand(numbers, [axis.extent for axis in keys.shape_axes])
    order: TensorView | None = None
    for _ in range(bits):
        zeros = pointwise.eq(pointwise.bitwise_and(keys, 1), 0)
        counts = cumsum(as_tensor(zeros, "argsort"), -1, DataType.Int32)
        stood = nth_parted(counts, wanted)
        order = stood if order is None else gather(order, stood, -1)
        keys = as_tensor(pointwise.logical_right_shift(gather(keys, stood, -1), 1), "argsort")
    assert order is not None
    return order


def _keys(tensor: TensorView) -> tuple[TensorView, int]:
    """Numbers without a sign in the order of a tensor's elements, and how many bits they have."""
    dtype = tensor.dtype
    if dtype is DataType.Double:
        return pointwise.double_rank(tensor), 64
    if dtype.is_float:
        cut = _FRACTIONS.get(dtype, 0)
        found = pointwise.logical_right_shift(pointwise.float_rank(tensor), cut)
        return cast_tensor(as_tensor(found, "argsort"), DataType.Int32), 32 - cut
    if dtype is DataType.Bool:
        return cast_tensor(tensor, DataType.Int32), 1
    lowest = dtype.numbers.start
    if dtype.is_small_int:
        wide = cast_tensor(tensor, DataType.Int32)
        return pointwise.sub(wide, lowest) if lowest else wide, dtype.bits
    return pointwise.bitwise_xor(tensor, lowest), dtype.bits


def _signed(tensor: TensorView, largest: bool) -> TensorView:
    """Numbers in the order of a tensor's elements, or the other way."""
    if tensor.dtype is DataType.Double:
        keys = pointwise.bitwise_xor(pointwise.double_rank(tensor), -(2**63))
    elif tensor.dtype.is_float:
        keys = pointwise.float_rank(tensor)
    else:
        keys = cast_tensor(tensor, DataType.Int)
    return keys if largest else pointwise.bitwise_not(keys)
