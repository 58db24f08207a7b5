"""Gradients of norms, from what their forward call saved.

The same for both ways that autograd comes here: through operators of torch (`operators.py`), and in
eager mode through `torch.autograd.Function` (`eager.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from warpsmith import knobs
from warpsmith.nn import calls

Told = tuple[Any, ...]
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]


def save_norm(
    ctx: Any,
    inputs: tuple[Any, ...],
    dims: int,
    dropped: float,
    source: Tensor,
    mean: Tensor | None,
    scale: Tensor,
) -> None:
    """Keep what the gradient reads.

    Args:
        inputs: the five tensors of `calls.norm`.
        source: what was normalized.
    """
    x, residual, weight, bias, seed = inputs
    ctx.knobs = knobs.scoped()
    ctx.told = (
        dims,
        dropped,
        x.dtype,
        None if residual is None else residual.dtype,
        None if weight is None else weight.dtype,
        None if bias is None else bias.dtype,
        seed is not None,
    )
    ctx.save_for_backward(source, mean, scale, weight, seed)
    ctx.set_materialize_grads(False)


@lru_cache(maxsize=256)
def _asked(needed: tuple[bool, ...], told: tuple[Any, ...]) -> tuple[Told, tuple[int, ...]]:
    """What `calls.norm_gradient` is told behind its tensors, and which of its results the gradient
    of x, the residual, the weight and the bias each is: the one behind the last where none is.
    """
    dims, dropped, *kinds, drops = told
    types = [kind if need else None for kind, need in zip(kinds, needed, strict=False)]
    shared = types[0] is types[1] and not drops  # the gradients of x and the residual are one
    places, used = [], 0
    for number, kind in enumerate(types):
        places.append(-1 if kind is None else 0 if number == 1 and shared else used)
        used += places[-1] == used
    return (dims, dropped, *types), tuple(used if place < 0 else place for place in places)


def norm_gradients(
    ctx: Any, dy: Tensor | None, dtotal: Tensor | None, operator: Callable[..., Any] | None = None
) -> Gradients:
    """Gradients of x, the residual, the weight and the bias; None for those that none needs.

    Args:
        dy, dtotal: gradients of the normalized tensor and of `x + residual`; None for none.
        operator: that of `calls.norm_gradient`, in its place.
    """
    told, (x, residual, weight, bias) = _asked(ctx.needs_input_grad, ctx.told)
    given = dy, dtotal, *ctx.saved_tensors
    found: Any = NotImplemented
    if dy is None:
        if dtotal is None:
            return None, None, None, None
        if given[-1] is None:
            own = [None if kind is None else dtotal.to(kind) for kind in told[2:4]]
            return own[0], own[1], None, None
        given = torch.zeros_like(dtotal), *given[1:]
    elif operator is None and ctx.knobs is None:
        found = calls.NORM_GRADIENT.shortcut.launch((*given, told))
    if found is NotImplemented:
        found = scoped(ctx.knobs, operator or calls.norm_gradient, *given, *told)
    found = (*found, None)
    return found[x], found[residual], found[weight], found[bias]


def recorder(function: Any) -> Callable[..., Any]:
    """`apply` of a `torch.autograd.Function` without what that does for transforms, which are
    refused before (1.5 of 7 µs). Its backward is called without a look at each call for what it is
    (0.4 µs).
    """
    function._backward_cls.apply = function.backward
    recorded: Callable[..., Any] = super(torch.autograd.Function, function).apply
    return recorded


def scoped(scope: knobs.Knobs | None, run: Callable[..., Any], *args: Any) -> Any:
    """A call under the knobs of the forward call's scope: autograd has threads of its own."""
    if scope is None:
        return run(*args)
    with knobs.within(scope):
        return run(*args)
