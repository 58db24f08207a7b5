"""The fused programs behind the training doors: norms and softmaxes of rows, and their gradients.

All take rows: a tensor of two dimensions, of which the second one is a row. They compute in float,
or in double where a tensor or a result is double, and round each result once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from warpsmith import ops
from warpsmith.frontends.fuse import fuse
from warpsmith.ir.dtypes import DataType


class NormForm(NamedTuple):
    """What is the same in all calls of one norm.

    Attributes:
        centered: whether the mean is subtracted: LayerNorm, else RMSNorm.
        eps: what is added to the variance, or to the mean square.
        wide: type in which it is computed.
        out: type of the normalized rows.
        total: type of `x + residual`; empty where nothing is added.
        saved: whether mean and reciprocal deviation are results, too.
        dropped: share of x that is dropped before the residual is added.
    """

    centered: bool
    eps: float
    wide: str
    out: str
    total: str
    saved: bool
    dropped: float = 0.0


class GradientForm(NamedTuple):
    """What is the same in all calls of one norm's gradient.

    Attributes:
        wide: type in which it is computed.
        sources: types of the gradients of what was normalized: of `x`, and of a residual whose
            type is another one. Empty where none is wanted.
        weight, bias: types of their gradients; empty where none is wanted.
        x: type of the gradient of an x that was dropped from; then `sources` is the residual's.
        dropped: share of x that was dropped.
        eps, centered: of the norm, where mean and reciprocal deviation are to be computed again.
    """

    wide: str
    sources: tuple[str, ...]
    weight: str
    bias: str
    x: str = ""
    dropped: float = 0.0
    eps: float = 0.0
    centered: bool = False


class SoftmaxForm(NamedTuple):
    """What is the same in all calls of one softmax, or of its gradient.

    Attributes:
        log: whether it is the logarithm of the softmax.
        dim: the dimension that sums to 1.
        narrow: type that the input is rounded to first; empty where it loses nothing.
        wide: type in which it is computed.
        out: type of the result.
    """

    log: bool
    dim: int
    narrow: str
    wide: str
    out: str


@fuse
def norm(x: Any, residual: Any, weight: Any, bias: Any, seed: Any, form: NormForm) -> Any:
    """Normalized rows; then `x + residual`, mean and reciprocal deviation as the form says.

    What is normalized is the sum as it was rounded, since the gradient reads it so. With a seed, x
    is dropped from before it is added.
    """
    wide = DataType(form.wide)
    total = None
    source = x.to(wide)
    if seed is not None:
        source, _ = ops.dropout(source, form.dropped, rng_seed=seed, rng_offset=0)
    if form.total:
        total = (source + residual.to(wide)).to(DataType(form.total))
        source = total.to(wide)
    mean, centered, scale = _statistics(source, form.centered, form.eps)
    y = centered * scale
    if weight is not None:
        y = y * weight.to(wide)
    if bias is not None:
        y = y + bias.to(wide)
    saved = (mean, scale) if form.saved else ()
    results = (y.to(DataType(form.out)), total, *saved)
    return tuple(result for result in results if result is not None)


def _statistics(source: Any, centered: bool, eps: float) -> tuple[Any, Any, Any]:
    """Of rows: the mean, or None where none is subtracted, what is left, reciprocal deviation."""
    mean, rest = None, source
    if centered:
        variance, mean = ops.var_mean(source, [1], 0, True)
        rest = source - mean
    else:
        variance = ops.mean(source * source, [1], keepdim=True)
    return mean, rest, ops.rsqrt(ops.add(variance, eps))


@fuse
def norm_gradient(
    dy: Any,
    dtotal: Any,
    source: Any,
    mean: Any,
    scale: Any,
    weight: Any,
    seed: Any,
    form: GradientForm,
) -> Any:
    """Gradients of the sources, the weight and the bias, those that the form asks for.

    Args:
        dy: gradient of the normalized rows.
        dtotal: gradient of `source` from elsewhere, or None.
        source: what was normalized.
        mean: of each row, or None where none was subtracted, or none was kept.
        scale: reciprocal deviation of each row, or None where none was kept.
        weight: or None.
        seed: of what was dropped, or None.
    """
    wide = DataType(form.wide)
    given = dy.to(wide)
    if scale is None:
        mean, centered, scale = _statistics(source.to(wide), form.centered, form.eps)
    else:
        centered = source.to(wide) if mean is None else source.to(wide) - mean
    normal = centered * scale
    results: list[Any] = []
    if form.x or form.sources:
        weighted = given if weight is None else given * weight.to(wide)
        inner = weighted - normal * ops.mean(weighted * normal, [1], keepdim=True)
        if mean is not None:
            inner = inner - ops.mean(weighted, [1], keepdim=True)
        dx = inner * scale
        if dtotal is not None:
            dx = dx + dtotal.to(wide)
        if form.x:
            kept: Any = ops.dropout(dx, form.dropped, rng_seed=seed, rng_offset=0)[0]
            results.append(kept.to(DataType(form.x)))
        results += [dx.to(DataType(dtype)) for dtype in form.sources]
    if form.weight:
        of_weight: Any = ops.sum(given * normal, [0])
        results.append(of_weight.to(DataType(form.weight)))
    if form.bias:
        of_bias: Any = ops.sum(given, [0])
        results.append(of_bias.to(DataType(form.bias)))
    return tuple(results)


@fuse
def softmax(x: Any, form: SoftmaxForm) -> Any:
    """The softmax of a dimension, or its logarithm."""
    wide, dim = DataType(form.wide), [form.dim]
    given = (x.to(DataType(form.narrow)) if form.narrow else x).to(wide)
    shifted = given - ops.max(given, dim, keepdim=True)
    powers = ops.exp(shifted)
    total = ops.sum(powers, dim, keepdim=True)
    result = shifted - ops.log(total) if form.log else powers / total
    return result.to(DataType(form.out))


@fuse
def softmax_gradient(dy: Any, y: Any, form: SoftmaxForm) -> Any:
    """Gradient of the input of a softmax, or of its logarithm, from its result y."""
    wide, dim = DataType(form.wide), [form.dim]
    given, result = dy.to(wide), y.to(wide)
    if form.log:
        dx = given - ops.exp(result) * ops.sum(given, dim, keepdim=True)
    else:
        dx = result * (given - ops.sum(result * given, dim, keepdim=True))
    return dx.to(DataType(form.out))
