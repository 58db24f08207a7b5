"""What operations of torch's mean in `warpsmith.ops`, where they differ from ours.

A meaning is called with the node's place, and with its arguments as values of a fusion. Results get
the type that torch says: see `definition`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from warpsmith import ops
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Full, Precision
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.attention_in_tiles import attention_in_tiles
from warpsmith.ops.slicing import counted as counted_place
from warpsmith.values import dataclass


class NotTaken(Exception):
    """Why an operation is left to torch."""


@dataclass(frozen=True, slots=True)
class At:
    """Where an operation is defined, and what torch says of its first result."""

    fusion: Fusion
    dtype: DataType
    shape: tuple[Expr, ...]
    device: torch.device
    precision: Precision


Meaning = Callable[..., Any]


def plain(function: Callable[..., Any]) -> Meaning:
    """The meaning of an operation that is one of ours, with the same arguments."""
    return lambda at, *args: function(*args)


def power(at: At, base: Any, exponent: Any) -> Any:
    if exponent == 2:
        return ops.mul(base, base)
    if at.dtype.is_float and exponent in _POWERS:
        return _POWERS[exponent](base)
    return ops.pow(base, exponent)


_POWERS: Mapping[float, Callable[[Any], Any]] = {
    -2: lambda x: ops.reciprocal(ops.mul(x, x)),
    -1.5: lambda x: ops.reciprocal(ops.mul(x, ops.sqrt(x))),
    -1: ops.reciprocal,
    -0.5: ops.rsqrt,
    0.5: ops.sqrt,
    1: ops.set,
    1.5: lambda x: ops.mul(x, ops.sqrt(x)),
    3: lambda x: ops.mul(ops.mul(x, x), x),
    4: lambda x: (lambda square: ops.mul(square, square))(ops.mul(x, x)),
}


def attended(at: At, query: Any, key: Any, value: Any, mask: Any, scale: Any) -> Any:
    return attention_in_tiles(query, key, value, mask, scale=scale)


def gelu(at: At, x: Any, *, approximate: str = "none") -> Any:
    if approximate == "none":
        return ops.mul(ops.mul(x, 0.5), ops.add(ops.erf(ops.mul(x, math.sqrt(0.5))), 1.0))
    cube = ops.mul(ops.mul(x, x), x)
    inner = ops.mul(ops.add(x, ops.mul(cube, 0.044715)), math.sqrt(2 / math.pi))
    return ops.mul(ops.mul(x, 0.5), ops.add(ops.tanh(inner), 1.0))


def converted(at: At, x: Any, *args: Any, device: Any = None, **how: Any) -> Any:
    """A conversion; what torch says of layout and memory is kept by the result as it leaves."""
    if device is not None and torch.device(device).type != at.device.type:
        raise NotTaken(f"it copies to {device}")
    return ops.cast(x, at.dtype)


def copied(at: At, x: Any, *, memory_format: Any = None) -> Any:
    return ops.set(x)


def overwritten(at: At, x: Any, source: Any, *args: Any) -> Any:
    """A copy into a tensor, which nothing is left of."""
    return ops.cast(expanded(at, source), at.dtype)


def same(at: At, x: Any, *args: Any) -> Any:
    return x


def reshaped(at: At, x: Any, *args: Any) -> Any:
    return ops.reshape(x, at.shape)


def rolled(at: At, x: Any, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
    if dims:
        return ops.roll(x, shifts, dims)
    flat = ops.reshape(x, [integers.mul(*at.shape)])
    return ops.reshape(ops.roll(flat, shifts, [0]), at.shape)


def permuted(at: At, x: Any, dims: Sequence[int]) -> Any:
    return ops.permute(x, [d % x.rank for d in dims])


def transposed(at: At, x: Any, *dims: int) -> Any:
    if x.rank < 2:
        return x
    return ops.transpose(x, *(dims or (0, 1)))


def unsqueezed(at: At, x: Any, dim: int) -> Any:
    place = dim % (x.rank + 1)
    return ops.broadcast(x, [d == place for d in range(x.rank + 1)])


def squeezed(at: At, x: Any, dims: Any = None) -> Any:
    asked = range(x.rank) if dims is None else dims if isinstance(dims, Sequence) else [dims]
    places = {d % max(x.rank, 1) for d in asked}
    return ops.squeeze(x, [d for d in places if d < x.rank and x.shape_axes[d].is_broadcast])


def expanded(at: At, x: Any, *args: Any, **how: Any) -> Any:
    missing = len(at.shape) - x.rank
    wide = ops.broadcast(x, [d < missing for d in range(len(at.shape))]) if missing else x
    return ops.expand(wide, at.shape)


def repeated(at: At, x: Any, times: Sequence[Any]) -> Any:
    wide = ops.broadcast(x, [True] * (len(times) - x.rank) + [False] * x.rank)
    extents = [axis.extent for axis in wide.shape_axes]
    apart = ops.broadcast(wide, [True, False] * len(times))
    whole = ops.expand(apart, [each for pair in zip(times, extents, strict=True) for each in pair])
    return ops.reshape(whole, at.shape)


def filled(at: At, *args: Any, **how: Any) -> Any:
    """`full(shape, value)`, `scalar_tensor(value)`."""
    return ops.full(at.shape, args[-1], at.dtype, fusion=at.fusion)


def filled_like(at: At, x: Any, value: Any, **how: Any) -> Any:
    return filled(at, value)


def constant(value: float) -> Meaning:
    return lambda at, *args, **how: ops.full(at.shape, value, at.dtype, fusion=at.fusion)


def counted(at: At, start: Any, end: Any, step: Any = 1, **how: Any) -> Any:
    wide = at.dtype if at.dtype.compute is at.dtype else at.dtype.compute
    return ops.cast(ops.iota(at.shape[0], start, step, wide, fusion=at.fusion), at.dtype)


def numbered(
    at: At, length: Any, *, start: Any = 0, step: Any = 1, dtype: Any = None, **how: Any
) -> Any:
    return counted(at, start, None, step)


def sliced(at: At, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    """How long the slice is, torch has found."""
    place = dim % x.rank
    if integers.constant(at.shape[place]) == 0:
        return ops.narrow(x, place, 0, 0)
    first = _first_place(start, x.shape_axes[place].extent)
    if step == 1:
        return ops.narrow(x, place, first, at.shape[place])
    bounds: list[Any] = [None] * x.rank
    bounds[place] = first
    ends: list[Any] = [None] * x.rank
    ends[place] = end if not isinstance(end, int) or end < _NO_END else None
    return ops.slice(x, bounds, ends, [step if d == place else 1 for d in range(x.rank)])


_NO_END = 2**62
"""Ends of slices from here on mean all that there is."""


def _first_place(start: Any, extent: Expr) -> Any:
    """Where a slice of some elements begins; symbols are known to be inside, from some end."""
    if start is None or isinstance(start, int):
        first = start or 0
        from_end = integers.maximum(integers.ZERO, integers.add(extent, first))
        return integers.minimum(first, extent) if first >= 0 else from_end
    return counted_place(extent, start)


def slice_set(
    at: At,
    x: Any,
    part: Any,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
) -> Any:
    """A tensor with a part of it replaced: gradients of slices are zeros, replaced so."""
    place = dim % x.rank
    value = x.definition.value if isinstance(x.definition, Full) else 0
    extent = x.shape_axes[place].extent
    if integers.constant(part.shape_axes[place].extent) == 0:
        return ops.set(x)
    first = _first_place(start, extent)
    part = _apart(part, place, step, integers.sub(extent, first), value)
    last = integers.add(first, part.shape_axes[place].extent)
    widths = [0, 0] * (x.rank - 1 - place) + [first, integers.sub(extent, last)]
    if isinstance(x.definition, Full):
        return ops.pad(part, widths, value)
    counted = ops.iota(extent, fusion=at.fusion)
    where = ops.broadcast(counted, [d != place for d in range(x.rank)])
    inside = ops.logical_and(ops.ge(where, first), ops.lt(where, last))
    if step != 1:
        inside = ops.logical_and(inside, ops.eq(ops.remainder(ops.sub(where, first), step), 0))
    return ops.where(inside, ops.pad(part, widths), x)


def _apart(part: Any, place: int, step: int, room: Expr, value: Any) -> Any:
    """A tensor whose places of a dimension lie a step apart, with a value between, in its room."""
    if step == 1:
        return part
    shape = [axis.extent for axis in part.shape_axes]
    wide = ops.broadcast(part, [d == place + 1 for d in range(part.rank + 1)])
    wide = ops.pad(wide, [0, 0] * (part.rank - 1 - place) + [0, step - 1], value)
    longest = integers.mul(shape[place], step)
    spread = ops.reshape(wide, [*shape[:place], longest, *shape[place + 1 :]])
    return ops.narrow(spread, place, 0, integers.minimum(longest, room))


def selected_set(at: At, x: Any, part: Any, dim: int, index: Any) -> Any:
    place = dim % x.rank
    wide = ops.broadcast(part, [d == place for d in range(x.rank)])
    index = counted_place(x.shape_axes[place].extent, integers.index(index))
    return slice_set(at, x, wide, place, index)


def joined(at: At, tensors: Sequence[Any], dim: int = 0) -> Any:
    """Torch leaves out empty tensors of one dimension, whatever the others have."""
    kept = [t for t in tensors if t.rank != 1 or t.shape_axes[0].extent != integers.ZERO]
    return ops.cat(kept or tensors[:1], dim)


def split(at: At, x: Any, sizes: Any, dim: int = 0) -> Any:
    return tuple(ops.split(x, sizes, dim))


def padded(at: At, x: Any, widths: Sequence[Any], value: Any = 0) -> Any:
    return ops.pad(x, widths, value)


def gathered(at: At, x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    return ops.gather(x, index, dim) if x.rank else x


def indexed(at: At, x: Any, indices: Sequence[Any]) -> Any:
    return ops.index(x, tuple(slice(None) if each is None else each for each in indices))


def _dims(dims: Any) -> Any:
    """None, for all dimensions, is also said by an empty list."""
    return dims if isinstance(dims, int) or dims else None


def accumulation(op: Callable[..., Any]) -> Meaning:
    def meaning(
        at: At, x: Any, dims: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Any:
        return op(x, _dims(dims), keepdim, at.dtype)

    return meaning


def extreme(op: Callable[..., Any]) -> Meaning:
    return lambda at, x, dims=(), keepdim=False: op(x, _dims(dims), keepdim)


def best(op: Callable[..., Any], place: Callable[..., Any]) -> Meaning:
    """An extreme of a dimension, and the first place where it is."""

    def meaning(at: At, x: Any, dim: int, keepdim: bool = False) -> Any:
        return op(x, dim, keepdim), place(x, dim, keepdim)

    return meaning


def scattered(join: Callable[..., Any]) -> Meaning:
    """What is written to one place of each row: each element asks whether it is there."""

    def meaning(at: At, x: Any, dim: int, index: Any, source: Any) -> Any:
        wanted = [integers.ONE if d == dim % x.rank else e for d, e in enumerate(at.shape)]
        written = (t for t in (index, source) if isinstance(t, TensorView))
        if not wanted or any([a.extent for a in t.shape_axes] != wanted for t in written):
            raise NotTaken("it writes to other than one place of each row")
        counted = ops.iota(at.shape[dim % x.rank], fusion=at.fusion)
        places = ops.broadcast(counted, [d != dim % x.rank for d in range(x.rank)])
        return ops.where(ops.eq(places, index), join(x, source), x)

    return meaning


def var_mean(at: At, x: Any, dims: Any = None, *, correction: Any = 1, keepdim: Any = False) -> Any:
    return ops.var_mean(x, _dims(dims), 1 if correction is None else correction, keepdim)


def var(at: At, x: Any, dims: Any = None, *, correction: Any = 1, keepdim: Any = False) -> Any:
    return var_mean(at, x, dims, correction=correction, keepdim=keepdim)[0]


def accumulated(op: Callable[..., Any]) -> Meaning:
    return lambda at, x, dim, *, dtype=None: op(x, dim, at.dtype)


def product(op: Callable[..., Any]) -> Meaning:
    def meaning(at: At, *args: Any, **how: Any) -> Any:
        if not at.dtype.is_float:
            raise NotTaken(f"a product of {at.dtype.value}")
        precision = at.precision if at.dtype is DataType.Float else "exact"
        return op(*args, **how, precision=precision)

    return meaning


def grouped(at: At, x: Any, weight: Any, ends: Any = None, bias: Any = None, *rest: Any) -> Any:
    """Rows, each times the matrix of its group: of experts, for each word that they have."""
    if ends is None or bias is not None or (x.rank, weight.rank) != (2, 3):
        raise NotTaken("other groups than of rows, each with a matrix and no bias")
    return ops.grouped_matmul(x, ops.permute(weight, (0, 2, 1)), ends, dtype=at.dtype)


def vectors(op: Callable[..., Any]) -> Meaning:
    def meaning(at: At, *args: Any) -> Any:
        if not at.dtype.is_float:
            raise NotTaken(f"a product of {at.dtype.value}")
        return op(*args)

    return meaning
