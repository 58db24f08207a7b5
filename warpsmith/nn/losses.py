"""Cross entropy with a gradient, under torch's name; no probabilities are ever in memory."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from warpsmith import knobs
from warpsmith.nn import loss_programs as programs
from warpsmith.nn.calls import NAMES, rows_of, statistic_type, wide_name
from warpsmith.nn.gradients import scoped
from warpsmith.nn.loss_programs import LossForm
from warpsmith.nn.modes import autocast, is_traced
from warpsmith.nn.refusals import check_loss, check_scale, refuse_second_gradient

Given = tuple[Tensor, Tensor, Tensor | None]
"""Logits, targets, and weights of classes."""


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    z_loss: float = 0.0,
) -> Tensor:
    """`torch.nn.functional.cross_entropy`, of targets that are numbers of classes.

    Args:
        z_loss: so many times the square of its logsumexp is added to the loss of a row.
    """
    if size_average is not None or reduce is not None:
        reduction = torch.nn._reduction.legacy_get_string(size_average, reduce)
    given = input, target, weight
    form = _form("cross_entropy", given, reduction, ignore_index, label_smoothing, z_loss)
    if is_traced("cross_entropy", input, target, weight, None):
        return operator(*given, *form)[0]
    if torch.is_grad_enabled() and input.requires_grad:
        found: Tensor = CrossEntropy.apply(*given, form)
        return found
    return _forward(given, form)[0]


def cross_entropy_with_gradient(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    z_loss: float = 0.0,
    scale: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The loss, and the gradient of the input, which is read once for both.

    Neither has a gradient of its own: give the second one to `input.backward`.

    Args:
        reduction: "mean" or "sum".
        scale: what the loss is multiplied by before it is differentiated, a tensor of one element
            on the input's device; 1 by default.
    """
    who = "cross_entropy_with_gradient"
    given = input.detach(), target, weight
    form = _form(who, given, reduction, ignore_index, label_smoothing, z_loss)
    check_scale(who, input, reduction, scale)
    if input.numel() == 0:
        return _of_nothing(given, form)[0], torch.empty_like(given[0])
    statistic = statistic_type(wide_name(input.dtype))
    one = torch.ones((), dtype=statistic, device=input.device)
    factor = one if scale is None else scale.detach().view(()).to(statistic)
    x, wanted = _rows(given)
    loss, dx = programs.cross_entropy_with_gradient(x, wanted, weight, factor, form)
    return loss, dx.view(input.shape)


def _form(
    who: str, given: Given, reduction: str, ignore_index: int, smoothing: float, z_loss: float
) -> LossForm:
    check_loss(who, *given, reduction, smoothing)
    out = NAMES[autocast(given[0], "log_softmax.int")]
    return LossForm(reduction, int(ignore_index), float(smoothing), float(z_loss), out)


def _rows(given: Given) -> tuple[Tensor, Tensor]:
    """Logits as (rows, classes), or (outer, classes, inner); targets without the classes."""
    x, target, _ = given
    if x.ndim == 1:
        return x.view(1, -1), target.view(1)
    after = math.prod(x.shape[2:])
    if after == 1:
        return rows_of(x, x.shape[1]), target.reshape(-1)
    return x.reshape(x.shape[0], x.shape[1], after), target.reshape(-1, after)


def _forward(given: Given, form: LossForm) -> tuple[Tensor, Tensor, Tensor]:
    """The loss, each row's logsumexp, and the weights of rows that are not ignored."""
    if given[0].numel() == 0:
        return _of_nothing(given, form)
    loss, lse, total = programs.cross_entropy(*_rows(given), given[2], form)
    return loss.view(given[1].shape) if form.reduction == "none" else loss, lse, total


def _of_nothing(given: Given, form: LossForm) -> tuple[Tensor, Tensor, Tensor]:
    found = _shapes(given, form)
    value = math.nan if form.reduction == "mean" else 0.0
    return torch.full_like(found[0], value), found[1], torch.zeros_like(found[2])


def _shapes(given: Given, form: LossForm) -> tuple[Tensor, Tensor, Tensor]:
    """What `_forward` gives, without values."""
    x, target, _ = given
    statistic = statistic_type(wide_name(x.dtype))
    kind = next(kind for kind, name in NAMES.items() if name == form.out)
    loss = x.new_empty(target.shape if form.reduction == "none" else (), dtype=kind)
    after = math.prod(x.shape[2:])
    rows = target.shape.numel() // max(1, after)
    lse = x.new_empty((rows, after) if after != 1 else (rows,), dtype=statistic)
    return loss, lse, x.new_empty((), dtype=statistic)


def _gradient(dloss: Tensor, given: Given, lse: Tensor, total: Tensor, form: LossForm) -> Tensor:
    """The gradient of the logits."""
    x = given[0]
    if x.numel() == 0:
        return torch.empty_like(x)
    grad = dloss.reshape(lse.shape) if form.reduction == "none" else dloss
    view, wanted = _rows(given)
    dx: Tensor = programs.cross_entropy_gradient(grad, view, wanted, lse, total, given[2], form)
    return dx.view(x.shape)


class CrossEntropy(torch.autograd.Function):  # type: ignore[misc]  # torch is not analysed
    """`_forward` for autograd in eager mode."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, target: Tensor, weight: Tensor | None, form: LossForm
    ) -> Tensor:
        loss, lse, total = _forward((x, target, weight), form)
        _save(ctx, (x, target, weight), lse, total, form)
        return loss

    @staticmethod
    def backward(ctx: Any, dloss: Any) -> Any:
        return _backward(ctx, dloss, operate=torch.is_grad_enabled()), None, None, None


def _save(ctx: Any, given: Given, lse: Tensor, total: Tensor, form: LossForm) -> None:
    ctx.form, ctx.knobs = form, knobs.scoped()
    ctx.save_for_backward(*given, lse, total)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, dloss: Any, *, operate: bool) -> Tensor | None:
    """The gradient of the logits, by the operator where gradients are recorded, which refuses to be
    differentiated.
    """
    if dloss is None:
        return None
    x, target, weight, lse, total = ctx.saved_tensors
    if operate:
        found = scoped(ctx, gradient, dloss, x, target, lse, total, weight, *ctx.form)
    else:
        found = scoped(ctx, _gradient, dloss, (x, target, weight), lse, total, ctx.form)
    result: Tensor = found
    return result


def _operator(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    z_loss: float,
    out: str,
) -> tuple[Tensor, Tensor, Tensor]:
    form = LossForm(reduction, ignore_index, label_smoothing, z_loss, out)
    return _forward((x, target, weight), form)


def _operator_shapes(
    x: Tensor, target: Tensor, weight: Tensor | None, *form: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return _shapes((x, target, weight), LossForm(*form))


def _operator_saves(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    _save(ctx, inputs[:3], output[1], output[2], LossForm(*inputs[3:]))
    ctx.mark_non_differentiable(*output[1:])


def _operator_backward(ctx: Any, dloss: Any, *_: Any) -> tuple[Any, ...]:
    return _backward(ctx, dloss, operate=True), *(None,) * 7


def _gradient_operator(
    dloss: Tensor,
    x: Tensor,
    target: Tensor,
    lse: Tensor,
    total: Tensor,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    z_loss: float,
    out: str,
) -> Tensor:
    form = LossForm(reduction, ignore_index, label_smoothing, z_loss, out)
    return _gradient(dloss, (x, target, weight), lse, total, form)


def _gradient_shapes(dloss: Tensor, x: Tensor, *_: Any) -> Tensor:
    return x.new_empty(x.shape)


operator = torch.library.custom_op("warpsmith::cross_entropy", _operator, mutates_args=())
operator.register_fake(_operator_shapes)
operator.register_autograd(_operator_backward, setup_context=_operator_saves)

gradient = torch.library.custom_op(
    "warpsmith::cross_entropy_gradient", _gradient_operator, mutates_args=()
)
gradient.register_fake(_gradient_shapes)
gradient.register_autograd(refuse_second_gradient, setup_context=lambda ctx, inputs, output: None)
