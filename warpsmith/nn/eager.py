"""Norms in eager mode, where an operator of torch would cost the host more time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from warpsmith.nn import calls, operators
from warpsmith.nn.gradients import norm_gradients, save_norm


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
        # The operator where gradients are recorded, since it refuses to be differentiated.
        recorded = torch.is_grad_enabled()
        run = operators.norm_gradient if recorded else calls.norm_gradient
        return *norm_gradients(run, ctx, dy, dtotal), None, None
