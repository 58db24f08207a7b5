"""What operations of torch's core set are in `warpsmith.ops`: one table, a line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from warpsmith import ops
from warpsmith.ir.dtypes import DataType
from warpsmith.runtime.arrays import torch_dtypes
from warpsmith.torch_backend import arithmetic, meanings, pools, unfolds
from warpsmith.torch_backend.comparisons import compared
from warpsmith.torch_backend.meanings import Meaning

TYPES: Mapping[torch.dtype, DataType] = {
    kind: DataType(name) for name, kind in torch_dtypes().items()
}
"""The types of tensors that a fusion takes."""


_NAMES = (
    "abs acos acosh argmax argmin asin asinh atan atan2 atanh bitwise_not ceil clamp cos cosh "
    "erf erfc erfinv exp exp2 expm1 flip floor floor_divide frac lgamma log log10 log1p log2 "
    "logical_and logical_not logical_or maximum minimum neg nextafter reciprocal relu round rsqrt "
    "sigmoid sign signbit silu sin sinh sqrt tan tanh trunc"
)
"""Functions that both know by one name, with the same arguments."""

_WITH_NUMBERS = "bitwise_and bitwise_or bitwise_xor lerp mul"
"""Such ones that torch has twice: of a tensor and a number, and of two tensors."""

_COMPARISONS = "eq fmod ge gt le lt ne remainder"
"""Of these, those that ask how two stand to each other, and what is left of one by the other."""

_KINDS = "isfinite isinf isnan isneginf isposinf"
"""Of the first, those that ask what a number is."""

PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "_grouped_mm")
"""Names of the operations that multiply matrices."""

READS: Mapping[str, Meaning] = {
    "select.int": lambda at, x, dim, index: ops.select(x, index, dim),
    "slice.Tensor": meanings.sliced,
    "split.Tensor": meanings.split,
    "split_with_sizes": meanings.split,
    "unbind.int": lambda at, x, dim=0: tuple(ops.unbind(x, dim)),
    "unfold": unfolds.unfolded,
}
"""Views of a part: as `VIEWS` of what a fusion computes, while of others torch's views are read."""

VIEWS: Mapping[str, Meaning] = {
    "alias": meanings.same,
    "detach": meanings.same,
    "expand": meanings.expanded,
    "permute": meanings.permuted,
    "squeeze": meanings.squeezed,
    "squeeze.dim": meanings.squeezed,
    "squeeze.dims": meanings.squeezed,
    "t": meanings.transposed,
    "transpose.int": meanings.transposed,
    "unsqueeze": meanings.unsqueezed,
    "view": meanings.reshaped,
}
"""Operations that move nothing where torch does them: each fusion that reads one does its own."""

CONVERSIONS = frozenset({"_to_copy", "clone", "copy", "prims.convert_element_type"})
"""Operations that compute nothing, and are all that is taken of 8-bit floats beside views, of which
torch's own rules differ from ours.
"""

SAME_ORDER = frozenset({"alias", "detach", "view"})
"""Those of them whose elements come in the same order."""

FACTORIES: Mapping[str, Meaning] = {
    "arange.start_step": meanings.counted,
    "full": meanings.filled,
    "full_like": meanings.filled_like,
    "ones": meanings.constant(1),
    "ones_like": meanings.constant(1),
    "scalar_tensor": meanings.filled,
    "zeros": meanings.constant(0),
    "zeros_like": meanings.constant(0),
    "prims.iota": meanings.numbered,
}
"""Operations that read no elements: each fusion that reads one does its own."""

TABLE: Mapping[str, Meaning] = {
    **{name: meanings.plain(getattr(ops, name)) for name in _NAMES.split()},
    **{
        f"{name}.{other}": meanings.plain(getattr(ops, name))
        for name in _WITH_NUMBERS.split()
        for other in ("Scalar", "Tensor")
    },
    **{
        f"{name}.{other}": compared(getattr(ops, name))
        for name in _COMPARISONS.split()
        for other in ("Scalar", "Tensor")
    },
    **{name: compared(getattr(ops, name)) for name in _KINDS.split()},
    **VIEWS,
    **READS,
    **FACTORIES,
    "__lshift__.Scalar": meanings.plain(ops.bitwise_left_shift),
    "__lshift__.Tensor": meanings.plain(ops.bitwise_left_shift),
    "__rshift__.Scalar": meanings.plain(ops.bitwise_right_shift),
    "__rshift__.Tensor": meanings.plain(ops.bitwise_right_shift),
    "_adaptive_avg_pool2d": pools.adaptive_avg_pool,
    "_adaptive_avg_pool2d_backward": pools.adaptive_avg_pool_gradient(2),
    "_adaptive_avg_pool3d": pools.adaptive_avg_pool,
    "_adaptive_avg_pool3d_backward": pools.adaptive_avg_pool_gradient(3),
    "_grouped_mm": meanings.grouped,
    "_to_copy": meanings.converted,
    "_unsafe_view": meanings.reshaped,
    "add.Scalar": arithmetic.scaled(ops.add),
    "add.Tensor": arithmetic.scaled(ops.add),
    "adaptive_max_pool2d": pools.adaptive_max_pool,
    "adaptive_max_pool2d_backward": pools.adaptive_max_pool_gradient(2),
    "adaptive_max_pool3d": pools.adaptive_max_pool,
    "adaptive_max_pool3d_backward": pools.adaptive_max_pool_gradient(3),
    "addcdiv": arithmetic.product_added(ops.truediv),
    "addcmul": arithmetic.product_added(ops.mul),
    "addmm": meanings.product(ops.addmm),
    "all": meanings.extreme(ops.all),
    "all.dim": meanings.extreme(ops.all),
    "all.dims": meanings.extreme(ops.all),
    "amax": meanings.extreme(ops.max),
    "amin": meanings.extreme(ops.min),
    "any": meanings.extreme(ops.any),
    "any.dim": meanings.extreme(ops.any),
    "any.dims": meanings.extreme(ops.any),
    "avg_pool2d": pools.avg_pool(2),
    "avg_pool2d_backward": pools.avg_pool_gradient(2),
    "avg_pool3d": pools.avg_pool(3),
    "avg_pool3d_backward": pools.avg_pool_gradient(3),
    "baddbmm": meanings.product(ops.baddbmm),
    "bitwise_left_shift.Tensor": meanings.plain(ops.bitwise_left_shift),
    "bitwise_left_shift.Tensor_Scalar": meanings.plain(ops.bitwise_left_shift),
    "bitwise_right_shift.Tensor": meanings.plain(ops.bitwise_right_shift),
    "bitwise_right_shift.Tensor_Scalar": meanings.plain(ops.bitwise_right_shift),
    "bmm": meanings.product(ops.bmm),
    "cat": meanings.joined,
    "clamp.Tensor": meanings.plain(ops.clamp),
    "clamp_max": meanings.plain(ops.minimum),
    "clamp_max.Tensor": meanings.plain(ops.minimum),
    "clamp_min": meanings.plain(ops.maximum),
    "clamp_min.Tensor": meanings.plain(ops.maximum),
    "col2im": unfolds.images,
    "clone": meanings.copied,
    "constant_pad_nd": meanings.padded,
    "copy": meanings.overwritten,
    "cumprod": meanings.accumulated(ops.cumprod),
    "cumsum": meanings.accumulated(ops.cumsum),
    "div.Scalar": arithmetic.divided,
    "div.Scalar_mode": arithmetic.divided,
    "div.Tensor": arithmetic.divided,
    "div.Tensor_mode": arithmetic.divided,
    "dot": meanings.vectors(ops.dot),
    "embedding": lambda at, table, index, *args: ops.embedding(index, table),
    "gather": meanings.gathered,
    "gelu": meanings.gelu,
    "im2col": unfolds.columns,
    "index.Tensor": meanings.indexed,
    "index_select": lambda at, x, dim, index: ops.index_select(x, index, dim),
    "lift_fresh_copy": meanings.copied,
    "logical_xor": lambda at, a, b: ops.ne(ops.cast(a, DataType.Bool), ops.cast(b, DataType.Bool)),
    "max.dim": meanings.best(ops.max, ops.argmax),
    "max_pool2d_with_indices": pools.max_pool(2),
    "max_pool2d_with_indices_backward": pools.max_pool_gradient(2),
    "max_pool3d_with_indices": pools.max_pool(3),
    "max_pool3d_with_indices_backward": pools.max_pool_gradient(3),
    "mean": meanings.accumulation(ops.mean),
    "mean.dim": meanings.accumulation(ops.mean),
    "min.dim": meanings.best(ops.min, ops.argmin),
    "mm": meanings.product(ops.matmul),
    "mv": meanings.vectors(ops.mv),
    "pow.Scalar": meanings.plain(ops.pow),
    "pow.Tensor_Scalar": meanings.power,
    "pow.Tensor_Tensor": meanings.plain(ops.pow),
    "prims.convert_element_type": meanings.converted,
    "prims.fma": lambda at, a, b, c: ops.add(ops.mul(a, b), c),
    "prod": meanings.accumulation(ops.prod),
    "prod.dim_int": meanings.accumulation(ops.prod),
    "repeat": meanings.repeated,
    "roll": meanings.rolled,
    "rsub.Scalar": arithmetic.reverse_sub,
    "rsub.Tensor": arithmetic.reverse_sub,
    "scatter.src": meanings.scattered(lambda x, source: source),
    "scatter.value": meanings.scattered(lambda x, source: source),
    "scatter_add": meanings.scattered(ops.add),
    "select_scatter": meanings.selected_set,
    "slice_scatter": meanings.slice_set,
    "sub.Scalar": arithmetic.scaled(ops.sub),
    "sub.Tensor": arithmetic.scaled(ops.sub),
    "sum": meanings.accumulation(ops.sum),
    "sum.dim_IntList": meanings.accumulation(ops.sum),
    "unfold_backward": unfolds.unfolded_gradient,
    "var.correction": meanings.var,
    "var_mean.correction": meanings.var_mean,
    "warpsmith.attention_of_rows": meanings.attended,
    "warpsmith.max_pool_in_windows": pools.max_pool_in_windows,
    "warpsmith.max_pool_in_windows_gradient": pools.max_pool_in_windows_gradient,
    "where.self": meanings.plain(ops.where),
}
"""By torch's name, `aten.` and `.default` left out, each operation that a fusion takes."""


def name_of(target: Any) -> str:
    """The name of an operator of torch's as `TABLE` has it; empty for what is none."""
    if not isinstance(target, torch._ops.OpOverload):
        return ""
    return str(target).removeprefix("aten.").removesuffix(".default")
