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
    ctx.told = (
        knobs.scoped(),
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
def _wanted(
    needed: tuple[bool, ...], *told: Any
) -> tuple[tuple[torch.dtype | None, ...], tuple[int, ...]]:
    """Types of the gradients of x, the residual, the weight and the bias, None for those that none
    needs; and which of the results each is, the one behind the last for none.
    """
    *kinds, dropped = told
    types = [kind if need else None for kind, need in zip(kinds, needed, strict=True)]
    of_x, of_residual, *_ = types
    shared = of_x is of_residual and not dropped  # their gradients are one tensor
    places, used = [], 0
    for number, kind in enumerate(types):
        places.append(-1 if kind is None else 0 if number == 1 and shared else used)
        used += places[-1] == used
    return tuple(types), tuple(used if place < 0 else place for place in places)


def norm_gradients(
    run: Callable[..., Any], ctx: Any, dy: Tensor | None, dtotal: Tensor | None
) -> Gradients:
    """Gradients of x, the residual, the weight and the bias; None for those that none needs.

    Args:
        run: `calls.norm_gradient`, or its operator.
        dy, dtotal: gradients of the normalized tensor and of `x + residual`; None for none.
    """
    scope, dims, dropped, *kinds = ctx.told
    types, (x, residual, weight, bias) = _wanted(ctx.needs_input_grad[:4], *kinds)
    saved = ctx.saved_tensors
    if dy is None:
        if dtotal is None:
            return None, None, None, None
        if saved[4] is None:
            own = [None if kind is None else dtotal.to(kind) for kind in types[:2]]
            return own[0], own[1], None, None
        dy = torch.zeros_like(dtotal)
    found = (*scoped(scope, run, dy, dtotal, *saved, dims, dropped, *types), None)
    return found[x], found[residual], found[weight], found[bias]


def scoped(scope: knobs.Knobs | None, run: Callable[..., Any], *args: Any) -> Any:
    """A call under the knobs of the forward call's scope: autograd has threads of its own."""
    if scope is None:
        return run(*args)
    with knobs.within(scope):
        return run(*args)
