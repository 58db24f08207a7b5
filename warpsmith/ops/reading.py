"""Reads at computed places: how operations define them, and what they mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from warpsmith.errors import ArgumentError, InternalError
from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Pointwise
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.reads import CHECKS, SEARCHES, Read, Search, at, chosen
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.promotion import fresh_axes

Places = Sequence[Expr]


def read(
    kind: str,
    parts: Sequence[tuple[TensorView, Places, Expr]],
    axes: Sequence[IterDomain],
    *arguments: object,
    indices: Sequence[TensorView] = (),
    fill: Expr | None = None,
) -> TensorView:
    """A tensor of these axes whose elements are read from the parts.

    Args:
        parts: what is read, where in each of its dimensions, and under which predicate.
        arguments: what the user wrote behind the tensors.
        indices: tensors of the result's rank, whose elements places know as `chosen`.
        fill: what stands where no part is read.
    """
    sources = tuple(source for source, _, _ in parts)
    fusion = Fusion.of(sources[0])
    apart = tuple(_copied(index) if index in sources else index for index in indices)
    output = fusion.tensor(sources[0].dtype, tuple(axes))
    places = tuple(tuple(place) for _, place, _ in parts)
    insides = tuple(inside for _, _, inside in parts)
    fusion.append(Read(kind, sources, apart, fill, places, insides, output, arguments))
    return output


def _copied(tensor: TensorView) -> TensorView:
    """A tensor that is read element by element, beside one that is read at computed places."""
    fusion = Fusion.of(tensor)
    copy = fusion.tensor(tensor.dtype, fresh_axes(tensor))
    fusion.append(Pointwise("set", (tensor,), copy))
    return copy


def own_places(rank: int) -> list[Expr]:
    """The places of the result's own element."""
    return [at(k) for k in range(rank)]


def within(dimension: int, start: Expr | None, end: Expr | None) -> Expr:
    """The predicate that an index is `start` or more, and below `end`; None asks nothing."""
    index = at(dimension)
    return integers.conjunction(
        integers.TRUE if start is None else integers.less(start, integers.add(index, 1)),
        integers.TRUE if end is None else integers.less(index, end),
    )


def meaning(
    operation: Read, arrays: Mapping[TensorView, np.ndarray], values: Mapping[str, Any], fill: Any
) -> np.ndarray:
    """The result, given what is read, the sizes by name, and the value outside of all parts.

    Raises:
        ArgumentError: WS0319 for an index that lies outside its dimension.
    """
    shape = tuple(int(_value(axis.extent, values)) for axis in operation.output.shape_axes)
    known = dict(values)
    for k, extent in enumerate(shape):
        known[at(k).name] = np.arange(extent).reshape(
            [-1 if d == k else 1 for d in range(len(shape))]
        )
    for k, index in enumerate(operation.indices):
        known[chosen(k, index.dtype).name] = arrays[index].astype(np.int64)
    result = np.full(shape, fill, arrays[operation.sources[0]].dtype)
    for part in operation.parts:
        inside = np.broadcast_to(np.asarray(_value(part.inside, known), np.bool_), shape)
        if not inside.any():
            continue
        # Only what is inside is looked up: places elsewhere may lie outside the tensor.
        here = {
            name: np.broadcast_to(value, shape)[inside] if isinstance(value, np.ndarray) else value
            for name, value in known.items()
        }
        where = tuple(
            np.zeros(1, np.int64) if axis.is_broadcast else np.asarray(_value(place, here))
            for place, axis in zip(part.places, part.source.shape_axes, strict=True)
        )
        result[inside] = arrays[part.source][where]
    return result


def _value(expr: Expr, values: Mapping[str, Any]) -> Any:
    """A place or a predicate, for arrays of indices."""
    if isinstance(expr, Const):
        return expr.value
    if isinstance(expr, Symbol):
        return values[expr.name]
    if not isinstance(expr, Apply):
        raise InternalError(f"{expr!r} is no place")
    args = [_value(arg, values) for arg in expr.args]
    if expr.op in CHECKS:
        return _inside(*args, from_end=expr.op == CHECKS[1])
    found = args[0]
    if expr.op == "cast":
        return found
    if expr.op == "where":
        return np.where(*args)
    for other in args[1:]:
        found = _NUMPY[expr.op](found, other)
    return found


_NUMPY: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "mul": np.multiply,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "ceildiv": lambda a, b: -(-a // b),
    "minimum": np.minimum,
    "maximum": np.maximum,
    "lt": np.less,
    "logical_and": np.logical_and,
}


def _inside(index: Any, extent: int, *, from_end: bool) -> np.ndarray:
    """Indices that lie inside an extent, negative ones counted from the end."""
    found = np.asarray(index)
    moved = np.where(found < 0, found + extent, found) if from_end else found
    wrong = (moved < 0) | (moved >= extent)
    if wrong.any():
        raise ArgumentError(
            f"the index {found[wrong].flat[0]} lies outside a dimension of {extent} elements",
            code="WS0319",
            remedy="pass indices of elements that there are",
        )
    return moved


def search(op: str, arg: TensorView, wanted: TensorView) -> TensorView:
    """What bisection finds in rows along the last dimension (`ir/reads.py`)."""
    fusion = Fusion.of(arg)
    looked_for = _copied(wanted) if wanted is arg else wanted
    output = fusion.tensor(DataType.Int, fresh_axes(wanted))
    fusion.append(Search(op, arg, looked_for, output))
    return output


def found(operation: Search, rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The result, given rows and what is wanted of them."""
    shape = (*np.broadcast_shapes(rows.shape[:-1], wanted.shape[:-1]), wanted.shape[-1])
    count = math.prod(shape[:-1])
    row_of = np.broadcast_to(rows, (*shape[:-1], rows.shape[-1])).reshape(count, rows.shape[-1])
    of_row = np.broadcast_to(wanted, shape).reshape(count, shape[-1])
    result = np.zeros(of_row.shape, np.int64)
    for number, (row, numbers) in enumerate(zip(row_of, of_row, strict=True)):
        if operation.op == SEARCHES[0]:
            result[number] = np.searchsorted(row, numbers, side="right")
        else:
            result[number] = np.argsort(np.diff(row, prepend=0) == 0, kind="stable")[numbers]
    return result.reshape(shape)
