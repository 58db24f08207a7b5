"""Operations that rename, add, widen or drop dimensions without computing anything.

A tensor that was rounded implicitly is moved before the rounding, so that what reads the result
reads unrounded values too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warpsmith.errors import DefinitionError
from warpsmith.ir import arithmetic, integers
from warpsmith.ir.domains import IterDomain, split
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Move, Pointwise
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Const, Expr, is_evaluated, literal
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.broadcasting import add_axes, axis_of
from warpsmith.ops.promotion import fresh_axes, rounded, unrounded
from warpsmith.ops.scalars import known
from warpsmith.ops.values import Dims, as_tensor, dimension, dimensions

Extents = Sequence[int | Expr]


def size(arg: TensorView, dim: int) -> Expr:
    """Extent of a dimension; a constant where it is known."""
    tensor = as_tensor(arg, "size")
    return tensor.shape_axes[dimension(tensor, dim, "size")].extent


def shape(arg: TensorView) -> tuple[Expr, ...]:
    """Extents of all dimensions."""
    return tuple(axis.extent for axis in as_tensor(arg, "shape").shape_axes)


def as_extent(value: object, op: str) -> Expr:
    """An entry of a shape: a non-negative int, or an integer scalar whose value the host finds."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = literal(value)
    if isinstance(value, Expr) and value.dtype.is_int:
        extent = arithmetic.convert(known(value), DataType.Index)
        if extent.value >= 0 if isinstance(extent, Const) else is_evaluated(extent):
            return extent
    raise DefinitionError(
        f"{op} got {value!r} as an extent",
        code="WS0131",
        remedy="extents are integers of 0 or more, and integer scalars of the fusion with what +, "
        "-, *, // and % make of them, and minimum and maximum",
    )


def broadcast(arg: TensorView, is_broadcast_dim: Sequence[bool]) -> TensorView:
    """New dimensions of extent 1 where the flags are true; one flag per result dimension."""
    tensor = as_tensor(arg, "broadcast")
    flags = tuple(bool(flag) for flag in is_broadcast_dim)
    if flags.count(False) != tensor.rank:
        raise DefinitionError(
            f"broadcast of {tensor.name} got {len(flags)} flags of which {flags.count(False)} are "
            f"false, and the tensor has {tensor.rank} dimensions",
            code="WS0132",
            remedy="give one false flag for each of its dimensions",
        )
    return _before_rounding(tensor, lambda source: add_axes(source, flags))


def expand(arg: TensorView, shape: Extents) -> TensorView:
    """Repeat dimensions of extent 1 up to `shape`; -1 leaves a dimension as it is."""
    tensor = as_tensor(arg, "expand")
    if len(shape) != tensor.rank:
        raise DefinitionError(
            f"expand of {tensor.name} got {len(shape)} extents for {tensor.rank} dimensions",
            code="WS0133",
            remedy="broadcast it first to add dimensions",
        )
    wanted = [
        axis.extent if _is_wildcard(entry) else as_extent(entry, "expand")
        for axis, entry in zip(tensor.shape_axes, shape, strict=True)
    ]
    for d, (axis, extent) in enumerate(zip(tensor.shape_axes, wanted, strict=True)):
        both_known = isinstance(axis.extent, Const) and isinstance(extent, Const)
        if not axis.is_broadcast and both_known and axis.extent != extent:
            raise DefinitionError(
                f"expand of {tensor.name} to extent {extent!r} in dimension {d}, which has "
                f"extent {axis.extent!r}",
                code="WS0134",
                remedy="only dimensions of extent 1 can be expanded",
            )
    if wanted == [axis.extent for axis in tensor.shape_axes]:
        return tensor
    return _before_rounding(tensor, lambda source: _expanded(source, wanted))


def _expanded(tensor: TensorView, wanted: Sequence[Expr]) -> TensorView:
    axes = tuple(
        axis_of(extent) if axis.is_broadcast else IterDomain(axis.extent, axis.kind)
        for axis, extent in zip(tensor.shape_axes, wanted, strict=True)
    )
    output = Fusion.of(tensor).tensor(tensor.dtype, axes)
    origin = tuple(range(tensor.rank))
    Fusion.of(tensor).append(Move("expand", tensor, output, origin, (tuple(wanted),)))
    return output


def repeat_interleave(
    arg: TensorView, repeats: int, dim: int, *, output_size: int | Expr | None = None
) -> TensorView:
    """Each element of a dimension so many times in a row, the last one as often as the result's
    `output_size` has room for; by default all equally often.

    Raises:
        DefinitionError: WS0162 for repeats below 1, and a size that is known to need more elements,
            or fewer. A call checks sizes that only it knows.
    """
    tensor = as_tensor(arg, "repeat_interleave")
    place = dimension(tensor, dim, "repeat_interleave")
    if not isinstance(repeats, int) or isinstance(repeats, bool) or repeats < 1:
        raise DefinitionError(
            f"repeat_interleave of {tensor.name} got repeats {repeats!r}",
            code="WS0162",
            remedy="give a whole number of 1 or more",
        )
    held = tensor.shape_axes[place].extent
    extent = integers.mul(held, repeats)
    if output_size is not None:
        extent = as_extent(output_size, "repeat_interleave")
    needed = integers.ceildiv(extent, integers.index(repeats))
    if isinstance(needed, Const) and isinstance(held, Const) and needed != held:
        raise DefinitionError(
            f"repeat_interleave of {tensor.name} to output_size {extent!r} needs {needed!r} "
            f"elements of {repeats} each, and dimension {place} has {held!r}",
            code="WS0162",
            remedy="give as many elements as the size holds repeats, the last one in part",
        )
    if tensor.shape_axes[place].is_broadcast:
        shape = [axis.extent for axis in tensor.shape_axes]
        return expand(tensor, [*shape[:place], extent, *shape[place + 1 :]])
    times = [1] * tensor.rank
    times[place] = repeats
    extents = [axis.extent for axis in tensor.shape_axes]
    extents[place] = extent
    return _before_rounding(tensor, lambda source: repeated(source, times, extents))


def repeated(tensor: TensorView, repeats: Sequence[int], extents: Sequence[Expr]) -> TensorView:
    """Each element of a dimension as often as `repeats` says, up to the extents, in one operation
    with a permutation, or repetitions of other dimensions, that the tensor is.
    """
    times, source, origin = tuple(repeats), tensor, tuple(range(tensor.rank))
    move = tensor.definition
    if isinstance(move, Move) and move.kind in ("permute", "repeat_interleave"):
        before = move.repeats or (1,) * tensor.rank
        if all(1 in pair for pair in zip(before, times, strict=True)):
            times = tuple(max(pair) for pair in zip(before, times, strict=True))
            source, origin = move.source, tuple(d for d in move.origin if d is not None)
    if all(number == 1 for number in times):
        return tensor
    axes = tuple(
        axis_of(extent) if number > 1 else IterDomain(axis.extent, axis.kind)
        for axis, number, extent in zip(tensor.shape_axes, times, extents, strict=True)
    )
    parts = tuple(
        split(axis, integers.index(number))
        for axis, number in zip(axes, times, strict=True)
        if number > 1
    )
    fusion = Fusion.of(tensor)
    output = fusion.tensor(tensor.dtype, axes, transforms=parts)
    arguments = (times, tuple(axis.extent for axis in axes))
    fusion.append(Move("repeat_interleave", source, output, origin, arguments))
    return output


def broadcast_in_dim(arg: TensorView, shape: Extents, broadcast_dims: Sequence[int]) -> TensorView:
    """A tensor of shape `shape` whose dimension `broadcast_dims[d]` is dimension `d` of `arg`."""
    tensor = as_tensor(arg, "broadcast_in_dim")
    kept = [dimension(tensor, d, "broadcast_in_dim", rank=len(shape)) for d in broadcast_dims]
    if len(kept) != tensor.rank or sorted(set(kept)) != kept:
        raise DefinitionError(
            f"broadcast_in_dim of {tensor.name} got broadcast_dims {tuple(broadcast_dims)} for "
            f"{tensor.rank} dimensions",
            code="WS0135",
            remedy="give one increasing position for each of its dimensions",
        )
    return expand(broadcast(tensor, [d not in kept for d in range(len(shape))]), shape)


def squeeze(arg: TensorView, dims: Dims, squeeze_expanded: bool = False) -> TensorView:
    """The tensor without some dimensions of extent 1, or with `squeeze_expanded` of repeated ones.

    The extent must be 1 by definition: a symbolic extent that happens to be 1 does not count.
    """
    tensor = as_tensor(arg, "squeeze")
    dropped = dimensions(tensor, dims, "squeeze")
    definition = tensor.definition
    source = tensor
    if squeeze_expanded and isinstance(definition, Move) and definition.kind == "expand":
        source = definition.source
    for d in dropped:
        if tensor.shape_axes[d].is_broadcast or source.shape_axes[d].is_broadcast:
            continue
        raise DefinitionError(
            f"squeeze of {tensor.name} got dimension {d}, which has extent "
            f"{tensor.shape_axes[d].extent!r}",
            code="WS0136",
            remedy="only dimensions that are 1 by definition can be squeezed",
        )
    if not dropped:
        return tensor
    if all(tensor.shape_axes[d].is_broadcast for d in dropped):
        return _before_rounding(tensor, lambda whole: _squeezed(whole, dropped))
    kept = [axis.extent for d, axis in enumerate(tensor.shape_axes) if d not in dropped]
    return expand(squeeze(source, dropped), kept)


def _squeezed(tensor: TensorView, dropped: Sequence[int]) -> TensorView:
    origin = tuple(d for d in range(tensor.rank) if d not in dropped)
    return _picked("squeeze", tensor, origin, (tuple(dropped),))


def _picked(
    kind: str, tensor: TensorView, origin: tuple[int, ...], arguments: tuple[object, ...]
) -> TensorView:
    sources = [tensor.shape_axes[d] for d in origin]
    axes = tuple(IterDomain(axis.extent, axis.kind) for axis in sources)
    output = Fusion.of(tensor).tensor(tensor.dtype, axes)
    Fusion.of(tensor).append(Move(kind, tensor, output, origin, arguments))
    return output


def permute(arg: TensorView, dims: Sequence[int]) -> TensorView:
    """The tensor whose dimension `k` is dimension `dims[k]` of `arg`."""
    tensor = as_tensor(arg, "permute")
    order = tuple(dimension(tensor, d, "permute") for d in dims)
    if sorted(order) != list(range(tensor.rank)):
        raise DefinitionError(
            f"permute of {tensor.name} got dims {tuple(dims)} for {tensor.rank} dimensions",
            code="WS0137",
            remedy="name each dimension once",
        )
    if order == tuple(range(tensor.rank)):
        return tensor
    return _before_rounding(tensor, lambda source: _picked("permute", source, order, (order,)))


def transpose(arg: TensorView, dim0: int = -2, dim1: int = -1) -> TensorView:
    """The tensor with two dimensions exchanged."""
    tensor = as_tensor(arg, "transpose")
    first, second = (dimension(tensor, d, "transpose") for d in (dim0, dim1))
    order = list(range(tensor.rank))
    order[first], order[second] = second, first
    return permute(tensor, order)


def stride_order(arg: TensorView, stride_order: Sequence[int]) -> TensorView:
    """A copy that lies in memory in a given order: `stride_order[d]` 0 is the fastest dimension."""
    tensor = as_tensor(arg, "stride_order")
    order = tuple(stride_order)
    check_stride_order(order, tensor.rank, f"stride_order of {tensor.name}")
    output = Fusion.of(tensor).tensor(tensor.dtype, fresh_axes(tensor), stride_order=order)
    Fusion.of(tensor).append(Pointwise("set", (tensor,), output))
    return output


def check_stride_order(order: Sequence[int], rank: int, what: str) -> None:
    """DefinitionError unless `order` is a permutation of the dimensions."""
    if sorted(order) != list(range(rank)):
        raise DefinitionError(
            f"{what} got {tuple(order)} for {rank} dimensions",
            code="WS0138",
            remedy=f"give a permutation of 0 to {rank - 1}, where 0 is the fastest dimension",
        )


def _before_rounding(tensor: TensorView, move: Callable[[TensorView], TensorView]) -> TensorView:
    return rounded(move(unrounded(tensor)), tensor.dtype)


def _is_wildcard(entry: object) -> bool:
    return isinstance(entry, int) and entry == -1
