"""Norms in eager mode, where an operator of torch would cost the host more time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._functorch.utils import unwrap_dead_wrappers

from warpsmith.nn import calls, operators
from warpsmith.nn.gradients import norm_gradients, recorder, save_norm
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
        inputs = x, residual, weight, bias, seed
        results: Any = calls.NORM.shortcut.launch((*inputs, how))
        if results is NotImplemented:  # a tensor from a transform that is over has no memory
            inputs = x, residual, *_ = unwrap_dead_wrappers(inputs)
            results = _norm(inputs, how)
        mean, scale = results[-2] if how[3] else None, results[-1]
        if residual is None:
            save_norm(ctx, inputs, len(how[1]), how[5], x, mean, scale)
            return results[0]
        save_norm(ctx, inputs, len(how[1]), how[5], results[1], mean, scale)
        return results[:2]

    @staticmethod
    def backward(ctx: Any, dy: Any, dtotal: Any = None) -> Any:
        # The operator where gradients are recorded, since it refuses to be differentiated.
        operator = operators.norm_gradient if torch.is_grad_enabled() else None
        return *norm_gradients(ctx, dy, dtotal, operator), None, None


recorded = recorder(Norm)
