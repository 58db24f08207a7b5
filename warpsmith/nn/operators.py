"""Norms as custom operators of torch: what `torch.compile` and tracers see.

`warpsmith::norm` has shapes, a gradient and an implementation; the gradient is an operator, too,
which cannot be differentiated again. Results that a call does not have (the sum without a residual,
the mean of an RMSNorm) are tensors of no elements. All else has the operators of its `doors.door`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from warpsmith.nn import calls, gradients
from warpsmith.nn.refusals import refuse_second_gradient

_ALL = (0, 1, 2, 3, 4)


def _norm(
    x: Tensor,
    residual: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    seed: Tensor | None,
    dims: int,
    eps: float,
    centered: bool,
    out: torch.dtype,
    dropped: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    told = dims, eps, centered, out, dropped
    y, *rest = calls.norm(x, residual, weight, bias, seed, *told, True, _ALL, told)
    scale = rest.pop()
    mean = rest.pop() if centered else x.new_empty(0)
    return y, x.new_empty(0) if residual is None else rest.pop(), mean, scale


def _norm_shapes(
    x: Tensor, residual: Tensor | None, *others: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dims, _, centered, out, _ = others[3:]
    none = x.new_empty(0)
    total, kind = none, x.dtype
    if residual is not None:
        kind = torch.promote_types(x.dtype, residual.dtype)
        total = x.new_empty(x.shape, dtype=kind)
    statistic = calls.statistic_type(calls.wide_name(x.dtype, out, kind))
    rows = math.prod(x.shape[:-dims])
    scale = x.new_empty((rows, 1), dtype=statistic)
    mean = torch.empty_like(scale) if centered else none
    return x.new_empty(x.shape, dtype=out), total, mean, scale


def _save_norm(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    residual, dims, centered, dropped = inputs[1], inputs[5], inputs[7], inputs[9]
    _, total, mean, scale = output
    source = inputs[0] if residual is None else total
    own = mean if centered else None
    constants = (mean, scale) if residual is not None else (mean, scale, total)
    told = dims, dropped, None, centered
    gradients.save_norm(ctx, inputs[:5], _ALL, *told, source, own, scale, *constants)


def _norm_backward(ctx: Any, dy: Any, dtotal: Any, *_: Any) -> tuple[Any, ...]:
    found = gradients.norm_gradients(ctx, ctx.saved_tensors, dy, dtotal, norm_gradient)
    return *found[:4], *(None,) * 6


def _norm_gradient_shapes(
    dy: Tensor, dtotal: Tensor | None, source: Tensor, *others: Any
) -> list[Tensor]:
    seed, dims, _, _, _, of_x, of_residual, of_weight, of_bias = others[3:]
    kinds = calls.full_results(of_x, of_residual, seed is not None)
    full = [source.new_empty(source.shape, dtype=k) for k in kinds]
    row = source.shape[-dims:]
    sums = [kind for kind in (of_weight, of_bias) if kind is not None]
    return [*full, *(source.new_empty(row, dtype=kind) for kind in sums)]


norm = torch.library.custom_op("warpsmith::norm", _norm, mutates_args=())
norm.register_fake(_norm_shapes)
norm.register_autograd(_norm_backward, setup_context=_save_norm)

norm_gradient = torch.library.custom_op(
    "warpsmith::norm_gradient", calls.norm_gradient, mutates_args=()
)
norm_gradient.register_fake(_norm_gradient_shapes)
norm_gradient.register_autograd(refuse_second_gradient, setup_context=lambda *_, **__: None)
