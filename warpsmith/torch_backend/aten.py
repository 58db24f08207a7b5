"""What operations of torch's core set are in `warpsmith.ops`: one table, a line each.

A meaning is called with the node's place, and with its arguments as values of a fusion. Results get
the type that torch says: see `definition`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from warpsmith import ops
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Precision
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Expr
from warpsmith.runtime.arrays import torch_dtypes

TYPES: Mapping[torch.dtype, DataType] = {
    kind: DataType(name) for name, kind in torch_dtypes().items() if "float8" not in name
}
"""The types of tensors that a fusion takes. Of 8-bit floats torch's own rules differ."""


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


def _scaled(function: Callable[..., Any]) -> Meaning:
    def meaning(at: At, a: Any, b: Any, *, alpha: Any = 1) -> Any:
        return function(a, b if alpha == 1 else ops.mul(b, alpha))

    return meaning


def _reverse_sub(at: At, a: Any, b: Any, alpha: Any = 1) -> Any:
    return ops.sub(b, a if alpha == 1 else ops.mul(a, alpha))


def _divided(at: At, a: Any, b: Any, *, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        return ops.truediv(a, b)
    if rounding_mode == "floor":
        return ops.floor_divide(a, b)
    return ops.trunc(ops.div(a, b))


def _power(at: At, base: Any, exponent: Any) -> Any:
    if exponent == 2:
        return ops.mul(base, base)
    if at.dtype.is_float and exponent in _POWERS:
        return _POWERS[exponent](base)
    return ops.pow(base, exponent)


_POWERS: Mapping[float, Callable[[Any], Any]] = {
    -1: ops.reciprocal,
    -0.5: ops.rsqrt,
    0.5: ops.sqrt,
    1: ops.set,
    3: lambda x: ops.mul(ops.mul(x, x), x),
}


def _product_added(join: Callable[..., Any]) -> Meaning:
    def meaning(at: At, x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
        found = join(a, b)
        return ops.add(x, found if value == 1 else ops.mul(found, value))

    return meaning


def _gelu(at: At, x: Any, *, approximate: str = "none") -> Any:
    if approximate == "none":
        return ops.mul(ops.mul(x, 0.5), ops.add(ops.erf(ops.mul(x, math.sqrt(0.5))), 1.0))
    cube = ops.mul(ops.mul(x, x), x)
    inner = ops.mul(ops.add(x, ops.mul(cube, 0.044715)), math.sqrt(2 / math.pi))
    return ops.mul(ops.mul(x, 0.5), ops.add(ops.tanh(inner), 1.0))


def _converted(at: At, x: Any, *args: Any, device: Any = None, **how: Any) -> Any:
    """A conversion; what torch says of layout and memory is kept by the result as it leaves."""
    if device is not None and torch.device(device).type != at.device.type:
        raise NotTaken(f"it copies to {device}")
    return ops.cast(x, at.dtype)


def _copied(at: At, x: Any, *, memory_format: Any = None) -> Any:
    return ops.set(x)


def _overwritten(at: At, x: Any, source: Any, *args: Any) -> Any:
    """A copy into a tensor, which nothing is left of."""
    return ops.cast(_expanded(at, source), at.dtype)


def _same(at: At, x: Any, *args: Any) -> Any:
    return x


def _reshaped(at: At, x: Any, *args: Any) -> Any:
    return ops.reshape(x, at.shape)


def _permuted(at: At, x: Any, dims: Sequence[int]) -> Any:
    return ops.permute(x, [d % x.rank for d in dims])


def _transposed(at: At, x: Any, *dims: int) -> Any:
    if x.rank < 2:
        return x
    return ops.transpose(x, *(dims or (0, 1)))


def _unsqueezed(at: At, x: Any, dim: int) -> Any:
    place = dim % (x.rank + 1)
    return ops.broadcast(x, [d == place for d in range(x.rank + 1)])


def _squeezed(at: At, x: Any, dims: Any = None) -> Any:
    asked = range(x.rank) if dims is None else dims if isinstance(dims, Sequence) else [dims]
    places = {d % max(x.rank, 1) for d in asked}
    return ops.squeeze(x, [d for d in places if d < x.rank and x.shape_axes[d].is_broadcast])


def _expanded(at: At, x: Any, *args: Any, **how: Any) -> Any:
    missing = len(at.shape) - x.rank
    wide = ops.broadcast(x, [d < missing for d in range(len(at.shape))]) if missing else x
    return ops.expand(wide, at.shape)


def _repeated(at: At, x: Any, times: Sequence[Any]) -> Any:
    wide = ops.broadcast(x, [True] * (len(times) - x.rank) + [False] * x.rank)
    extents = [axis.extent for axis in wide.shape_axes]
    apart = ops.broadcast(wide, [True, False] * len(times))
    whole = ops.expand(apart, [each for pair in zip(times, extents, strict=True) for each in pair])
    return ops.reshape(whole, at.shape)


def _filled(at: At, *args: Any, **how: Any) -> Any:
    """`full(shape, value)`, `scalar_tensor(value)`."""
    return ops.full(at.shape, args[-1], at.dtype, fusion=at.fusion)


def _filled_like(at: At, x: Any, value: Any, **how: Any) -> Any:
    return _filled(at, value)


def _constant(value: float) -> Meaning:
    return lambda at, *args, **how: ops.full(at.shape, value, at.dtype, fusion=at.fusion)


def _counted(at: At, start: Any, end: Any, step: Any = 1, **how: Any) -> Any:
    wide = at.dtype if at.dtype.compute is at.dtype else at.dtype.compute
    return ops.cast(ops.iota(at.shape[0], start, step, wide, fusion=at.fusion), at.dtype)


def _numbered(
    at: At, length: Any, *, start: Any = 0, step: Any = 1, dtype: Any = None, **how: Any
) -> Any:
    return _counted(at, start, None, step)


def _sliced(at: At, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    """How long the slice is, torch has found."""
    place = dim % x.rank
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
    """Where a slice begins; symbols are known to be inside."""
    if start is None or isinstance(start, int):
        first = start or 0
        return integers.minimum(first, extent) if first >= 0 else integers.add(extent, first)
    return start


def _slice_set(
    at: At,
    x: Any,
    part: Any,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
) -> Any:
    """A tensor with a part of it replaced: gradients of slices are zeros, replaced so."""
    if step != 1:
        raise NotTaken(f"a stride of {step}")
    place = dim % x.rank
    extent, length = (t.shape_axes[place].extent for t in (x, part))
    first = _first_place(start, extent)
    last = integers.add(first, length)
    widths = [0, 0] * (x.rank - 1 - place) + [first, integers.sub(extent, last)]
    counted = ops.iota(extent, fusion=at.fusion)
    where = ops.broadcast(counted, [d != place for d in range(x.rank)])
    inside = ops.logical_and(ops.ge(where, first), ops.lt(where, last))
    return ops.where(inside, ops.pad(part, widths), x)


def _selected_set(at: At, x: Any, part: Any, dim: int, index: Any) -> Any:
    place = dim % x.rank
    wide = ops.broadcast(part, [d == place for d in range(x.rank)])
    if isinstance(index, int) and index < 0:
        index = integers.add(x.shape_axes[place].extent, index)
    return _slice_set(at, x, wide, place, index)


def _joined(at: At, tensors: Sequence[Any], dim: int = 0) -> Any:
    """Torch leaves out empty tensors of one dimension, whatever the others have."""
    kept = [t for t in tensors if t.rank != 1 or t.shape_axes[0].extent != integers.ZERO]
    return ops.cat(kept or tensors[:1], dim)


def _split(at: At, x: Any, sizes: Any, dim: int = 0) -> Any:
    return tuple(ops.split(x, sizes, dim))


def _padded(at: At, x: Any, widths: Sequence[Any], value: Any = 0) -> Any:
    return ops.pad(x, widths, value)


def _gathered(at: At, x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    return ops.gather(x, index, dim) if x.rank else x


def _indexed(at: At, x: Any, indices: Sequence[Any]) -> Any:
    return ops.index(x, tuple(slice(None) if each is None else each for each in indices))


def _dims(dims: Any) -> Any:
    """None, for all dimensions, is also said by an empty list."""
    return dims if isinstance(dims, int) or dims else None


def _sum(op: Callable[..., Any]) -> Meaning:
    def meaning(
        at: At, x: Any, dims: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Any:
        return op(x, _dims(dims), keepdim, at.dtype)

    return meaning


def _extreme(op: Callable[..., Any]) -> Meaning:
    return lambda at, x, dims=(), keepdim=False: op(x, _dims(dims), keepdim)


def _var_mean(
    at: At, x: Any, dims: Any = None, *, correction: Any = 1, keepdim: Any = False
) -> Any:
    return ops.var_mean(x, _dims(dims), 1 if correction is None else correction, keepdim)


def _var(at: At, x: Any, dims: Any = None, *, correction: Any = 1, keepdim: Any = False) -> Any:
    return _var_mean(at, x, dims, correction=correction, keepdim=keepdim)[0]


def _accumulated(op: Callable[..., Any]) -> Meaning:
    return lambda at, x, dim, *, dtype=None: op(x, dim, at.dtype)


def _product(op: Callable[..., Any]) -> Meaning:
    def meaning(at: At, *args: Any, **how: Any) -> Any:
        if not at.dtype.is_float:
            raise NotTaken(f"a product of {at.dtype.value}")
        precision = at.precision if at.dtype is DataType.Float else "exact"
        return op(*args, **how, precision=precision)

    return meaning


def _vectors(op: Callable[..., Any]) -> Meaning:
    def meaning(at: At, *args: Any) -> Any:
        if not at.dtype.is_float:
            raise NotTaken(f"a product of {at.dtype.value}")
        return op(*args)

    return meaning


_NAMES = (
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitwise_not",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "frac",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_not",
    "neg",
    "reciprocal",
    "relu",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "signbit",
    "silu",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
)
"""Functions of one operand that both know by one name."""

READS: Mapping[str, Meaning] = {
    "select.int": lambda at, x, dim, index: ops.select(x, index, dim),
    "slice.Tensor": _sliced,
    "split.Tensor": _split,
    "split_with_sizes": _split,
    "unbind.int": lambda at, x, dim=0: tuple(ops.unbind(x, dim)),
}
"""Views of a part: as `VIEWS` of what a fusion computes, while of others torch's views are read."""

VIEWS: Mapping[str, Meaning] = {
    "alias": _same,
    "detach": _same,
    "expand": _expanded,
    "permute": _permuted,
    "squeeze": _squeezed,
    "squeeze.dim": _squeezed,
    "squeeze.dims": _squeezed,
    "t": _transposed,
    "transpose.int": _transposed,
    "unsqueeze": _unsqueezed,
    "view": _reshaped,
}
"""Operations that move nothing where torch does them: each fusion that reads one does its own."""

FACTORIES: Mapping[str, Meaning] = {
    "arange.start_step": _counted,
    "full": _filled,
    "full_like": _filled_like,
    "ones": _constant(1),
    "ones_like": _constant(1),
    "scalar_tensor": _filled,
    "zeros": _constant(0),
    "zeros_like": _constant(0),
    "prims.iota": _numbered,
}
"""Operations that read no elements: each fusion that reads one does its own."""

TABLE: Mapping[str, Meaning] = {
    **{name: plain(getattr(ops, name)) for name in _NAMES},
    **VIEWS,
    **READS,
    **FACTORIES,
    "_to_copy": _converted,
    "_unsafe_view": _reshaped,
    "add.Scalar": _scaled(ops.add),
    "add.Tensor": _scaled(ops.add),
    "addcdiv": _product_added(ops.truediv),
    "addcmul": _product_added(ops.mul),
    "addmm": _product(ops.addmm),
    "all": _extreme(ops.all),
    "all.dim": _extreme(ops.all),
    "all.dims": _extreme(ops.all),
    "amax": _extreme(ops.max),
    "amin": _extreme(ops.min),
    "any": _extreme(ops.any),
    "any.dim": _extreme(ops.any),
    "any.dims": _extreme(ops.any),
    "argmax": plain(ops.argmax),
    "argmin": plain(ops.argmin),
    "atan2": plain(ops.atan2),
    "baddbmm": _product(ops.baddbmm),
    "bitwise_and.Scalar": plain(ops.bitwise_and),
    "bitwise_and.Tensor": plain(ops.bitwise_and),
    "bitwise_left_shift.Tensor": plain(ops.bitwise_left_shift),
    "bitwise_or.Scalar": plain(ops.bitwise_or),
    "bitwise_or.Tensor": plain(ops.bitwise_or),
    "bitwise_right_shift.Tensor": plain(ops.bitwise_right_shift),
    "bitwise_xor.Scalar": plain(ops.bitwise_xor),
    "bitwise_xor.Tensor": plain(ops.bitwise_xor),
    "bmm": _product(ops.bmm),
    "cat": _joined,
    "clamp": plain(ops.clamp),
    "clamp.Tensor": plain(ops.clamp),
    "clamp_max": plain(ops.minimum),
    "clamp_max.Tensor": plain(ops.minimum),
    "clamp_min": plain(ops.maximum),
    "clamp_min.Tensor": plain(ops.maximum),
    "clone": _copied,
    "constant_pad_nd": _padded,
    "copy": _overwritten,
    "cumprod": _accumulated(ops.cumprod),
    "cumsum": _accumulated(ops.cumsum),
    "div.Scalar": _divided,
    "div.Scalar_mode": _divided,
    "div.Tensor": _divided,
    "div.Tensor_mode": _divided,
    "dot": _vectors(ops.dot),
    "embedding": lambda at, table, index, *args: ops.embedding(index, table),
    "eq.Scalar": plain(ops.eq),
    "eq.Tensor": plain(ops.eq),
    "flip": plain(ops.flip),
    "floor_divide": plain(ops.floor_divide),
    "fmod.Scalar": plain(ops.fmod),
    "fmod.Tensor": plain(ops.fmod),
    "gather": _gathered,
    "ge.Scalar": plain(ops.ge),
    "ge.Tensor": plain(ops.ge),
    "gelu": _gelu,
    "gt.Scalar": plain(ops.gt),
    "gt.Tensor": plain(ops.gt),
    "index.Tensor": _indexed,
    "index_select": lambda at, x, dim, index: ops.index_select(x, index, dim),
    "le.Scalar": plain(ops.le),
    "le.Tensor": plain(ops.le),
    "lerp.Scalar": plain(ops.lerp),
    "lerp.Tensor": plain(ops.lerp),
    "lift_fresh_copy": _copied,
    "logical_and": plain(ops.logical_and),
    "logical_or": plain(ops.logical_or),
    "logical_xor": lambda at, a, b: ops.ne(ops.cast(a, DataType.Bool), ops.cast(b, DataType.Bool)),
    "lt.Scalar": plain(ops.lt),
    "lt.Tensor": plain(ops.lt),
    "maximum": plain(ops.maximum),
    "mean": _sum(ops.mean),
    "mean.dim": _sum(ops.mean),
    "minimum": plain(ops.minimum),
    "mm": _product(ops.matmul),
    "mul.Scalar": plain(ops.mul),
    "mul.Tensor": plain(ops.mul),
    "mv": _vectors(ops.mv),
    "ne.Scalar": plain(ops.ne),
    "ne.Tensor": plain(ops.ne),
    "nextafter": plain(ops.nextafter),
    "pow.Scalar": plain(ops.pow),
    "pow.Tensor_Scalar": _power,
    "pow.Tensor_Tensor": plain(ops.pow),
    "prims.convert_element_type": _converted,
    "prod": _sum(ops.prod),
    "prod.dim_int": _sum(ops.prod),
    "remainder.Scalar": plain(ops.remainder),
    "remainder.Tensor": plain(ops.remainder),
    "repeat": _repeated,
    "rsub.Scalar": _reverse_sub,
    "rsub.Tensor": _reverse_sub,
    "select_scatter": _selected_set,
    "slice_scatter": _slice_set,
    "sub.Scalar": _scaled(ops.sub),
    "sub.Tensor": _scaled(ops.sub),
    "sum": _sum(ops.sum),
    "sum.dim_IntList": _sum(ops.sum),
    "var.correction": _var,
    "var_mean.correction": _var_mean,
    "where.self": plain(ops.where),
}
"""By torch's name, `aten.` and `.default` left out, each operation that a fusion takes."""


def name_of(target: Any) -> str:
    """The name of an operator of torch's as `TABLE` has it; empty for what is none."""
    if not isinstance(target, torch._ops.OpOverload):
        return ""
    return str(target).removeprefix("aten.").removesuffix(".default")
