"""Norms, softmaxes and losses with gradients, by the signatures of `torch.nn.functional`.

They compute in float (double for float64) and round once. Forward, a norm or softmax is one kernel.
Backward, one fusion reads the input and the incoming gradient once and gives all gradients. Under
CUDA autocast they return float32 where torch's do, without converting their input first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from warpsmith.nn import calls, eager, operators
from warpsmith.nn.heads import embedding, geglu, rms_norm_rotary, rotary, swiglu
from warpsmith.nn.losses import cross_entropy, cross_entropy_with_gradient
from warpsmith.nn.modes import autocast, is_spread, is_traced
from warpsmith.nn.refusals import (
    check_dropout,
    refuse_dropout_of_parts,
    row_dimensions,
    softmax_dimension,
)
from warpsmith.nn.softmaxes import SOFTMAX

__all__ = [
    "add_layer_norm",
    "add_rms_norm",
    "cross_entropy",
    "cross_entropy_with_gradient",
    "dropout_add_layer_norm",
    "dropout_add_rms_norm",
    "embedding",
    "geglu",
    "layer_norm",
    "log_softmax",
    "rms_norm",
    "rms_norm_rotary",
    "rotary",
    "softmax",
    "swiglu",
]


_EPS = tuple(torch.finfo(kind).eps for kind in (torch.float32, torch.float64))


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """`(x - mean) / sqrt(variance + eps) * weight + bias` over the last dimensions.

    Of the input's type; weight and bias may have other floating-point types than it.
    """
    return _norm("layer_norm", input, None, weight, bias, normalized_shape, eps, True)[0]


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """`x / sqrt(mean(x * x) + eps) * weight` over the last dimensions.

    `eps` None is the distance of 1 to the next float, or to the next double for float64.
    """
    return _norm("rms_norm", input, None, weight, None, normalized_shape, eps, False)[0]


def add_layer_norm(
    input: Tensor,
    residual: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor]:
    """`layer_norm` of `input + residual`, of the input's type, and that sum.

    The sum has the type that torch gives it: a residual of float32 stays float32.
    """
    return _norm("add_layer_norm", input, residual, weight, bias, normalized_shape, eps, True)


def add_rms_norm(
    input: Tensor,
    residual: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> tuple[Tensor, Tensor]:
    """`rms_norm` of `input + residual`, of the input's type, and that sum."""
    return _norm("add_rms_norm", input, residual, weight, None, normalized_shape, eps, False)


def dropout_add_layer_norm(
    input: Tensor,
    residual: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    dropout_p: float = 0.5,
    eps: float = 1e-5,
    training: bool = True,
    seed: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`add_layer_norm` of `dropout(input)` and the residual; no mask is stored.

    Args:
        dropout_p: share of the input that is dropped; nothing is, unless `training`.
        seed: an int64 tensor of one element on the input's device, which decides what is dropped;
            by default torch's generator of that device draws one.
    """
    who = "dropout_add_layer_norm"
    drawn = _seed(who, input, dropout_p, training, seed)
    return _norm(who, input, residual, weight, bias, normalized_shape, eps, True, drawn, dropout_p)


def dropout_add_rms_norm(
    input: Tensor,
    residual: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    dropout_p: float = 0.5,
    eps: float | None = None,
    training: bool = True,
    seed: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`add_rms_norm` of `dropout(input)` and the residual: see `dropout_add_layer_norm`."""
    who = "dropout_add_rms_norm"
    drawn = _seed(who, input, dropout_p, training, seed)
    return _norm(who, input, residual, weight, None, normalized_shape, eps, False, drawn, dropout_p)


def softmax(input: Tensor, dim: int | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """`exp(x) / sum(exp(x))` over one dimension; the input is converted to `dtype` first."""
    return _softmax("softmax", input, dim, dtype, False)


def log_softmax(input: Tensor, dim: int | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """The logarithm of `softmax`, computed without it."""
    return _softmax("log_softmax", input, dim, dtype, True)


def _norm(
    who: str,
    x: Tensor,
    residual: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    shape: Sequence[int],
    eps: float | None,
    centered: bool,
    seed: Tensor | None = None,
    dropped: float = 0.0,
) -> tuple[Any, Any]:
    """The normalized tensor, and `x + residual` where there is a residual."""
    out = x.dtype
    if out is not torch.float32:
        out = autocast(x, "layer_norm" if centered else "rms_norm")
    if eps is None:
        exact = torch.float64 in (x.dtype, None if residual is None else residual.dtype)
        eps = _EPS[int(exact)]  # Dynamo of torch 2.11 takes no bool
    if is_traced(who, x, residual, weight, bias):
        if is_spread(x, residual, weight, bias):
            return _spread_norm(who, (x, residual, weight, bias), shape, eps, centered, seed)
        dims = row_dimensions(who, x, shape, residual, weight, bias)
        found = operators.norm(x, residual, weight, bias, seed, dims, eps, centered, out, dropped)
        return found[0], found[1]
    recorded = torch.is_grad_enabled() and (
        x.requires_grad
        or (weight is not None and weight.requires_grad)
        or (bias is not None and bias.requires_grad)
        or (residual is not None and residual.requires_grad)
    )
    run = eager.recorded if recorded else eager.norm
    how = who, shape, eps, centered, out, dropped, recorded
    if residual is not None:
        both: tuple[Any, Any] = run(x, residual, weight, bias, seed, how)
        return both
    found = run(x, weight, how) if bias is None else run(x, weight, bias, how)
    return (found if recorded else found[0]), None


def _spread_norm(
    who: str,
    given: tuple[Tensor, Tensor | None, Tensor | None, Tensor | None],
    shape: Sequence[int],
    eps: float,
    centered: bool,
    seed: Tensor | None,
) -> tuple[Any, Any]:
    """`_norm` of tensors on several devices, each of which has some rows of x."""
    from warpsmith.nn.sharded import on_parts

    if seed is not None:
        refuse_dropout_of_parts(who)
    dims = row_dimensions(who, given[0], shape, *given[1:])
    rows = range(given[0].ndim - dims)

    def norm(*parts: Any) -> tuple[Any, Any]:
        x, residual, weight, bias = parts
        return _norm(who, x, residual, weight, bias, shape, eps, centered)

    found: tuple[Any, Any] = on_parts(who, norm, given, rows, (0, 1))
    return found


def _seed(who: str, x: Tensor, p: float, training: bool, seed: Tensor | None) -> Tensor | None:
    """The seed of a dropout, drawn where none is given; None where nothing is dropped."""
    check_dropout(who, x, p, seed)
    if not training or p == 0:
        return None
    return torch.randint(2**63 - 1, (1,), device=x.device) if seed is None else seed.view(1)


def _softmax(who: str, x: Tensor, dim: int | None, dtype: torch.dtype | None, log: bool) -> Any:
    place = softmax_dimension(who, x, dim, dtype)
    if x.dtype not in calls.NAMES:
        x = x.to(dtype)
    out = autocast(x, "softmax.int") if dtype is None else dtype
    return SOFTMAX(who, (x,), calls.SoftmaxCall(place, log, out, x.dtype))
