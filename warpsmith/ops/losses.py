"""Cross entropy of classes, and its gradient, in operations that read each logit once.

Neither has probabilities in memory, nor rows of zeros with a one: a class is compared with its own
number where it is computed. All is computed in Float, in Double for Double.
"""

from __future__ import annotations

from typing import Any

from warpsmith.errors import DefinitionError
from warpsmith.ir import arithmetic
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Expr, literal
from warpsmith.ir.tensor import TensorView
from warpsmith.ops import carries, pointwise, reductions
from warpsmith.ops.broadcasting import add_axes
from warpsmith.ops.choosing import gather, index
from warpsmith.ops.factories import iota
from warpsmith.ops.masks import check_index
from warpsmith.ops.promotion import converted_tensor, rounded
from warpsmith.ops.shape import squeeze
from warpsmith.ops.values import Operand, Scalar, as_tensor
from warpsmith.values import dataclass

REDUCTIONS = ("none", "mean", "sum")

_plus: Any = pointwise.add
_less: Any = pointwise.sub
_times: Any = pointwise.mul
_over: Any = pointwise.truediv
_where: Any = pointwise.where
"""Of tensors, scalars and numbers in any combination."""


def cross_entropy(
    arg: TensorView,
    target: TensorView,
    weight: TensorView | None = None,
    label_smoothing: Scalar = 0.0,
    z_loss: Scalar = 0.0,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> tuple[TensorView, TensorView, TensorView]:
    """`logsumexp(x) - x[target]` of rows of logits, as `torch.nn.functional.cross_entropy`.

    Args:
        arg: logits, whose classes are dimension 1, or 0 where it is the only one.
        target: Int or Int32, the class of each row. One that is neither a class nor `ignore_index`
            ends the kernel, as an assertion of the device does in PyTorch.
        weight: of each class, or None.
        label_smoothing: share of a row's target that all classes have alike.
        z_loss: so many times the square of its logsumexp is added to the loss of a row.
        ignore_index: rows of this target have no loss.
        reduction: "none", "sum", or "mean", the sum over that of the rows' weights.

    Returns:
        The loss, of the logits' type; each row's logsumexp, which the gradient needs; and the
        weights of all rows that are not ignored, over whose sum a "mean" is taken.

    Raises:
        DefinitionError: WS0188 for ranks that do not fit, and for another reduction.
    """
    if reduction not in REDUCTIONS:
        raise DefinitionError(
            f"cross_entropy got the reduction {reduction!r}",
            code="WS0188",
            remedy=f"the reductions are {', '.join(REDUCTIONS)}",
        )
    rows = _rows("cross_entropy", arg, target, weight, ignore_index)
    lse = carries.logsumexp(rows.wide, [rows.dim], keepdim=True)
    weights = rows.weights
    wanted = converted_tensor(gather(arg, rows.own, rows.dim), rows.wide.dtype)
    loss = _times(weights, _times(rows.own_share(label_smoothing), _less(lse, wanted)))
    if not _is_zero(label_smoothing):
        each = rows.wide if weight is None else _times(rows.wide, rows.of_classes)
        alike = _less(_times(lse, rows.total), reductions.sum(each, [rows.dim], keepdim=True))
        loss = _plus(loss, _times(alike, rows.share(label_smoothing)))
    if not _is_zero(z_loss):
        loss = _plus(loss, _times(_times(lse, lse), z_loss))
    loss, kept = (
        converted_tensor(_tensor(_where(rows.kept, x, 0.0)), lse.dtype) for x in (loss, weights)
    )
    total = reductions.sum(kept)
    if reduction == "none":
        loss = squeeze(loss, [rows.dim])
    else:
        loss = reductions.sum(loss)
    if reduction == "mean":
        loss = _tensor(_over(loss, total))
    return rounded(loss, rows.dtype), squeeze(lse, [rows.dim]), total


def cross_entropy_backward(
    grad: TensorView,
    arg: TensorView,
    target: TensorView,
    logsumexp: TensorView,
    weight: TensorView | None = None,
    label_smoothing: Scalar = 0.0,
    z_loss: Scalar = 0.0,
    ignore_index: int = -100,
) -> TensorView:
    """The gradient of the logits of a `cross_entropy`, of their type.

    Args:
        grad: of the loss of each row, or one of all rows: for a "mean" over the sum of weights.
        logsumexp: of each row, as `cross_entropy` gives it.
    """
    rows = _rows("cross_entropy_backward", arg, target, weight, ignore_index)
    lse = rows.along(as_tensor(logsumexp, "cross_entropy_backward"))
    given = converted_tensor(as_tensor(grad, "cross_entropy_backward"), rows.wide.dtype)
    scale = _where(rows.kept, rows.along(given) if given.rank else given, 0.0)
    own = of_all = _times(scale, _times(rows.weights, rows.own_share(label_smoothing)))
    alike = None
    if not _is_zero(label_smoothing):
        alike = _times(scale, rows.share(label_smoothing))
        of_all = _plus(of_all, _times(alike, rows.total))
    if not _is_zero(z_loss):
        of_all = _plus(of_all, _times(scale, _times(_times(lse, 2.0), z_loss)))
    distance = pointwise.minimum(_less(rows.wide, lse), 0.0)  # which it is but for rounding
    found = _times(pointwise.exp(distance), of_all)
    if alike is not None:
        found = _less(found, alike if weight is None else _times(alike, rows.of_classes))
    taken = _where(pointwise.eq(rows.classes, rows.target), own, 0.0)
    return rounded(_tensor(_less(found, taken)), rows.dtype)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of logits; what is of a row has one element in place of the classes.

    Attributes:
        dtype: of the logits; `wide` is what they are computed in.
        dim: of the classes.
        target: the class of each row, and `kept` whether it is none to be ignored.
        own: the same, with some class for rows that are ignored.
        weight: of each class, or None.
    """

    dtype: DataType
    wide: TensorView
    dim: int
    target: TensorView
    kept: TensorView
    own: TensorView
    weight: TensorView | None

    def along(self, tensor: TensorView) -> TensorView:
        """What has an element for each row."""
        return add_axes(tensor, [d == self.dim for d in range(self.wide.rank)])

    @property
    def classes(self) -> TensorView:
        """The number of each class."""
        extent = self.wide.shape_axes[self.dim].extent
        numbers = iota(extent, dtype=self.target.dtype, fusion=Fusion.of(self.wide))
        return self._of_classes(numbers)

    @property
    def of_classes(self) -> TensorView:
        """The weight of each class."""
        assert self.weight is not None
        return self._of_classes(self.weight)

    @property
    def weights(self) -> Operand:
        """The weight of each row, which is that of its class; 1 by default."""
        if self.weight is None:
            return arithmetic.convert(literal(1.0), self.wide.dtype)
        return index(self.weight, self.own)

    @property
    def total(self) -> Operand:
        """The weights of all classes."""
        return self._count if self.weight is None else reductions.sum(self.weight)

    def own_share(self, of: Scalar) -> Any:
        """What the class of a row has besides where all classes share so much."""
        return _less(_converted(1.0, self.wide.dtype), _converted(of, self.wide.dtype))

    def share(self, of: Scalar) -> Any:
        """What each class has where all have the same."""
        return _over(_converted(of, self.wide.dtype), self._count)

    @property
    def _count(self) -> Scalar:
        return arithmetic.convert(self.wide.shape_axes[self.dim].extent, self.wide.dtype)

    def _of_classes(self, tensor: TensorView) -> TensorView:
        return add_axes(tensor, [d != self.dim for d in range(self.wide.rank)])


def _rows(
    op: str, arg: TensorView, target: TensorView, weight: TensorView | None, ignore_index: int
) -> _Rows:
    logits, classes = as_tensor(arg, op), as_tensor(target, op)
    check_index(classes, op)
    of_class = None if weight is None else as_tensor(weight, op)
    if not logits.dtype.is_float or logits.rank != classes.rank + 1:
        raise _unfit(op, logits, f"target {classes.name} of {classes.rank} dimensions")
    if of_class is not None and of_class.rank != 1:
        raise _unfit(op, logits, f"weight {of_class.name} of {of_class.rank} dimensions")
    wide, dim = converted_tensor(logits, logits.dtype.compute), min(1, classes.rank)
    wanted = add_axes(classes, [d == dim for d in range(logits.rank)])
    kept = _tensor(pointwise.ne(wanted, ignore_index))
    return _Rows(
        logits.dtype,
        wide,
        dim,
        converted_tensor(wanted, DataType.Int32),
        kept,
        _tensor(_where(kept, wanted, 0)),
        None if of_class is None else converted_tensor(of_class, wide.dtype),
    )


def _unfit(op: str, logits: TensorView, other: str) -> DefinitionError:
    return DefinitionError(
        f"{op} got logits {logits.name} of type {logits.dtype.name} and {logits.rank} dimensions, "
        f"and {other}",
        code="WS0188",
        remedy="give floating-point logits with the classes in dimension 1, a target without that "
        "dimension, and a weight of one",
    )


def _is_zero(value: Scalar) -> bool:
    return isinstance(value, int | float) and value == 0


def _converted(value: Scalar, dtype: DataType) -> Expr:
    """A number in the type that is computed in."""
    return arithmetic.convert(value if isinstance(value, Expr) else literal(value), dtype)


def _tensor(value: object) -> TensorView:
    return as_tensor(value, "cross_entropy")
