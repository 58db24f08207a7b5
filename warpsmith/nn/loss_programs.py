"""The fused programs of losses: cross entropy, its gradient, and both in one pass."""

from __future__ import annotations

from typing import Any, NamedTuple

from warpsmith import ops
from warpsmith.frontends.fuse import fuse
from warpsmith.ir.dtypes import DataType


class LossForm(NamedTuple):
    """What is the same in all calls of one loss.

    Attributes:
        reduction: "none", "sum" or "mean".
        ignore_index: target of rows without a loss.
        label_smoothing: share of a row's target that all classes have alike.
        z_loss: how much of the square of a row's logsumexp is added.
        out: type of the loss.
    """

    reduction: str
    ignore_index: int
    label_smoothing: float
    z_loss: float
    out: str

    @property
    def rest(self) -> dict[str, Any]:
        """What the loss and its gradient are told alike."""
        return {
            "label_smoothing": self.label_smoothing,
            "z_loss": self.z_loss,
            "ignore_index": self.ignore_index,
        }


@fuse
def cross_entropy(x: Any, target: Any, weight: Any, form: LossForm) -> Any:
    """The loss, each row's logsumexp, and the sum of rows' weights."""
    found: Any = ops.cross_entropy(x, target, weight, reduction=form.reduction, **form.rest)
    loss, lse, total = found
    return loss.to(DataType(form.out)), lse, total


@fuse
def cross_entropy_gradient(
    grad: Any, x: Any, target: Any, lse: Any, total: Any, weight: Any, form: LossForm
) -> Any:
    """The gradient of x."""
    scale = grad.to(total.dtype)
    if form.reduction == "mean":
        scale = scale / total
    return ops.cross_entropy_backward(scale, x, target, lse, weight, **form.rest)


@fuse
def cross_entropy_with_gradient(
    x: Any, target: Any, weight: Any, scale: Any, form: LossForm
) -> Any:
    """The loss, and the gradient of x where that of the loss is the scale."""
    found: Any = ops.cross_entropy(x, target, weight, reduction=form.reduction, **form.rest)
    loss, lse, total = found
    grad = scale.to(total.dtype)
    if form.reduction == "mean":
        grad = grad / total
    dx = ops.cross_entropy_backward(grad, x, target, lse, weight, **form.rest)
    return loss.to(DataType(form.out)), dx
