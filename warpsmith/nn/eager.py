"""Norms in eager mode, where an operator of torch would cost the host more time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._functorch.utils import unwrap_dead_wrappers

from warpsmith.nn import calls, operators
from warpsmith.nn.gradients import asked, norm_gradients, past_python, recorder, save_norm
from warpsmith.nn.refusals import row_dimensions

How = tuple[str, Sequence[int], float, bool, torch.dtype, float, bool]
"""Who asks, and what is no tensor, with the shape for `dims`: in one, as each argument costs the
host, None no less.
"""

_AT = {2: (0, 2), 3: (0, 2, 3), 5: (0, 1, 2, 3, 4)}
"""Which of the five tensors of `calls.norm` so many are: without a residual and a seed, or a bias.
"""

Given = tuple[Tensor | None, ...]


def norm(*arguments: Any) -> tuple[Any, ...]:
    """`calls.norm` of two, three or five tensors and `How`, which are checked, unless some like
    these were.
    """
    done: Any = calls.NORM.shortcut.launch(arguments)
    return _norm(arguments[:-1], arguments[-1]) if done is NotImplemented else done


def _spread(given: Given) -> Given:
    """The five tensors."""
    at = _AT[len(given)]
    return tuple([given[at.index(k)] if k in at else None for k in range(5)])


def _norm(given: Given, how: How) -> tuple[Any, ...]:
    who, shape, eps, centered, out, dropped, saved = how
    x, residual, weight, bias, seed = _spread(given)
    assert x is not None
    dims = row_dimensions(who, x, shape, residual, weight, bias)
    told = dims, eps, centered, out, dropped, saved and x.numel() > calls.FEW
    return calls.norm(x, residual, weight, bias, seed, *told, _AT[len(given)], how)


class Norm(torch.autograd.Function):  # type: ignore[misc]  # torch is not analysed
    """`calls.norm` for autograd in eager mode. Calls like one that was here before go past Python,
    both ways (`runtime/native/gradient.c`).
    """

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        """The normalized tensor, and `x + residual` where there is a residual, of tensors and
        `How`.
        """
        how: How = arguments[-1]
        _, shape, eps, centered, _, dropped, _ = how
        # A tensor from a transform that is over has no memory.
        given = unwrap_dead_wrappers(arguments[:-1])
        results, inputs, at = _norm(given, how), _spread(given), _AT[len(given)]
        x, residual, *_ = inputs
        source, kept = (x, results[1:]) if residual is None else (results[1], results[2:])
        mean, scale = (None, *kept)[-2:] if kept else (None, None)
        told = dropped, None if kept else eps, centered
        save_norm(ctx, inputs, at, len(shape), *told, source, mean, scale)
        return results[0] if residual is None else results[:2]

    @staticmethod
    def backward(ctx: Any, dy: Any, dtotal: Any = None) -> Any:
        """Gradients of the arguments."""
        return _differentiate(ctx, ctx.saved_tensors, dy, dtotal)


def _differentiate(ctx: Any, saved: tuple[Any, ...], dy: Any, dtotal: Any = None) -> Any:
    # The operator where gradients are recorded, since it refuses to be differentiated.
    run = operators.norm_gradient if torch.is_grad_enabled() else calls.norm_gradient
    return norm_gradients(ctx, saved, dy, dtotal, run)


recorded = recorder(Norm)
past_python(Norm, (calls.NORM.shortcut,), (calls.NORM_GRADIENT.shortcut, _differentiate, asked))
