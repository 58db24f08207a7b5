"""Operations that pad and join tensors, and turn or move the elements of their dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.errors import DefinitionError
from warpsmith.ir import arithmetic, integers
from warpsmith.ir.bounds import upper_bound
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const, Expr, is_evaluated
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.broadcasting import axis_of
from warpsmith.ops.promotion import common_type, converted_tensor, fresh_axes
from warpsmith.ops.reading import own_places, read, within
from warpsmith.ops.scalars import known
from warpsmith.ops.shape import broadcast
from warpsmith.ops.values import (
    Dims,
    Scalar,
    as_scalar,
    as_tensor,
    dimension,
    dimensions,
    fusion_of,
)


def pad(arg: TensorView, pad_widths: Sequence[int | Expr], value: Scalar = 0) -> TensorView:
    """The tensor with so many elements more before and behind, from the last dimension on.

    Widths below 0 cut elements off.

    Raises:
        DefinitionError: WS0174 for an odd number of widths, or those of more dimensions than there
            are; for a width that the host does not find.
    """
    tensor = as_tensor(arg, "pad")
    widths = [_width(tensor, each) for each in pad_widths]
    if len(widths) % 2 or len(widths) > 2 * tensor.rank:
        raise DefinitionError(
            f"pad of {tensor.name} of {tensor.rank} dimensions got {len(widths)} widths",
            code="WS0174",
            remedy="give two for each dimension, before and behind, those of the last one first",
        )
    if all(width == integers.ZERO for width in widths):
        return tensor
    places, axes = own_places(tensor.rank), list(fresh_axes(tensor))
    inside: Expr = integers.TRUE
    for number in range(0, len(widths), 2):
        k, (before, behind) = tensor.rank - 1 - number // 2, widths[number : number + 2]
        extent = axes[k].extent
        places[k] = integers.sub(places[k], before)
        axes[k] = axis_of(integers.add(extent, before, behind))
        first, last = (
            None if upper_bound(width) <= 0 else bound
            for width, bound in ((before, before), (behind, integers.add(extent, before)))
        )
        inside = integers.conjunction(inside, within(k, first, last))
    fill = arithmetic.convert(as_scalar(0 if value is None else value, "pad"), tensor.dtype)
    return read("pad", [(tensor, places, inside)], axes, tuple(widths), fill, fill=fill)


def _width(tensor: TensorView, width: int | Expr) -> Expr:
    value = known(as_scalar(width, "pad"))
    if not (value.dtype.is_int and is_evaluated(value)):
        raise DefinitionError(
            f"pad of {tensor.name} got the width {width!r}",
            code="WS0174",
            remedy="widths are whole numbers, and integer scalars whose value the host finds",
        )
    return arithmetic.convert(value, DataType.Index)


def cat(tensors: Sequence[TensorView], dim: int = 0, manual_padding: bool = False) -> TensorView:
    """Tensors behind each other along a dimension; the others have equal extents.

    nvFuser's `manual_padding` changes nothing.

    Raises:
        DefinitionError: WS0175 for no tensors, and for other ranks.
    """
    given = [as_tensor(tensor, "cat") for tensor in tensors]
    if not given or len({tensor.rank for tensor in given}) > 1 or not given[0].rank:
        names = ", ".join(f"{t.name} of {t.rank} dimensions" for t in given) or "no tensors"
        raise DefinitionError(
            f"cat got {names}",
            code="WS0175",
            remedy="give one or more tensors of equal ranks, 1 or more; stack adds a dimension",
        )
    fusion_of(given, "cat")
    dtype = common_type(given)
    parts = [converted_tensor(tensor, dtype) for tensor in given]
    if len(parts) == 1:
        return parts[0]
    rank = parts[0].rank
    place = dimension(parts[0], dim, "cat")
    axes = [axis_of(integers.ZERO) if k == place else _common(parts, k) for k in range(rank)]
    begins: list[Expr] = [integers.ZERO]
    for tensor in parts:
        begins.append(integers.add(begins[-1], tensor.shape_axes[place].extent))
    axes[place] = axis_of(begins[-1])
    found = []
    for number, tensor in enumerate(parts):
        places = own_places(tensor.rank)
        places[place] = integers.sub(places[place], begins[number])
        first = begins[number] if number else None
        last = begins[number + 1] if number < len(parts) - 1 else None
        found.append((tensor, places, within(place, first, last)))
    return read("cat", found, axes, place)


def _common(tensors: Sequence[TensorView], dim: int) -> IterDomain:
    """A dimension in which tensors are equally long, by its constant extent if one has it."""
    extents = dict.fromkeys(tensor.shape_axes[dim].extent for tensor in tensors)
    known = [extent for extent in extents if isinstance(extent, Const)]
    if len(known) > 1:
        raise DefinitionError(
            f"cat got tensors of {known[0]!r} and of {known[1]!r} elements in dimension {dim}",
            code="WS0176",
            remedy="all dimensions are equal, but the one along which they are joined",
        )
    return axis_of(next(iter(known or extents)))


def stack(tensors: Sequence[TensorView], dim: int = 0) -> TensorView:
    """Tensors of one shape behind each other along a new dimension."""
    given = [as_tensor(tensor, "stack") for tensor in tensors]
    if not given:
        return cat(given)  # which says what is wrong
    rank = given[0].rank
    place = dimension(given[0], dim, "stack", rank=rank + 1)
    return cat([_widened(tensor, min(place, tensor.rank)) for tensor in given], place)


def _widened(tensor: TensorView, place: int) -> TensorView:
    return broadcast(tensor, [k == place for k in range(tensor.rank + 1)])


def flip(arg: TensorView, dims: Dims) -> TensorView:
    """The tensor with the order of the elements of some dimensions turned round."""
    tensor = as_tensor(arg, "flip")
    turned = dimensions(tensor, dims, "flip")
    places = own_places(tensor.rank)
    for k in turned:
        places[k] = integers.sub(integers.sub(tensor.shape_axes[k].extent, 1), places[k])
    whole = [(tensor, places, integers.TRUE)]
    return read("flip", whole, fresh_axes(tensor), turned) if turned else tensor


def roll(arg: TensorView, shifts: int | Sequence[int], dims: Dims) -> TensorView:
    """The tensor with the elements of some dimensions moved on by so many; what moves past the end
    comes in at the beginning.

    Raises:
        DefinitionError: WS0184 for a number of shifts that is not that of the dimensions.
    """
    tensor = as_tensor(arg, "roll")
    numbers = [shifts] if isinstance(shifts, int) else list(shifts)
    along = list(dims) if isinstance(dims, Sequence) else [dims]
    if len(numbers) != len(along) or not all(type(each) is int for each in numbers):
        raise DefinitionError(
            f"roll of {tensor.name} got shifts {shifts!r} for dimensions {dims!r}",
            code="WS0184",
            remedy="give a whole number for each dimension",
        )
    places, axes = own_places(tensor.rank), fresh_axes(tensor)
    for dim, number in zip(along, numbers, strict=True):
        k = dimension(tensor, dim, "roll")
        extent = axes[k].extent
        left = integers.mod(abs(number), integers.maximum(extent, 1))
        moved = integers.sub(extent, left) if number > 0 else left
        if number and not axes[k].is_broadcast:
            places[k] = integers.mod(integers.add(places[k], moved), extent)
    whole = [(tensor, places, integers.TRUE)]
    return read("roll", whole, axes, tuple(numbers), tuple(along))
