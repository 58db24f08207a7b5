"""`nvfuser_direct.ops`: every operation of nvFuser, by its name, with its arguments' names.

What warpsmith computes otherwise, or has under another name, is a function, here or in
`attention`, `composites`, `factories` and `reductions`; all others are those of `warpsmith.ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from warpsmith import ops as own
from warpsmith.frontends.nvfuser_direct import checks
from warpsmith.frontends.nvfuser_direct.attention import *  # noqa: F403  # its __all__
from warpsmith.frontends.nvfuser_direct.attention import __all__ as _attention
from warpsmith.frontends.nvfuser_direct.composites import *  # noqa: F403  # its __all__
from warpsmith.frontends.nvfuser_direct.composites import __all__ as _composites
from warpsmith.frontends.nvfuser_direct.factories import *  # noqa: F403  # its __all__
from warpsmith.frontends.nvfuser_direct.factories import __all__ as _factories
from warpsmith.frontends.nvfuser_direct.failures import unsupported
from warpsmith.frontends.nvfuser_direct.fusion import Fusion
from warpsmith.frontends.nvfuser_direct.operation import named, operation
from warpsmith.frontends.nvfuser_direct.reductions import *  # noqa: F403  # its __all__
from warpsmith.frontends.nvfuser_direct.reductions import __all__ as _reductions
from warpsmith.frontends.nvfuser_direct.statements import Val
from warpsmith.frontends.nvfuser_direct.values import TensorView
from warpsmith.ir.dtypes import DataType, promote
from warpsmith.ir.tensor import TensorView as Tensor
from warpsmith.ops.values import as_scalar

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
    "argsort": "arg dim=-1 descending=False stable=False",
    "broadcast": "arg is_broadcast_dim",
    "cast": "arg dtype",
    "cat": "tensors dim=0 manual_padding=False",
    "clamp": "x min=None max=None",
    "cumprod": "arg dim",
    "cumsum": "arg dim",
    "embedding_fwd": "input weight padding_idx=None max_norm=None norm_type=None "
    "scale_grad_by_freq=None sparse=None",
    "expand": "arg shape",
    "gather": "arg index dim",
    "index_select": "arg index dim",
    "lerp": "start end weight",
    "linear": "arg1 arg2 bias=None",
    "matmul": "a b",
    "permute": "arg dims",
    "scatter": "arg1 index src dim",
    "select": "arg index dim",
    "stride_order": "arg stride_order",
    "take_along_axis": "arg index dim",
    "threshold": "x thr value",
    "triu": "arg diagonal=0",
    "welford": "arg dims",
}

SAME = {
    **dict.fromkeys(UNARY.split(), "x"),
    **dict.fromkeys(BINARY.split(), "lhs rhs"),
    **OTHERS,
}
"""Operations that are warpsmith's own, and the names of their arguments."""


def _function(name: str, words: str) -> Callable[..., Any]:
    """That of warpsmith; places may be floats, as in nvFuser, which drops their fractions."""
    function: Callable[..., Any] = getattr(own, name)
    if "index" not in words.split():
        return function
    place = words.split().index("index")

    def at_whole_places(*args: Any) -> Any:
        index = args[place]
        if isinstance(index, Tensor) and index.dtype.is_float:
            args = (*args[:place], own.cast(index, DataType.Int), *args[place + 1 :])
        return function(*args)

    at_whole_places.__doc__ = function.__doc__
    return at_whole_places


_SAME = {name: named(name, words, _function(name, words)) for name, words in SAME.items()}


HERE = "broadcast_in_dim imag pad real reshape shape size slice squeeze where"
"""Operations that are functions of this file."""


def size(arg: TensorView, dim: int) -> Val:
    """Extent of a dimension."""
    return arg.fusion.size(arg, dim)


def shape(arg: TensorView) -> list[Val]:
    """Extents of all dimensions."""
    return arg.shape()


@operation
def where(cond: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, and `b` elsewhere; of two scalars in the wider type."""
    checks.condition(cond)
    if isinstance(cond, Tensor) and not isinstance(a, Tensor) and not isinstance(b, Tensor):
        a, b = (as_scalar(each, "where") for each in (a, b))
        a = own.full_like(cond, a, promote(a.dtype, b.dtype))
    return own.where(cond, a, b)


@operation
def real(x: Any) -> Any:
    """The real part."""
    return own.set(x)


@operation
def imag(x: Any) -> Any:
    """The imaginary part of complex numbers."""
    raise unsupported("ops.imag", f"{x.name} of type {x.dtype.name} is real")


@operation
def broadcast_in_dim(
    arg: Any, shape: Sequence[Any], broadcast_dims: Sequence[int], *, fusion: Fusion
) -> Any:
    """A tensor of shape `shape` whose dimension `broadcast_dims[d]` is dimension `d` of `arg`."""
    if len(shape) > arg.rank:
        fusion.skip()
    return own.broadcast_in_dim(arg, list(map(fusion.hidden.extent, shape)), broadcast_dims)


@operation
def reshape(arg: Any, new_shape: Sequence[Any], *, fusion: Fusion) -> Any:
    """The elements in another shape."""
    return own.reshape(arg, list(map(fusion.hidden.extent, new_shape)))


@operation
def squeeze(arg: Any, dims: Any, squeeze_expanded: bool = False) -> Any:
    """The tensor without some dimensions of extent 1, or repeated ones."""
    checks.squeezed(arg.rank, dims)
    return own.squeeze(arg, dims, squeeze_expanded)


@operation
def slice(
    arg: Any,
    start_indices: Sequence[Any],
    end_indices: Sequence[Any],
    strides: Any = None,
    manual_normalization: bool = False,
) -> Any:
    """Of each dimension the elements from a start on, below an end; strides are 1."""
    checks.slices(arg.rank, start_indices, end_indices, strides)
    return own.slice(arg, start_indices, end_indices, None, bool(manual_normalization))


@operation
def pad(arg: Any, pad_widths: Sequence[Any], value: Any = None, *, fusion: Fusion) -> Any:
    """So many elements more before and behind, from the last dimension on."""
    return own.pad(arg, list(map(fusion.hidden.extent, pad_widths)), 0 if value is None else value)


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
    parts = (_attention, _composites, _factories, _reductions)
    return sorted([*_SAME, *LACKING, *HERE.split(), *(name for part in parts for name in part)])
