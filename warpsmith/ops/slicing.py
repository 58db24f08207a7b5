"""Operations that pick, pad and join stretches of tensors, at places that sizes alone say."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.errors import DefinitionError
from warpsmith.ir import arithmetic, integers
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.reads import at
from warpsmith.ir.scalar import Apply, Const, Expr, is_evaluated, literal
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

Bound = int | Expr | None


def slice(
    arg: TensorView,
    start_indices: Sequence[Bound],
    end_indices: Sequence[Bound],
    strides: Sequence[int] | None = None,
    manual_normalization: bool = False,
) -> TensorView:
    """Of each dimension the elements from a start on, below an end, a stride apart.

    None is the beginning, or the end, of the dimension. Negative numbers count from the end, and
    what lies outside is cut off, as Python does. nvFuser's `manual_normalization` says that bounds
    are inside already, and changes nothing.

    Raises:
        DefinitionError: WS0170 for as many bounds as there are no dimensions, and for strides below
            1.
    """
    tensor = as_tensor(arg, "slice")
    steps = tuple(strides or (1,) * tensor.rank)
    if {len(start_indices), len(end_indices), len(steps)} != {tensor.rank}:
        raise DefinitionError(
            f"slice of {tensor.name} got {len(start_indices)} starts, {len(end_indices)} ends and "
            f"{len(steps)} strides for {tensor.rank} dimensions",
            code="WS0170",
            remedy="give one of each for each dimension",
        )
    if not all(type(step) is int and step > 0 for step in steps):
        raise DefinitionError(
            f"slice of {tensor.name} got the strides {steps}",
            code="WS0170",
            remedy="strides are whole numbers of 1 or more: flip turns dimensions round",
        )
    bounds = [
        _bounds(axis.extent, start, end)
        for axis, start, end in zip(tensor.shape_axes, start_indices, end_indices, strict=True)
    ]
    return _stretch(tensor, bounds, steps)


def _stretch(
    tensor: TensorView, bounds: Sequence[tuple[Expr, Expr]], steps: Sequence[int]
) -> TensorView:
    """A slice whose bounds are known to be inside, or checked by the call."""
    whole = [(integers.ZERO, axis.extent) for axis in tensor.shape_axes]
    if list(bounds) == whole and set(steps) <= {1}:
        return tensor
    places = [
        integers.add(integers.mul(at(k), step), start)
        for k, ((start, _), step) in enumerate(zip(bounds, steps, strict=True))
    ]
    axes = [
        axis_of(integers.ceildiv(integers.sub(end, start), integers.index(step)))
        for (start, end), step in zip(bounds, steps, strict=True)
    ]
    starts, ends = zip(*bounds, strict=True)
    return read("slice", [(tensor, places, integers.TRUE)], axes, starts, ends, tuple(steps))


def _bounds(extent: Expr, start: Bound, end: Bound) -> tuple[Expr, Expr]:
    """Where a slice begins and ends, inside the dimension; never before it begins."""
    first = integers.ZERO if start is None else _counted(extent, start)
    last = extent if end is None else _counted(extent, end)
    in_order = is_part(first, last)
    first, last = (_smaller(bound, extent) for bound in (first, last))
    return first, last if in_order or is_part(first, last) else integers.maximum(first, last)


def _counted(extent: Expr, bound: int | Expr) -> Expr:
    """A bound as Python means it, 0 or more."""
    value = literal(bound) if isinstance(bound, int) and not isinstance(bound, bool) else bound
    value = known(value) if isinstance(value, Expr) else value
    if not (isinstance(value, Expr) and value.dtype.is_int and is_evaluated(value)):
        raise DefinitionError(
            f"slice got the bound {bound!r}",
            code="WS0171",
            remedy="bounds are whole numbers, None, and integer scalars whose value the host finds",
        )
    found = arithmetic.convert(value, DataType.Index)
    if integers.lower_bound(found) >= 0:
        return found
    from_end = _larger(integers.add(extent, found), integers.ZERO)
    if isinstance(found, Const):
        return from_end
    return Apply("where", (integers.less(found, integers.ZERO), from_end, found), DataType.Index)


def _smaller(a: Expr, b: Expr) -> Expr:
    return a if is_part(a, b) else integers.minimum(a, b)


def _larger(a: Expr, b: Expr) -> Expr:
    return a if is_part(b, a) else integers.maximum(a, b)


def is_part(a: Expr, b: Expr) -> bool:
    """Whether `a <= b` is known of numbers of 0 or more: as of a quotient, or so many of them."""
    if integers.lower_bound(integers.sub(b, a)) >= 0:
        return True
    if not isinstance(a, Apply):
        return False
    if a.op in ("minimum", "maximum"):
        return (any if a.op == "minimum" else all)(is_part(arg, b) for arg in a.args)
    if a.op in ("floordiv", "ceildiv"):
        return integers.lower_bound(a.args[1]) >= 1 and is_part(a.args[0], b)
    if a.op == "mul" and len(a.args) == 2:
        quotient, times = a.args[0], integers.constant(a.args[1])
        if isinstance(quotient, Apply) and quotient.op == "floordiv" and times is not None:
            whole, divisor = quotient.args
            return integers.lower_bound(divisor) >= times and is_part(whole, b)
    return False


def narrow(arg: TensorView, dim: int, start: int | Expr, length: int | Expr) -> TensorView:
    """`length` elements of a dimension, from `start` on; negative ones count from the end.

    A call checks that there are so many.
    """
    tensor = as_tensor(arg, "narrow")
    place = dimension(tensor, dim, "narrow")
    begin, count = (
        arithmetic.convert(as_scalar(value, "narrow"), DataType.Index) for value in (start, length)
    )
    if isinstance(begin, Const) and begin.value < 0:
        begin = integers.add(tensor.shape_axes[place].extent, begin)
    return _part(tensor, place, begin, integers.add(begin, count))


def _part(tensor: TensorView, place: int, start: Expr | int, end: Expr | int) -> TensorView:
    """Elements of one dimension."""
    bounds: list[tuple[Expr, Expr]] = [(integers.ZERO, axis.extent) for axis in tensor.shape_axes]
    bounds[place] = (integers.index(start), integers.index(end))
    return _stretch(tensor, bounds, (1,) * tensor.rank)


def split(
    arg: TensorView, split_size_or_sections: int | Sequence[int], dim: int = 0
) -> tuple[TensorView, ...]:
    """Stretches of a dimension: of one size, but for the last of them, or of the sizes given.

    Raises:
        DefinitionError: WS0172 where sizes are not the dimension's, or where their number depends
            on what a call passes.
    """
    tensor = as_tensor(arg, "split")
    place = dimension(tensor, dim, "split")
    extent = tensor.shape_axes[place].extent
    if isinstance(split_size_or_sections, int):
        size = split_size_or_sections
        known = _known(tensor, place, "split")
        if size < 1:
            raise _unsplit(tensor, place, f"parts of {size} elements")
        sizes = [min(size, known - begin) for begin in range(0, known, size)] or [0]
    else:
        sizes = list(split_size_or_sections)
        if isinstance(extent, Const) and sum(sizes) != extent.value:
            raise _unsplit(tensor, place, f"parts of {sizes} elements")
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    return tuple(
        _part(tensor, place, start, start + size) for start, size in zip(starts, sizes, strict=True)
    )


def chunk(arg: TensorView, chunks: int, dim: int = 0) -> tuple[TensorView, ...]:
    """So many stretches of a dimension, or fewer, of one size but for the last of them.

    Of an extent that a call passes there are always so many, the last ones perhaps empty.
    """
    tensor = as_tensor(arg, "chunk")
    place = dimension(tensor, dim, "chunk")
    extent = tensor.shape_axes[place].extent
    if type(chunks) is not int or chunks < 1:
        raise _unsplit(tensor, place, f"{chunks!r} parts")
    size = integers.ceildiv(extent, integers.index(chunks))
    if isinstance(size, Const):
        return split(tensor, max(int(size.value), 1), place)
    ends = [integers.minimum(integers.mul(size, number), extent) for number in range(1, chunks)]
    bounds = zip((integers.ZERO, *ends), (*ends, extent), strict=True)
    return tuple(_part(tensor, place, start, end) for start, end in bounds)


def unbind(arg: TensorView, dim: int = 0) -> tuple[TensorView, ...]:
    """All elements of a dimension whose extent the definition knows."""
    tensor = as_tensor(arg, "unbind")
    place = dimension(tensor, dim, "unbind")
    return tuple(select(tensor, k, place) for k in range(_known(tensor, place, "unbind")))


def _known(tensor: TensorView, place: int, op: str) -> int:
    extent = integers.constant(tensor.shape_axes[place].extent)
    if extent is None:
        raise DefinitionError(
            f"{op} of {tensor.name} along dimension {place}, whose extent a call passes",
            code="WS0172",
            remedy="say how many parts there are: split by sizes, chunk, or define the extent",
        )
    return extent


def _unsplit(tensor: TensorView, place: int, what: str) -> DefinitionError:
    extent = tensor.shape_axes[place].extent
    return DefinitionError(
        f"dimension {place} of {tensor.name}, of {extent!r} elements, is split into {what}",
        code="WS0172",
        remedy="sizes are 1 or more, and together those of the dimension",
    )


def select(arg: TensorView, index: int | Expr, dim: int) -> TensorView:
    """The element of a dimension, which the result lacks; negative ones count from the end.

    Raises:
        DefinitionError: WS0173 for one that there is not. A call checks what only it knows.
    """
    tensor = as_tensor(arg, "select")
    place = dimension(tensor, dim, "select")
    extent, value = tensor.shape_axes[place].extent, as_scalar(index, "select")
    if not (value.dtype.is_int and is_evaluated(value)):
        raise _outside(tensor, place, index)
    found = arithmetic.convert(value, DataType.Index)
    if isinstance(found, Const):
        found = integers.add(extent, found) if found.value < 0 else found
        if isinstance(found, Const) and not 0 <= found.value < (
            extent.value if isinstance(extent, Const) else found.value + 1
        ):
            raise _outside(tensor, place, index)
    axes = fresh_axes(tensor)
    kept = [k for k in range(tensor.rank) if k != place]
    places = [found if k == place else at(kept.index(k)) for k in range(tensor.rank)]
    whole = [(tensor, places, integers.TRUE)]
    return read("select", whole, [axes[k] for k in kept], found, place)


def _outside(tensor: TensorView, place: int, index: object) -> DefinitionError:
    extent = tensor.shape_axes[place].extent
    return DefinitionError(
        f"index {index!r} of dimension {place} of {tensor.name}, which has {extent!r} elements",
        code="WS0173",
        remedy="indices are whole numbers, and integer scalars whose value the host finds; from "
        "minus the extent on, and below it",
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
            None if integers.upper_bound(width) <= 0 else bound
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
