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
def gradient_of_rows(target: Any, weight: Any, scale: Any, form: LossForm) -> Any:
    """That of each row's loss where the loss's is the scale, and what a mean is taken over."""
    wide = scale.dtype
    kept = target != form.ignore_index
    own: Any = 1.0 if weight is None else weight.to(wide)[ops.where(kept, target, 0)]
    counted: Any = ops.where(kept, own, 0.0)
    total: Any = ops.sum(counted.to(wide))
    return scale / total, total


@fuse
def rows_with_gradient(x: Any, target: Any, weight: Any, grad: Any, form: LossForm) -> Any:
    """The loss of each row, and the gradient of x where that of each loss is one number."""
    found: Any = ops.cross_entropy(x, target, weight, reduction="none", **form.rest)
    loss, lse, _ = found
    dx = ops.cross_entropy_backward(grad, x, target, lse, weight, **form.rest)
    return loss.to(lse.dtype), dx


@fuse
def loss_of_rows(losses: Any, total: Any, form: LossForm) -> Any:
    """Their sum, or with a total their mean."""
    found: Any = ops.sum(losses)
    return (found if total is None else found / total).to(DataType(form.out))


def cross_entropy_with_gradient(
    x: Any, target: Any, weight: Any, scale: Any, form: LossForm
) -> tuple[Any, Any]:
    """The loss, and the gradient of x where that of the loss is the scale.

    What a mean is taken over is known before the rows, so that one kernel has both of each row.
    """
    total = None
    if form.reduction == "mean":
        scale, total = gradient_of_rows(target, weight, scale, form)
    losses, dx = rows_with_gradient(x, target, weight, scale, form)
    return loss_of_rows(losses, total, form), dx
