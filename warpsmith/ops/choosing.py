"""Operations that read the elements which tensors of indices choose.

An index outside its dimension ends the kernel, as an assertion of the device does in PyTorch: it is
never read past the end of a tensor, nor is another element read instead.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from warpsmith.errors import DefinitionError
from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.reads import at, checked, chosen
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.ops import pointwise, reductions
from warpsmith.ops.broadcasting import add_axes, aligned, axis_of, joined_axis
from warpsmith.ops.masks import check_index
from warpsmith.ops.reading import own_places, read
from warpsmith.ops.shape import broadcast
from warpsmith.ops.slicing import select, slice
from warpsmith.ops.values import Deferred, Scalar, as_tensor, dimension, fusion_of

Subscript = Any
"""What stands in brackets: a whole number, a scalar, a slice, None, `...`, a tensor of indices, or
a tuple of them."""


def index_select(arg: TensorView, index: TensorView, dim: int) -> TensorView:
    """The elements of a dimension that indices of one dimension, or one index, choose."""
    tensor, (chooses,) = _operands("index_select", arg, [index])
    place = dimension(tensor, dim, "index_select")
    if chooses.rank > 1:
        raise _of_other_rank("index_select", chooses, "1 dimension, or none")
    one = broadcast(chooses, [True]) if chooses.rank == 0 else chooses
    return _chosen("index_select", tensor, {place: one}, place)


def embedding(arg: TensorView, weight: TensorView) -> TensorView:
    """For each index the row of `weight` that it chooses, in the last dimension."""
    rows, (chooses,) = _operands("embedding", weight, [arg])
    if rows.rank != 2:
        raise _of_other_rank("embedding", rows, "2 dimensions")
    return _chosen("embedding", rows, {0: chooses}, 0)


def embedding_fwd(
    input: TensorView,
    weight: TensorView,
    padding_idx: int | Expr | None = None,
    max_norm: Scalar | None = None,
    norm_type: Scalar | None = None,
    scale_grad_by_freq: bool | Expr | None = None,
    sparse: bool | Expr | None = None,
) -> TensorView:
    """nvFuser's name of `embedding`. Rows whose norm is above `max_norm` are scaled to it, in the
    result alone; the norm is that of the power `norm_type`, 2 by default. All else is about
    gradients.
    """
    rows = embedding(input, weight)
    if max_norm is None:
        return rows
    power = 2.0 if norm_type is None else norm_type
    wide = pointwise.cast(rows, rows.dtype.compute)
    raised = as_tensor(pointwise.pow(pointwise.abs(wide), power), "embedding_fwd")
    total = reductions.sum(raised, [-1], keepdim=True)
    norm = pointwise.pow(total, pointwise.reciprocal(power))
    scale = pointwise.div(max_norm, pointwise.add(norm, 1e-7))  # as PyTorch's, which adds it
    scaled = pointwise.mul(wide, pointwise.where(pointwise.gt(norm, max_norm), scale, 1.0))
    return as_tensor(pointwise.cast(scaled, rows.dtype), "embedding_fwd")


def gather(arg: TensorView, index: TensorView, dim: int) -> TensorView:
    """For each index the element of a dimension that it chooses, at its own place in all others.

    The result has the shape of the index, which is in no other dimension longer than the tensor.

    Raises:
        DefinitionError: WS0180 where it is. A call checks sizes that only it knows.
    """
    tensor, (chooses,) = _operands("gather", arg, [index])
    place = dimension(tensor, dim, "gather")
    _check_rank("gather", tensor, chooses)
    for k, (a, b) in enumerate(zip(tensor.shape_axes, chooses.shape_axes, strict=True)):
        if k != place and integers.less(a.extent, b.extent) == integers.TRUE:
            raise DefinitionError(
                f"gather: the indices {chooses.name} have {b.extent!r} elements in dimension {k}, "
                f"and {tensor.name} has {a.extent!r}",
                code="WS0180",
                remedy="indices are no longer than the tensor in the dimensions that they keep",
            )
    places = own_places(tensor.rank)
    places[place] = checked(chosen(0, chooses.dtype), tensor.shape_axes[place].extent)
    axes = [axis_of(axis.extent) for axis in chooses.shape_axes]
    whole = [(tensor, places, integers.TRUE)]
    return read("gather", whole, axes, place, indices=[chooses])


def take_along_axis(arg: TensorView, index: TensorView, dim: int) -> TensorView:
    """As `gather`, at all places of the other dimensions: where the tensor, or the index, has 1
    element by definition, that is repeated. Negative indices count from the end.
    """
    tensor, (chooses,) = _operands("take_along_axis", arg, [index])
    place = dimension(tensor, dim, "take_along_axis")
    _check_rank("take_along_axis", tensor, chooses)
    axes = [
        joined_axis("take_along_axis", [tensor, chooses], k)
        for k in range(tensor.rank)
        if k != place
    ]
    axes.insert(place, axis_of(chooses.shape_axes[place].extent))
    places, extent = own_places(tensor.rank), tensor.shape_axes[place].extent
    places[place] = checked(chosen(0, chooses.dtype), extent, from_end=True)
    whole = [(tensor, places, integers.TRUE)]
    return read("take_along_axis", whole, axes, place, indices=[chooses])


def choose(
    arg: TensorView,
    indices: Sequence[TensorView],
    dims: Sequence[int],
    position: int,
    from_end: bool = False,
) -> TensorView:
    """The elements that indices choose in some dimensions, a tensor of them for each.

    Indices have the dimensions of the result: those that they choose from stand at `position`
    among the dimensions that are kept, and in these they have 1 element by definition. Negative
    ones count from the end if `from_end` says so.

    Raises:
        DefinitionError: WS0182 for numbers of indices, dimensions and ranks that do not fit.
    """
    tensor, chooses = _operands("choose", arg, indices)
    along = [dimension(tensor, dim, "choose") for dim in dims]
    kept = [k for k in range(tensor.rank) if k not in along]
    rank = chooses[0].rank if chooses else -1
    new = rank - len(kept)
    fits = len({each.rank for each in chooses}) == 1 and 0 <= position <= len(kept) and new >= 0
    if not fits or len(set(along)) != len(chooses):
        raise DefinitionError(
            f"choose of {tensor.name} of {tensor.rank} dimensions got {len(chooses)} indices of "
            f"{rank} dimensions for the dimensions {tuple(dims)}, at {position}",
            code="WS0182",
            remedy="give indices of equal ranks, one for each dimension, and a place among those "
            "that are kept",
        )
    own = [*range(position), *range(position + new, rank)]
    axes = [joined_axis("choose", chooses, k) for k in range(rank)]
    places: list[Expr] = [integers.ZERO] * tensor.rank
    for k, dim in zip(own, kept, strict=True):
        axes[k] = IterDomain(tensor.shape_axes[dim].extent, tensor.shape_axes[dim].kind)
        places[dim] = at(k)
    for number, (dim, each) in enumerate(zip(along, chooses, strict=True)):
        extent = tensor.shape_axes[dim].extent
        places[dim] = checked(chosen(number, each.dtype), extent, from_end=from_end)
    whole = [(tensor, places, integers.TRUE)]
    said = tuple(along), position, from_end
    return read("choose", whole, axes, *said, indices=chooses)


def index(arg: TensorView, subscripts: Subscript) -> TensorView:
    """`arg[subscripts]`, as PyTorch has it: whole numbers, scalars, slices, None, `...`, and
    tensors of indices, which are broadcast to each other. Negative indices count from the end.

    Raises:
        DefinitionError: WS0181 for more subscripts than there are dimensions, and for others.
    """
    tensor = as_tensor(arg, "index")
    given = list(subscripts) if isinstance(subscripts, tuple) else [subscripts]
    taken = sum(each is not None and each is not Ellipsis for each in given)
    dots = [k for k, each in enumerate(given) if each is Ellipsis]
    if taken > tensor.rank or len(dots) > 1:
        raise DefinitionError(
            f"{tensor.name} of {tensor.rank} dimensions got {taken} subscripts and {len(dots)} "
            "ellipses",
            code="WS0181",
            remedy="give one for each dimension at most, and one ellipsis",
        )
    middle = dots[0] if dots else len(given)
    given[middle : middle + 1] = [builtins.slice(None)] * (tensor.rank - taken)
    return _by_tensors(*_by_numbers(tensor, given))


def _by_numbers(
    tensor: TensorView, subscripts: Sequence[Subscript]
) -> tuple[TensorView, dict[int, TensorView]]:
    """The tensor behind slices, numbers and new dimensions; what chooses from each that is left."""
    sliced = [
        each if isinstance(each, builtins.slice) else builtins.slice(None)
        for each in subscripts
        if each is not None
    ]
    steps = [1 if each.step is None else each.step for each in sliced]
    result = slice(tensor, [s.start for s in sliced], [s.stop for s in sliced], steps)
    chooses: dict[int, TensorView] = {}
    place = 0
    for each in subscripts:
        if each is None:
            result = broadcast(result, [k == place for k in range(result.rank + 1)])
        elif isinstance(each, TensorView | Deferred):
            chooses[place] = as_tensor(each, "index")
        elif isinstance(each, int | Expr) and not isinstance(each, bool):
            result = select(result, each, place)
            continue
        elif not isinstance(each, builtins.slice):
            raise DefinitionError(
                f"{tensor.name} got the subscript {each!r}",
                code="WS0181",
                remedy="subscripts are whole numbers, integer scalars, slices, None, `...`, and "
                "tensors of indices",
            )
        place += 1
    return result, chooses


def _by_tensors(tensor: TensorView, chooses: dict[int, TensorView]) -> TensorView:
    """What tensors choose: in place of their dimensions if these are neighbours, else in front."""
    if not chooses:
        return tensor
    places = sorted(chooses)
    together = places[-1] - places[0] == len(places) - 1
    return _chosen("index", tensor, chooses, places[0] if together else 0, from_end=True)


def _chosen(
    op: str,
    tensor: TensorView,
    chooses: dict[int, TensorView],
    position: int,
    *,
    from_end: bool = False,
) -> TensorView:
    """`choose` by indices that are broadcast to each other."""
    _, indices = _operands(op, tensor, list(chooses.values()))
    found = [value for value in aligned(indices) if isinstance(value, TensorView)]
    kept = tensor.rank - len(chooses)
    flags = [True] * position + [False] * found[0].rank + [True] * (kept - position)
    wide = [add_axes(each, flags) for each in found]
    return choose(tensor, wide, tuple(chooses), position, from_end)


def _operands(
    op: str, arg: TensorView, indices: Sequence[TensorView]
) -> tuple[TensorView, list[TensorView]]:
    tensor, chooses = as_tensor(arg, op), [as_tensor(each, op) for each in indices]
    for each in chooses:
        check_index(each, op)
    fusion_of((tensor, *chooses), op)
    return tensor, chooses


def _check_rank(op: str, tensor: TensorView, chooses: TensorView) -> None:
    if chooses.rank != tensor.rank or not tensor.rank:
        raise _of_other_rank(op, chooses, f"{max(tensor.rank, 1)} dimensions, as {tensor.name}")


def _of_other_rank(op: str, tensor: TensorView, wanted: str) -> DefinitionError:
    return DefinitionError(
        f"{op} got {tensor.name} of {tensor.rank} dimensions",
        code="WS0183",
        remedy=f"give one of {wanted}",
    )
