"""In which of torch's modes a call is made: eager or traced, and under which autocast."""

from __future__ import annotations

import sys

import torch
from torch import Tensor
from torch.autograd import forward_ad

from warpsmith.nn.refusals import refuse_tangents, refuse_transforms

_IN_FLOAT = frozenset(
    name
    for name in ("layer_norm", "rms_norm", "softmax.int", "log_softmax.int")
    if torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "AutocastCUDA")
)
"""What this version of torch computes in float32 under CUDA autocast: 2.11 leaves rms_norm out."""

NARROW = frozenset({torch.bfloat16, torch.float16})


def autocast(x: Tensor, name: str) -> torch.dtype:
    """The type of a result: float32 for 16 bits where CUDA autocast says so, else the input's."""
    kind = x.dtype
    if kind in NARROW and name in _IN_FLOAT and x.is_cuda and torch.is_autocast_enabled("cuda"):
        return torch.float32
    return kind


# Looked up once, since every call asks them.
_is_compiling = torch.compiler.is_dynamo_compiling  # all else that traces is a mode
_transforms_active = torch._C._are_functorch_transforms_active
_modes_on_stack = torch._C._len_torch_dispatch_stack

_PLAIN = frozenset({Tensor, torch.nn.Parameter})


def is_traced(
    who: str,
    x: Tensor,
    residual: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> bool:
    """Whether torch has to see an operator: something other than plain eager mode is going on."""
    if _is_compiling():
        return True
    if _transforms_active():
        refuse_transforms(who)
    if forward_ad._current_level >= 0:
        refuse_tangents(who, x, residual, weight, bias)
    return not (
        (x.is_cuda or x.is_cpu)
        and type(x) in _PLAIN
        and (weight is None or type(weight) in _PLAIN)
        and (bias is None or type(bias) in _PLAIN)
        and (residual is None or type(residual) in _PLAIN)
        and _modes_on_stack() == 0
    )


def is_spread(*tensors: Tensor | None) -> bool:
    """Whether one of these is spread over several devices (`sharded.py`)."""
    distributed = sys.modules.get("torch.distributed.tensor")  # or there is none
    return distributed is not None and any(isinstance(t, distributed.DTensor) for t in tensors)
