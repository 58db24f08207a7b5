"""`nvfuser_direct.ops`: every operation of nvFuser, by its name, with its arguments' names.

What warpsmith computes otherwise, or has under another name, is a function here; all others are
those of `warpsmith.ops` of the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsmith import ops as own
from warpsmith.frontends.nvfuser_direct.enums import DataType
from warpsmith.frontends.nvfuser_direct.failures import FusionError, unsupported
from warpsmith.frontends.nvfuser_direct.fusion import Fusion
from warpsmith.frontends.nvfuser_direct.operation import named, operation
from warpsmith.frontends.nvfuser_direct.values import TensorView, Val
from warpsmith.ir.dtypes import DataType as Type
from warpsmith.ir.scalar import Const, Expr

UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh erf erfc erfcinv erfinv exp "
    "exp2 expm1 floor frac isfinite isinf isnan isneginf isposinf isreal lgamma log log10 log1p "
    "log2 logical_not neg reciprocal relu round rsqrt segment_set set sigmoid sign signbit silu "
    "sin sinh sqrt tan tanh trunc"
)
BINARY = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor div eq "
    "fmod gcd ge gt le logical_and logical_or logical_right_shift lt maximum minimum mod mul ne "
    "nextafter pow remainder sub truediv"
)
OTHERS = {
    "addcmul": "x t1 t2 value",
    "broadcast": "arg is_broadcast_dim",
    "broadcast_in_dim": "arg shape broadcast_dims",
    "cast": "arg dtype",
    "expand": "arg shape",
    "gather": "arg index dim",
    "index_select": "arg index dim",
    "lerp": "start end weight",
    "matmul": "a b",
    "permute": "arg dims",
    "scatter": "arg1 index src dim",
    "select": "arg index dim",
    "stride_order": "arg stride_order",
    "take_along_axis": "arg index dim",
    "threshold": "x thr value",
    "where": "cond a b",
}

SAME = {
    **dict.fromkeys(UNARY.split(), "x"),
    **dict.fromkeys(BINARY.split(), "lhs rhs"),
    **OTHERS,
}
"""Operations that are warpsmith's own, and the names of their arguments."""

_SAME = {name: named(name, words, getattr(own, name)) for name, words in SAME.items()}


HERE = (
    "argsort cat clamp cummax cummin cumprod cumsum embedding_fwd full grouped_mm imag iota linear "
    "max min normal pad prod rand_like randn_like real reshape scaled_mm sdpfa_bwd sdpfa_fwd shape "
    "size slice squeeze sum topk triu uniform var var_mean welford"
)
"""Operations that are functions of this file."""


def size(arg: TensorView, dim: int) -> Val:
    """Extent of a dimension."""
    return arg.fusion.size(arg, dim)


def shape(arg: TensorView) -> list[Val]:
    """Extents of all dimensions."""
    return arg.shape()


@operation
def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    """`x` between `min` and `max`, of which one may be absent."""
    return own.clamp(x, min, max)


@operation
def real(x: Any) -> Any:
    """The real part: numbers are real here."""
    return own.set(x)


@operation
def imag(x: Any) -> Any:
    """The imaginary part, which no number here has."""
    raise unsupported("ops.imag", f"{x.name} of type {x.dtype.name} is real")


@operation
def rand_like(x: Any, *, fusion: Fusion) -> Any:
    """Numbers from 0 to 1 in the shape and type of `x`."""
    return _random("uniform", 0.0, 1.0, own.shape(x), None, None, x.dtype, fusion)


@operation
def randn_like(x: Any, *, fusion: Fusion) -> Any:
    """Normal numbers in the shape and type of `x`."""
    return _random("normal", 0.0, 1.0, own.shape(x), None, None, x.dtype, fusion)


@operation
def uniform(
    minval: Any,
    maxval: Any,
    shape: Sequence[Any],
    *,
    rng_seed: Any = None,
    rng_offset: Any = None,
    dtype: Any = DataType.Float,
    fusion: Fusion,
) -> Any:
    """Numbers from `minval` to `maxval`; without a seed, other ones in each call."""
    return _random("uniform", minval, maxval, shape, rng_seed, rng_offset, dtype, fusion)


@operation
def normal(
    mean: Any,
    std: Any,
    shape: Sequence[Any],
    *,
    rng_seed: Any = None,
    rng_offset: Any = None,
    dtype: Any = DataType.Float,
    fusion: Fusion,
) -> Any:
    """Normal numbers; without a seed, other ones in each call."""
    return _random("normal", mean, std, shape, rng_seed, rng_offset, dtype, fusion)


def _random(
    name: str,
    low: Any,
    high: Any,
    shape: Sequence[Any],
    seed: Any,
    offset: Any,
    dtype: Any,
    fusion: Fusion,
) -> Any:
    if (seed is None) is not (offset is None):
        raise FusionError(
            f"{name} got a {'seed' if offset is None else 'offset'} alone",
            code="WS0192",
            remedy="give both rng_seed and rng_offset, or neither",
        )
    if seed is None:
        seed, offset = fusion.drawn()
    return getattr(own, name)(
        low,
        high,
        [_extent(each) for each in shape],
        rng_seed=seed,
        rng_offset=offset,
        dtype=_type(dtype) or Type.Float,
        fusion=fusion.ours,
    )


@operation
def full(shape: Sequence[Any], fill_value: Any, dtype: Any, *, fusion: Fusion) -> Any:
    """A tensor of one value."""
    return own.full([_extent(each) for each in shape], fill_value, _type(dtype), fusion=fusion.ours)


@operation
def iota(
    length: Any, start: Any = None, step: Any = None, dtype: Any = DataType.Int, *, fusion: Fusion
) -> Any:
    """`start + step * i` for `i` below `length`."""
    first, more = (0 if start is None else start), (1 if step is None else step)
    return own.iota(_extent(length), first, more, _type(dtype) or Type.Int, fusion=fusion.ours)


@operation
def sum(
    arg: Any,
    dims: Any = None,
    keepdim: bool = False,
    dtype: Any = DataType.Null,
    *,
    dim: Any = None,
) -> Any:
    """Sum over `dims`, all by default."""
    return own.sum(arg, *_reduced(dims, dim, keepdim, dtype))


@operation
def prod(
    arg: Any,
    dims: Any = None,
    keepdim: bool = False,
    dtype: Any = DataType.Null,
    *,
    dim: Any = None,
) -> Any:
    """Product over `dims`, all by default."""
    return own.prod(arg, *_reduced(dims, dim, keepdim, dtype))


@operation
def max(
    arg: Any,
    dims: Any = None,
    keepdim: bool = False,
    dtype: Any = DataType.Null,
    *,
    dim: Any = None,
) -> Any:
    """Largest element over `dims`, all by default."""
    return own.max(arg, *_reduced(dims, dim, keepdim, dtype))


@operation
def min(
    arg: Any,
    dims: Any = None,
    keepdim: bool = False,
    dtype: Any = DataType.Null,
    *,
    dim: Any = None,
) -> Any:
    """Smallest element over `dims`, all by default."""
    return own.min(arg, *_reduced(dims, dim, keepdim, dtype))


def _reduced(dims: Any, dim: Any, keepdim: bool, dtype: Any) -> tuple[Any, bool, Any]:
    """Dimensions, `keepdim` and type: the type may stand where the dimensions do."""
    if isinstance(dims, Type | DataType):
        return None, keepdim, _type(dims)
    return (dim if dims is None else dims), keepdim, _type(dtype)


@operation
def var(arg: Any, dims: Any, correction: float = 1, keepdim: bool = False) -> Any:
    """Variance over `dims`."""
    return own.var(arg, dims, _number(correction), keepdim)


@operation
def var_mean(arg: Any, dims: Any, correction: float = 1, keepdim: bool = False) -> Any:
    """(Variance, mean) over `dims`."""
    return own.var_mean(arg, dims, _number(correction), keepdim)


@operation
def welford(arg: Any, dims: Any) -> Any:
    """(Mean, sum of squared deviations, count) over `dims`."""
    return own.welford(arg, dims)


@operation
def cumsum(arg: Any, dim: int) -> Any:
    """Sums of a dimension's elements up to each."""
    return own.cumsum(arg, dim)


@operation
def cumprod(arg: Any, dim: int) -> Any:
    """Products of a dimension's elements up to each."""
    return own.cumprod(arg, dim)


@operation
def cummax(arg: Any, dim: int) -> Any:
    """Largest of a dimension's elements up to each."""
    return own.cummax(arg, dim)[0]


@operation
def cummin(arg: Any, dim: int) -> Any:
    """Smallest of a dimension's elements up to each."""
    return own.cummin(arg, dim)[0]


@operation
def triu(arg: Any, diagonal: Any = 0) -> Any:
    """The elements on and above a diagonal, and 0 below."""
    return own.triu(arg, diagonal)


@operation
def linear(arg1: Any, arg2: Any, bias: Any = None) -> Any:
    """`arg1 @ arg2.T + bias`."""
    return own.linear(arg1, arg2, bias)


@operation
def grouped_mm(
    mat1: Any, mat2: Any, offsets: Any, scale1: Any = None, scale2: Any = None, **rest: Any
) -> Any:
    """Rows of `mat1`, each times its group's matrix of `mat2 [groups, k, n]`; groups end before the
    rows that `offsets` says.
    """
    if scale1 is not None or scale2 is not None or rest:
        raise unsupported("ops.grouped_mm", "scales of groups are Blackwell's", "multiply before")
    if mat1.rank != 2 or mat2.rank != 3:
        raise unsupported(
            "ops.grouped_mm",
            f"operands have {mat1.rank} and {mat2.rank} dimensions, and groups are of rows",
            "give mat1 of 2 dimensions and mat2 of 3",
        )
    return own.grouped_matmul(mat1, own.transpose(mat2), offsets)


@operation
def scaled_mm(
    mat1: Any,
    mat2: Any,
    scale1: Any,
    scale2: Any,
    alpha: Any = None,
    bias: Any = None,
    beta: Any = None,
    dtype: Any = DataType.BFloat16,
) -> Any:
    """`alpha * (mat1 * scale1) @ (mat2 * scale2) + beta * bias`."""
    made = own.scaled_matmul(mat1, mat2, scale1, scale2, dtype=Type.Float)
    if alpha is not None:
        made = own.mul(made, alpha)
    if bias is not None:
        made = own.add(made, bias if beta is None else own.mul(bias, beta))
    return own.cast(made, _type(dtype) or made.dtype)


@operation
def reshape(arg: Any, new_shape: Sequence[Any]) -> Any:
    """The elements in another shape."""
    return own.reshape(arg, [_extent(each) for each in new_shape])


@operation
def squeeze(arg: Any, dims: Any, squeeze_expanded: bool = False) -> Any:
    """The tensor without some dimensions of extent 1, or repeated ones."""
    return own.squeeze(arg, dims, squeeze_expanded)


@operation
def slice(
    arg: Any,
    start_indices: Sequence[Any],
    end_indices: Sequence[Any],
    strides: Any = None,
    manual_normalization: bool = False,
) -> Any:
    """Of each dimension the elements from a start on, below an end, a stride apart."""
    steps = None if strides is None else [int(_number(each)) for each in strides]
    return own.slice(arg, start_indices, end_indices, steps, bool(manual_normalization))


@operation
def pad(arg: Any, pad_widths: Sequence[Any], value: Any = None) -> Any:
    """So many elements more before and behind, from the last dimension on."""
    return own.pad(arg, [_extent(each) for each in pad_widths], 0 if value is None else value)


@operation
def cat(tensors: Sequence[Any], dim: int = 0, manual_padding: bool = False) -> Any:
    """Tensors behind each other along a dimension."""
    return own.cat(tensors, dim, manual_padding)


@operation
def topk(arg: Any, k: Any, dim: int = -1, largest: bool = True, sorted: bool = False) -> Any:
    """(The k largest or smallest elements, where they stand), in order."""
    return own.topk(arg, int(_number(k)), dim, largest, sorted)


@operation
def argsort(arg: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """Where the elements of a dimension stand, in order."""
    return own.argsort(arg, dim, descending, stable)


@operation
def embedding_fwd(
    input: Any,
    weight: Any,
    padding_idx: Any = None,
    max_norm: Any = None,
    norm_type: Any = None,
    scale_grad_by_freq: Any = None,
    sparse: Any = None,
) -> Any:
    """For each index the row of `weight` that it chooses."""
    return own.embedding_fwd(
        input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
    )


@operation
def sdpfa_fwd(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    dropout_p: Any = None,
    is_causal: Any = None,
    scale: Any = None,
    *,
    fusion: Fusion,
) -> Any:
    """(Attention, the logarithm of each row's sum, seed and offset of what was dropped).

    The seed is a tensor of two Ints, of which the first counts; the offset one without dimensions.
    """
    dropped = float(_number(dropout_p) or 0.0)
    seed, offset = fusion.drawn() if dropped else (0, 0)
    made, total = own.attention(
        query,
        key,
        value,
        bias,
        mask,
        is_causal=bool(_number(is_causal)),
        scale=scale,
        dropped=dropped,
        drawn=(seed, offset),
    )
    seeds = own.full([2], seed, Type.Int, fusion=fusion.ours)
    return made, total, seeds, own.full([], offset, Type.Int, fusion=fusion.ours)


@operation
def sdpfa_bwd(
    grad_output: Any,
    query: Any,
    key: Any,
    value: Any,
    output: Any,
    logsumexp: Any,
    dropout_p: Any = None,
    is_causal: Any = None,
    philox_seed: Any = None,
    philox_offset: Any = None,
    scale: Any = None,
) -> Any:
    """Gradients of query, key and value, from the results of `sdpfa_fwd`."""
    dropped = float(_number(dropout_p) or 0.0)
    seed, offset = (0, 0) if not dropped else (own.select(philox_seed, 0, 0), philox_offset)
    return own.attention_backward(
        grad_output,
        query,
        key,
        value,
        output,
        logsumexp,
        is_causal=bool(_number(is_causal)),
        scale=scale,
        dropped=dropped,
        drawn=(seed, offset),
    )


def _number(value: Any) -> Any:
    """The number that a constant is."""
    return value.value if isinstance(value, Const) else value


def _extent(value: Any) -> Any:
    """A number of elements: floats are cut, as nvFuser casts them."""
    if isinstance(value, Expr) and value.dtype.is_float:
        return own.cast(value, Type.Int)
    return value


def _type(dtype: Any) -> Type | None:
    """A type of warpsmith; what was a default is nvFuser's still."""
    if isinstance(dtype, DataType):
        return None if dtype is DataType.Null else Type[dtype.name]
    assert dtype is None or isinstance(dtype, Type)
    return dtype


_FOUR_BITS = "floats of 4 bits, and scales of blocks of them, are Blackwell's"
LACKING = {
    "cutlass_nvfp4_grouped_mm": _FOUR_BITS,
    "nv_block_quantize": _FOUR_BITS,
    "nv_grouped_block_quantize": _FOUR_BITS,
    "preprocess_grouped_matmul_input_sf": _FOUR_BITS,
}
"""Operations of nvFuser that are not here, and why."""


def __getattr__(name: str) -> Any:
    if name in _SAME:
        return _SAME[name]
    if name in LACKING:
        raise unsupported(f"ops.{name}", LACKING[name])
    raise AttributeError(f"module 'nvfuser_direct.ops' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*_SAME, *LACKING, *HERE.split()])
