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
"""Who asks, and of `calls.norm` what is no tensor, with the shape for `dims`: in one, as each
argument costs the host.
"""

Given = tuple[Tensor, Tensor | None, Tensor | None, Tensor | None, Tensor | None]


def norm(
    x: Tensor,
    residual: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    seed: Tensor | None,
    how: How,
) -> tuple[Any, ...]:
    """`calls.norm` of arguments that are checked, unless some like these were."""
    given = x, residual, weight, bias, seed
    done: Any = calls.NORM.shortcut.launch((*given, how))
    return _norm(given, how) if done is NotImplemented else done


def _norm(given: Given, how: How) -> tuple[Any, ...]:
    who, shape, eps, centered, out, dropped, saved = how
    dims = row_dimensions(who, given[0], shape, *given[1:4])
    return calls.norm(*given, dims, eps, centered, out, dropped, saved, how)


class Norm(torch.autograd.Function):  # type: ignore[misc]  # torch is not analysed
    """`calls.norm` for autograd in eager mode. Calls like one that was here before go past Python,
    both ways (`runtime/native/gradient.c`).
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        residual: Tensor | None,
        weight: Tensor | None,
        bias: Tensor | None,
        seed: Tensor | None,
        how: How,
    ) -> Any:
        """The normalized tensor, and `x + residual` where there is a residual."""
        # A tensor from a transform that is over has no memory.
        inputs = x, residual, *_ = unwrap_dead_wrappers((x, residual, weight, bias, seed))
        results = _norm(inputs, how)
        mean, scale = results[-2] if how[3] else None, results[-1]
        source = x if residual is None else results[1]
        save_norm(ctx, inputs, len(how[1]), how[5], source, mean, scale)
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
