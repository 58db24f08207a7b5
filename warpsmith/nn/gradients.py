"""Gradients of norms, from what their forward call saved.

The same for both ways that autograd comes here: through operators of torch (`operators.py`), and in
eager mode through `torch.autograd.Function` (`eager.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from warpsmith import knobs

Gradients = tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]


def save_norm(ctx: Any, inputs: tuple[Any, ...], source: Tensor, mean: Any, scale: Tensor) -> None:
    """Keep what the gradient reads. `inputs` are those of `calls.norm`."""
    x, residual, weight, bias, seed, dims, *_, dropped = inputs
    ctx.dims, ctx.dropped, ctx.knobs = dims, dropped, knobs.scoped()
    ctx.types = (
        x.dtype,
        None if residual is None else residual.dtype,
        None if weight is None else weight.dtype,
        None if bias is None else bias.dtype,
    )
    ctx.save_for_backward(source, mean, scale, weight, seed)
    ctx.set_materialize_grads(False)


def norm_gradients(
    run: Callable[..., Any], ctx: Any, dy: Tensor | None, dtotal: Tensor | None
) -> Gradients:
    """Gradients of x, the residual, the weight and the bias; None for those that none needs.

    Args:
        run: `calls.norm_gradient`, or its operator.
        dy, dtotal: gradients of the normalized tensor and of `x + residual`; None for none.
    """
    wanted = [
        kind if needed else None
        for kind, needed in zip(ctx.types, ctx.needs_input_grad[:4], strict=True)
    ]
    of_x, of_residual, of_weight, of_bias = wanted
    source, mean, scale, weight, seed = ctx.saved_tensors
    if dy is None and dtotal is None:
        return None, None, None, None
    if dy is None and seed is not None:
        dy = torch.zeros_like(dtotal)
    if dy is None:
        assert dtotal is not None
        own = [None if kind is None else dtotal.to(kind) for kind in (of_x, of_residual)]
        return own[0], own[1], None, None
    given = dy, dtotal, source, mean, scale, weight, seed, ctx.dims, ctx.dropped
    found = iter(scoped(ctx, run, *given, *wanted))
    dx = next(found) if of_x is not None else None
    dresidual = dx if of_residual is of_x and seed is None else None
    if of_residual is not None and dresidual is None:
        dresidual = next(found)
    return (
        dx,
        dresidual,
        None if of_weight is None else next(found),
        None if of_bias is None else next(found),
    )


def scoped(ctx: Any, run: Callable[..., Any], *args: Any) -> Any:
    """A call under the knobs of the forward call's scope: autograd has threads of its own."""
    if ctx.knobs is None:
        return run(*args)
    with knobs.within(ctx.knobs):
        return run(*args)
