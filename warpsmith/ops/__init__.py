"""Tensor operations: rules of type and shape, what they append to a fusion, what they mean.

Every function takes tensors of one fusion, scalars of it and Python numbers, and returns tensors,
or a scalar expression when no operand is a tensor. `full` and `iota` have no tensor to learn the
fusion from, and take it by keyword.
"""

from __future__ import annotations

from warpsmith.ops.attention import attention, attention_backward
from warpsmith.ops.carries import all, any, argmax, argmin, logsumexp, reduce
from warpsmith.ops.choosing import (
    choose,
    embedding,
    embedding_fwd,
    gather,
    index,
    index_select,
    take_along_axis,
)
from warpsmith.ops.einsum import einsum
from warpsmith.ops.factories import full, full_like, iota, ones, ones_like, zeros, zeros_like
from warpsmith.ops.grouped import grouped_matmul
from warpsmith.ops.losses import cross_entropy, cross_entropy_backward
from warpsmith.ops.masks import masked_fill, one_hot, tril, triu
from warpsmith.ops.packed import unpack_int4
from warpsmith.ops.pointwise import *  # noqa: F403  # its OPERATIONS
from warpsmith.ops.pointwise import OPERATIONS as _POINTWISE
from warpsmith.ops.products import addmm, baddbmm, bmm, dot, linear, matmul, mv, outer
from warpsmith.ops.promotion import cast
from warpsmith.ops.random import dropout, normal, uniform
from warpsmith.ops.rearranging import cat, flip, pad, roll, stack
from warpsmith.ops.reductions import max, mean, min, prod, sum, var, var_mean, welford
from warpsmith.ops.reshape import reshape
from warpsmith.ops.scaled import scaled_matmul
from warpsmith.ops.scans import cummax, cummin, cumprod, cumsum, logcumsumexp, scan
from warpsmith.ops.scattering import (
    embedding_backward,
    index_add,
    index_copy,
    or_zero,
    scatter,
    scatter_add,
)
from warpsmith.ops.shape import (
    broadcast,
    broadcast_in_dim,
    expand,
    permute,
    repeat_interleave,
    shape,
    size,
    squeeze,
    stride_order,
    transpose,
)
from warpsmith.ops.slicing import chunk, narrow, select, slice, split, unbind
from warpsmith.ops.sorting import argsort, count_up_to, nth_parted, sort, topk
from warpsmith.ops.tiles import tiles

__all__ = [
    *_POINTWISE,
    "addmm",
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "attention",
    "attention_backward",
    "baddbmm",
    "bmm",
    "broadcast",
    "broadcast_in_dim",
    "cast",
    "cat",
    "choose",
    "chunk",
    "count_up_to",
    "cross_entropy",
    "cross_entropy_backward",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "dot",
    "dropout",
    "einsum",
    "embedding",
    "embedding_backward",
    "embedding_fwd",
    "expand",
    "flip",
    "full",
    "full_like",
    "gather",
    "grouped_matmul",
    "index",
    "index_add",
    "index_copy",
    "index_select",
    "iota",
    "linear",
    "logcumsumexp",
    "logsumexp",
    "masked_fill",
    "matmul",
    "max",
    "mean",
    "min",
    "mv",
    "narrow",
    "normal",
    "nth_parted",
    "one_hot",
    "ones",
    "ones_like",
    "or_zero",
    "outer",
    "pad",
    "permute",
    "prod",
    "reduce",
    "repeat_interleave",
    "reshape",
    "roll",
    "scaled_matmul",
    "scan",
    "scatter",
    "scatter_add",
    "select",
    "shape",
    "size",
    "slice",
    "sort",
    "split",
    "squeeze",
    "stack",
    "stride_order",
    "sum",
    "take_along_axis",
    "tiles",
    "topk",
    "transpose",
    "tril",
    "triu",
    "unbind",
    "uniform",
    "unpack_int4",
    "var",
    "var_mean",
    "welford",
    "zeros",
    "zeros_like",
]
