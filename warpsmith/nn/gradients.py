"""Gradients of norms and softmaxes, from what their forward call saved.

The same for both ways that autograd comes here: through operators of torch, and in eager mode
through `torch.autograd.Function`, which costs the host a fraction of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from warpsmith import knobs
from warpsmith.nn import calls

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
    found = iter(_scoped(ctx, run, *given, *wanted))
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


class Norm(torch.autograd.Function):  # type: ignore[misc]  # torch is not analysed
    """`calls.norm` for autograd in eager mode."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        residual: Tensor | None,
        weight: Tensor | None,
        bias: Tensor | None,
        seed: Tensor | None,
        how: tuple[int, float, bool, torch.dtype, float],
    ) -> Any:
        """The normalized tensor, and `x + residual` where there is a residual.

        `how` are the arguments of `calls.norm` that are no tensors, in one: each costs the host.
        """
        inputs = x, residual, weight, bias, seed, *how
        y, *rest = calls.norm(*inputs, True)
        total = None if residual is None else rest.pop(0)
        scale = rest.pop()
        save_norm(ctx, inputs, x if total is None else total, rest.pop() if rest else None, scale)
        return y if total is None else (y, total)

    @staticmethod
    def backward(ctx: Any, dy: Any, dtotal: Any = None) -> Any:
        return *norm_gradients(_runner("norm"), ctx, dy, dtotal), None, None


class Softmax(torch.autograd.Function):  # type: ignore[misc]  # torch is not analysed
    """`calls.softmax` for autograd in eager mode."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, log: bool, out: torch.dtype) -> Any:
        y = calls.softmax(x, dim, log, out)
        save_softmax(ctx, (x, dim, log), y)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return softmax_gradients(_runner("softmax"), ctx, dy), None, None, None


def save_softmax(ctx: Any, inputs: tuple[Any, ...], y: Tensor) -> None:
    """Keep what the gradient reads. `inputs` are those of `calls.softmax`."""
    x, ctx.dim, ctx.log = inputs[:3]
    ctx.type, ctx.knobs = x.dtype, knobs.scoped()
    ctx.save_for_backward(y)
    ctx.set_materialize_grads(False)


def softmax_gradients(run: Callable[..., Any], ctx: Any, dy: Tensor | None) -> Tensor | None:
    """The gradient of x; `run` is `calls.softmax_gradient`, or its operator."""
    if dy is None:
        return None
    (y,) = ctx.saved_tensors
    gradient: Tensor = _scoped(ctx, run, dy, y, ctx.dim, ctx.log, ctx.type)
    return gradient


def _scoped(ctx: Any, run: Callable[..., Any], *args: Any) -> Any:
    """A call under the knobs of the forward call's scope: autograd has threads of its own."""
    if ctx.knobs is None:
        return run(*args)
    with knobs.within(ctx.knobs):
        return run(*args)


def _runner(what: str) -> Callable[..., Any]:
    """The gradient's operator where gradients are recorded, since it refuses to be differentiated.

    Else the call itself.
    """
    if not torch.is_grad_enabled():
        return calls.norm_gradient if what == "norm" else calls.softmax_gradient
    from warpsmith.nn import operators

    chosen = operators.norm_gradient if what == "norm" else operators.softmax_gradient
    recorded: Callable[..., Any] = chosen
    return recorded
