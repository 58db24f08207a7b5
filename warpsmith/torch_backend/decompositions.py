"""Which operations AOTAutograd takes apart before warpsmith sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions

aten = torch.ops.aten

_FURTHER = (
    "_log_softmax",
    "_softmax",
    "addmv",
    "native_group_norm",
    "native_layer_norm",
    "threshold_backward",
)
"""Operations of torch's core set that are fused better in parts."""

_KEPT = (
    "scaled_dot_product",  # attention is torch's
    "embedding_dense_backward",
    "convolution_backward",
    "nll_loss",
)
"""Operations that torch has better kernels for than for their parts."""


def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Torch's operators with the functions that take them apart."""
    further = [getattr(aten, name) for name in _FURTHER]
    found = {**core_aten_decompositions(), **get_decompositions(further)}
    return {
        operator: function
        for operator, function in found.items()
        if not any(name in str(operator) for name in _KEPT)
    }
