"""Which operations AOTAutograd takes apart before warpsmith sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch._decomp import core_aten_decompositions, get_decompositions

aten = torch.ops.aten

_FURTHER = (
    "_batch_norm_no_update",
    "_batch_norm_with_update_functional",
    "_log_softmax",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit_no_training",
    "_softmax",
    "addmv",
    "batch_norm_backward",
    "dist",
    "elu",
    "fmax",
    "fmin",
    "hardtanh",
    "leaky_relu",
    "linalg_vector_norm",
    "native_group_norm",
    "native_layer_norm",
    "threshold_backward",
    "upsample_bilinear2d",
    "upsample_nearest2d",
)
"""Operations that are no parts of others by torch's core set, or that it leaves as they are, and
that are fused better in parts."""

_KEPT = (
    "scaled_dot_product",  # attention is torch's
    "embedding_dense_backward",
    "index_add",  # torch adds in no order, and where its parts are sorted first
    "convolution_backward",
    "bernoulli",
    "native_dropout",
    "nll_loss2d",
    "select_scatter",  # a part of an input is written in its place
)
"""Operations of which there are better kernels than of their parts."""


def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Torch's operators with the functions that take them apart."""
    further = [getattr(aten, name) for name in _FURTHER]
    found = {**core_aten_decompositions(), **get_decompositions(further)}
    found[aten.nll_loss_backward.default] = _nll_loss_backward
    return {
        operator: function
        for operator, function in found.items()
        if not any(name in str(operator) for name in _KEPT)
    }


def _nll_loss_backward(
    grad: Tensor,
    logarithms: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignored: int,
    total_weight: Tensor,
) -> Tensor:
    """The gradient of the logarithms, of each class by itself: nothing is scattered."""
    share = grad / total_weight if reduction == 1 else grad
    chosen = target.unsqueeze(-1)
    share = torch.where(chosen != ignored, share.unsqueeze(-1) if reduction == 0 else share, 0)
    classes = torch.arange(logarithms.shape[-1], device=logarithms.device)
    if weight is not None:
        share = share * weight
    return torch.where(classes == chosen, -share, 0).to(logarithms.dtype)
