"""Norms in eager mode, where an operator of torch would cost the host more time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from warpsmith.nn import calls, operators, programs
from warpsmith.nn.gradients import norm_gradients, save_norm
from warpsmith.nn.refusals import row_dimensions

How = tuple[str, Sequence[int], float, bool, torch.dtype, float]
"""Who asks, and of `calls.norm` what is no tensor, with the shape for `dims`: in one, as each
argument costs the host.
"""


def norm(
    x: Tensor,
    residual: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    seed: Tensor | None,
    how: How,
    *,
    saved: bool,
) -> Sequence[Any]:
    """`calls.norm` of arguments that are checked, unless rows like these were."""
    who, shape, eps, centered, out, dropped = how
    if x.shape[1:] == shape:
        kinds = x.dtype, None if residual is None else residual.dtype
        form = calls.norm_form(*kinds, eps, centered, out, dropped, saved)
        done: Any = programs.norm.shortcut.launch((x, residual, weight, bias, seed, form))
        if done is not NotImplemented:
            return done  # type: ignore[no-any-return]
    dims = row_dimensions(who, x, shape, residual, weight, bias)
    return calls.norm(x, residual, weight, bias, seed, dims, eps, centered, out, dropped, saved)


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
        how: How,
    ) -> Any:
        """The normalized tensor, and `x + residual` where there is a residual."""
        given = x, residual, weight, bias, seed
        y, *rest = norm(*given, how, saved=True)
        inputs = *given, len(how[1]), *how[2:]
        total = None if residual is None else rest.pop(0)
        scale = rest.pop()
        save_norm(ctx, inputs, x if total is None else total, rest.pop() if rest else None, scale)
        return y if total is None else (y, total)

    @staticmethod
    def backward(ctx: Any, dy: Any, dtotal: Any = None) -> Any:
        # The operator where gradients are recorded, since it refuses to be differentiated.
        recorded = torch.is_grad_enabled()
        run = operators.norm_gradient if recorded else calls.norm_gradient
        return *norm_gradients(run, ctx, dy, dtotal), None, None
