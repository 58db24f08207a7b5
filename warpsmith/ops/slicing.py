"""Operations that pick stretches and elements of tensors, at places that sizes alone say."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.errors import DefinitionError
from warpsmith.ir import arithmetic, integers
from warpsmith.ir.bounds import lower_bound
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.reads import at
from warpsmith.ir.scalar import Apply, Const, Expr, is_evaluated, literal
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.broadcasting import axis_of
from warpsmith.ops.promotion import fresh_axes
from warpsmith.ops.reading import read
from warpsmith.ops.scalars import known
from warpsmith.ops.values import as_scalar, as_tensor, dimension

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
    if lower_bound(found) >= 0:
        return found
    from_end = _larger(integers.add(extent, found), integers.ZERO)
    if isinstance(found, Const):
        return from_end
    return _if_negative(found, from_end)


def counted(extent: Expr, place: Expr) -> Expr:
    """A place of a dimension, of which a negative one counts from the end."""
    found = arithmetic.convert(place, DataType.Index)
    if lower_bound(found) >= 0:
        return found
    from_end = integers.add(extent, found)
    return from_end if isinstance(found, Const) else _if_negative(found, from_end)


def _if_negative(found: Expr, from_end: Expr) -> Expr:
    return Apply("where", (integers.less(found, integers.ZERO), from_end, found), DataType.Index)


def _smaller(a: Expr, b: Expr) -> Expr:
    return a if is_part(a, b) else integers.minimum(a, b)


def _larger(a: Expr, b: Expr) -> Expr:
    return a if is_part(b, a) else integers.maximum(a, b)


def is_part(a: Expr, b: Expr) -> bool:
    """Whether `a <= b` is known of numbers of 0 or more: as of a quotient, or so many of them."""
    if lower_bound(integers.sub(b, a)) >= 0:
        return True
    if not isinstance(a, Apply):
        return False
    if a.op in ("minimum", "maximum"):
        return (any if a.op == "minimum" else all)(is_part(arg, b) for arg in a.args)
    if a.op in ("floordiv", "ceildiv"):
        return lower_bound(a.args[1]) >= 1 and is_part(a.args[0], b)
    if a.op == "mul" and len(a.args) == 2:
        quotient, times = a.args[0], integers.constant(a.args[1])
        if isinstance(quotient, Apply) and quotient.op == "floordiv" and times is not None:
            whole, divisor = quotient.args
            return lower_bound(divisor) >= times and is_part(whole, b)
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
        begins = range(0, known, size)
        sizes: list[Expr] = [Const(min(size, known - b)) for b in begins] or [integers.ZERO]
    else:
        given = [as_scalar(size, "split") for size in split_size_or_sections]
        sizes = [arithmetic.convert(size, DataType.Index) for size in given]
        whole = integers.add(*sizes)
        if isinstance(extent, Const) and isinstance(whole, Const) and whole != extent:
            raise _unsplit(tensor, place, f"parts of {sizes} elements")
    ends = [integers.add(*sizes[: number + 1]) for number in range(len(sizes))]
    bounds = zip((integers.ZERO, *ends), ends, strict=False)
    return tuple(_part(tensor, place, start, end) for start, end in bounds)


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
    found = counted(extent, value)
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
