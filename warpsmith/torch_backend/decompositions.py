"""Which operations AOTAutograd takes apart before warpsmith sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._prims_common import get_computation_dtype

aten = torch.ops.aten

_FURTHER = (
    "_batch_norm_no_update",
    "_batch_norm_with_update_functional",
    "_log_softmax",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit_no_training",
    "_softmax",
    "addmv",
    "batch_norm_backward",
    "dist",
    "elu",
    "fmax",
    "fmin",
    "hardtanh",
    "leaky_relu",
    "linalg_vector_norm",
    "native_layer_norm",
    "threshold_backward",
    "upsample_bilinear2d",
    "upsample_nearest2d",
)
"""Operations that are no parts of others by torch's core set, or that it leaves as they are, and
that are fused better in parts."""

_KEPT = (
    "scaled_dot_product",  # attention is torch's
    "embedding_dense_backward",
    "index_add",  # torch adds in no order, and where its parts are sorted first
    "col2im",
    "im2col",
    "bernoulli",
    "native_dropout",
    "roll",  # torch's parts choose rows by numbers that each element computes
    "nll_loss2d",
    "unfold_backward",
    "select_scatter",  # a part of an input is written in its place
)
"""Operations of which there are better kernels than of their parts."""


def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Torch's operators with the functions that take them apart.

    They are collected again when operators were registered: that takes 40 ms.
    """
    composite = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
    return _collected(len(composite))


@lru_cache(maxsize=1)
def _collected(composite: int) -> Mapping[Any, Callable[..., Any]]:
    """As `decompositions`, where so many operators are composite."""
    further = [getattr(aten, name) for name in _FURTHER]
    found = {**core_aten_decompositions(), **get_decompositions(further)}
    found[aten.nll_loss_backward.default] = _nll_loss_backward
    found[aten.native_group_norm.default] = _group_norm
    found[aten.native_group_norm_backward.default] = _group_norm_backward
    found[aten.threshold.default] = _threshold
    found[aten.linalg_cross.default] = _cross
    found |= {
        aten.cumsum.default: partial(_of_few_before, torch.add),
        aten.cumprod.default: partial(_of_few_before, torch.mul),
    }
    found |= {aten.eye.default: _eye, aten.eye.m: _eye}
    found |= dict.fromkeys((aten.index_fill.int_Scalar, aten.index_fill.int_Tensor), _index_fill)
    found |= {each: partial(_each, each) for each in _of_lists()}
    kept = {
        operator: function
        for operator, function in found.items()
        if not any(name in str(operator) for name in _KEPT)
    }
    convolutions = {
        aten.convolution.default: _convolution,
        aten.convolution_backward.default: _convolution_backward,
    }
    return {**kept, **convolutions}


def _convolution(x: Tensor, weight: Tensor, bias: Tensor | None, *how: Any) -> Tensor:
    """A bias is added by a kernel of its own: rather by that which reads the sum."""
    if bias is None:
        return NotImplemented
    y = aten.convolution(x, weight, None, *how)
    return y + bias.view(-1, *(1,) * (x.ndim - 2))


def _convolution_backward(
    dy: Tensor, x: Tensor, weight: Tensor, bias: list[int] | None, *how: Any
) -> Any:
    """The gradient of a bias is a sum, of what makes dy."""
    *options, wanted = how
    if not wanted[2]:
        return NotImplemented
    dx = dweight = None
    if wanted[0] or wanted[1]:
        wanted = [*wanted[:2], False]
        dx, dweight, _ = aten.convolution_backward(dy, x, weight, None, *options, wanted)
    return dx, dweight, dy.sum([0, *range(2, dy.ndim)])


_WHOLE = ("_foreach_max", "_foreach_mm", "_foreach_norm", "_foreach_powsum", "_foreach_zero")
"""Operations on lists that are more than elements, for which torch has kernels of all tensors of a
list, or of which it writes parts in place."""


def _of_lists() -> Iterator[torch._ops.OpOverload]:
    """Operations on each element of each tensor of a list, as those of optimizers."""
    for known in torch._C._dispatch_get_all_op_names():
        name, _, overload = known.removeprefix("aten::").partition(".")
        if name.startswith("_foreach_") and name not in _WHOLE:
            found = getattr(getattr(aten, name), overload or "default")
            told = [str(each.type) for each in found._schema.arguments if each.name == "scalars"]
            if not found._schema.is_mutable and "Tensor" not in told:  # whose numbers nobody knows
                yield found


def _each(operation: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    """What torch does where no kernel of its own has all tensors of a list: one after the other."""
    return operation._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)


def _index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """Torch's parts copy all of it once more, some versions in place, where it is not row-major."""
    if x.ndim == 0:
        return NotImplemented
    if not isinstance(value, Tensor):
        value = torch.scalar_tensor(value, dtype=x.dtype, device=x.device)
    places = [None] * (dim % x.ndim) + [index]
    return aten.index_put(x, places, value.to(x.dtype))


def _threshold(x: Tensor, threshold: Any, value: Any) -> Tensor:
    """Torch's parts make floats of integers that meet a float, and lose digits of large ones."""
    if not x.is_floating_point():
        threshold, value = int(threshold), int(value)
    return torch.where(x <= threshold, value, x)


def _cross(a: Tensor, b: Tensor, *, dim: int = -1) -> Tensor:
    """Torch's parts choose components by numbers that a kernel computes, and each is stored."""
    result = torch.promote_types(a.dtype, b.dtype)
    a, b = (x.to(get_computation_dtype(result)) for x in torch.broadcast_tensors(a, b))
    (a1, a2), (b1, b2) = ([x.roll(-k, dim) for k in (1, 2)] for x in (a, b))
    return (a1 * b2 - a2 * b1).to(result)


MOST_IN_TURN = 4
"""Elements that one thread computes in turn, where a scan would have kernels of its own."""


def _of_few_before(
    join: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    dim: int,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """A scan of a few elements, as that of a gradient of the product of a width and a height."""
    wide = x.to(dtype or x.dtype)
    known = x.ndim > 0 and isinstance(x.shape[dim], int) and 1 < x.shape[dim] <= MOST_IN_TURN
    if not known or not wide.is_floating_point():
        return NotImplemented
    wide = wide.to(get_computation_dtype(wide.dtype))
    parts = accumulate(wide.unbind(dim), join)
    return torch.stack([*parts], dim).to(dtype or x.dtype)


def _eye(
    rows: int,
    columns: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    **told: Any,
) -> Tensor:
    """Ones on the diagonal. Torch counts in 16 bits without a sign, in which it cannot count."""
    row = torch.arange(rows, device=device).unsqueeze(-1)
    column = torch.arange(rows if columns is None else columns, device=device)
    return (row == column).to(dtype or torch.get_default_dtype())


def _nll_loss_backward(
    grad: Tensor,
    logarithms: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignored: int,
    total_weight: Tensor,
) -> Tensor:
    """The gradient of the logarithms, of each class by itself: nothing is scattered."""
    share = grad / total_weight if reduction == 1 else grad
    chosen = target.unsqueeze(-1)
    share = torch.where(chosen != ignored, share.unsqueeze(-1) if reduction == 0 else share, 0)
    classes = torch.arange(logarithms.shape[-1], device=logarithms.device)
    if weight is not None:
        share = share * weight
    return torch.where(classes == chosen, -share, 0).to(logarithms.dtype)


def _group_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    batch: int,
    channels: int,
    area: int,
    groups: int,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The norm of images `[N, C, ..]` with channels divided, and heights and widths as they are:
    so a kernel of rows in parts has all of it.
    """
    wide = _in_groups(x, groups)
    inside = list(range(2, wide.ndim))
    variance, mean = torch.var_mean(wide, inside, correction=0, keepdim=True)
    scale = torch.rsqrt(variance + epsilon)
    y = (wide - mean) * scale
    if weight is not None:
        y = y * _of_channels(weight, wide)
    if bias is not None:
        y = y + _of_channels(bias, wide)
    mean, scale = (t.squeeze(inside).to(x.dtype) for t in (mean, scale))
    return y.reshape(x.shape).to(x.dtype), mean, scale


def _group_norm_backward(
    dy: Tensor,
    x: Tensor,
    mean: Tensor,
    scale: Tensor,
    weight: Tensor | None,
    batch: int,
    channels: int,
    area: int,
    groups: int,
    wanted: list[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of x, weight and bias, of which some are wanted."""
    wide, given = _in_groups(x, groups), _in_groups(dy, groups)
    each = (..., *(None,) * (wide.ndim - 2))
    mean, scale = (t.to(wide.dtype)[each] for t in (mean, scale))
    normal, outside = (wide - mean) * scale, list(range(3, wide.ndim))
    dbias, dweight = given.sum(outside), (given * normal).sum(outside)  # of images and channels
    share = 1 / (channels // groups * area)
    factor = 1 if weight is None else _of_channels(weight, dbias)
    first, second = ((t * factor).sum(2)[each] * share for t in (dbias, dweight))
    scaled = given if weight is None else given * _of_channels(weight, wide)
    dx = (scaled - first - normal * second) * scale
    return (
        dx.reshape(x.shape).to(x.dtype) if wanted[0] else None,
        dweight.sum(0).flatten().to(x.dtype) if wanted[1] else None,
        dbias.sum(0).flatten().to(x.dtype) if wanted[2] else None,
    )


def _in_groups(x: Tensor, groups: int) -> Tensor:
    """`[N, C, ..]` as `[N, groups, C / groups, ..]`, in the type in which torch computes."""
    kind = torch.float32 if x.dtype in (torch.bfloat16, torch.float16) else x.dtype
    wide = x.to(kind).unflatten(1, (groups, x.shape[1] // groups))
    return wide if wide.ndim > 3 else wide.unsqueeze(-1)


def _of_channels(vector: Tensor, wide: Tensor) -> Tensor:
    """A number for each channel, beside `[N, groups, C / groups, ..]`."""
    return vector.view(*wide.shape[1:3], *(1,) * (wide.ndim - 3))
