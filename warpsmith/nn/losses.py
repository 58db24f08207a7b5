"""Cross entropy with a gradient, under torch's name; no probabilities are ever in memory."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from warpsmith.nn import loss_programs as programs
from warpsmith.nn.calls import NAMES, rows_of, statistic_type, wide_name
from warpsmith.nn.doors import Program, Tensors, door
from warpsmith.nn.loss_programs import LossForm
from warpsmith.nn.modes import autocast
from warpsmith.nn.refusals import check_loss, check_scale


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
    form = _form(input, reduction, ignore_index, label_smoothing, z_loss)
    found: Tensor = _CROSS_ENTROPY("cross_entropy", given, form)
    return found


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
    form = _form(input, reduction, ignore_index, label_smoothing, z_loss)
    check_loss(who, input, target, weight, reduction, label_smoothing)
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
    x: Tensor, reduction: str, ignore_index: int, smoothing: float, z_loss: float
) -> LossForm:
    """Of what is checked later; types that are refused have no names."""
    out = NAMES.get(autocast(x, "log_softmax.int"), "")
    return LossForm(reduction, int(ignore_index), float(smoothing), float(z_loss), out)


def _check(given: Tensors, form: LossForm) -> None:
    x, target, weight = given
    check_loss("cross_entropy", x, target, weight, form.reduction, form.label_smoothing)


def _rows(given: Tensors) -> tuple[Tensor, Tensor]:
    """Logits as (rows, classes), or (outer, classes, inner); targets without the classes."""
    x, target, _ = given
    if x.ndim == 1:
        return x.view(1, -1), target.view(1)
    after = math.prod(x.shape[2:])
    if after == 1:
        return rows_of(x, x.shape[1]), target.reshape(-1)
    return x.reshape(x.shape[0], x.shape[1], after), target.reshape(-1, after)


def _forward(given: Tensors, form: LossForm) -> tuple[Tensor, Tensor, Tensor]:
    """The loss, each row's logsumexp, and the weights of rows that are not ignored."""
    if given[0].numel() == 0:
        return _of_nothing(given, form)
    loss, lse, total = programs.cross_entropy(*_rows(given), given[2], form)
    return loss.view(given[1].shape) if form.reduction == "none" else loss, lse, total


def _of_nothing(given: Tensors, form: LossForm) -> tuple[Tensor, Tensor, Tensor]:
    found = _shapes(given, form)
    value = math.nan if form.reduction == "mean" else 0.0
    return torch.full_like(found[0], value), found[1], torch.zeros_like(found[2])


def _shapes(given: Tensors, form: LossForm) -> tuple[Tensor, Tensor, Tensor]:
    """What `_forward` gives, without values."""
    x, target, _ = given
    statistic = statistic_type(wide_name(x.dtype))
    kind = next(kind for kind, name in NAMES.items() if name == form.out)
    loss = x.new_empty(target.shape if form.reduction == "none" else (), dtype=kind)
    after = math.prod(x.shape[2:])
    rows = target.shape.numel() // max(1, after)
    lse = x.new_empty((rows, after) if after != 1 else (rows,), dtype=statistic)
    return loss, lse, x.new_empty((), dtype=statistic)


def _gradients(dloss: Tensor, kept: Tensors, form: LossForm) -> Tensors:
    """The gradient of the logits."""
    x, target, weight, lse, total = kept
    if x.numel() == 0:
        return torch.empty_like(x), None, None
    grad = dloss.reshape(lse.shape) if form.reduction == "none" else dloss
    view, wanted = _rows((x, target, weight))
    dx = programs.cross_entropy_gradient(grad, view, wanted, lse, total, weight, form)
    return dx.view(x.shape), None, None


_CROSS_ENTROPY = door(
    Program(
        name="cross_entropy",
        form=LossForm,
        tensors="Tensor x, Tensor target, Tensor? weight",
        told="str reduction, int ignore_index, float label_smoothing, float z_loss, str out",
        run=_forward,
        shapes=_shapes,
        results=3,
        gradients=_gradients,
        differentiated=(0,),
        check=_check,
        shortcuts=(programs.cross_entropy.shortcut, programs.cross_entropy_gradient.shortcut),
        reads=(0, 1, 3, 4, 2),
    )
)
