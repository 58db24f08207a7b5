"""Operations that rename, add, widen or drop dimensions without computing anything.

A tensor that was rounded implicitly is moved before the rounding, so that what reads the result
reads unrounded values too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warpsmith.errors import DefinitionError
from warpsmith.ir import arithmetic
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Move, Pointwise
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Const, Expr, is_evaluated, literal
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.broadcasting import add_axes, axis_of
from warpsmith.ops.promotion import fresh_axes, rounded, unrounded
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
        extent = arithmetic.convert(value, DataType.Index)
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
