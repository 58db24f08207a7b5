"""Which convolutions are faster where images have their channels last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch.fx import Node

from warpsmith.torch_backend.sizes import is_number

aten = torch.ops.aten

_IMAGES: Mapping[Any, int] = {
    aten.convolution.default: 2,
    aten.convolution_backward.default: 3,
}
"""How many arguments of a convolution are images, the first ones: the last two of them are what it
is of, and its weight."""

_HALVES = (torch.bfloat16, torch.float16)

_DEPTH = 8
"""How many channels a TF32 instruction of tensor cores multiplies at once."""


def images_of(node: Node) -> Sequence[Node]:
    """What a convolution reads but for its bias."""
    images: Sequence[Node] = node.args[: _IMAGES[node.target]]
    return images


def is_faster(node: Node) -> bool:
    """Whether a node is a convolution that is faster where its images have their channels last.

    Of halves cuDNN has kernels for these alone, or better ones, for groups, too. With TF32 those of
    few channels lose.
    """
    if node.target not in _IMAGES:
        return False
    x, weight = (each.meta["val"] for each in images_of(node)[-2:])
    area = x.shape[2:]
    if len(area) != 2 or not all(map(is_number, x.shape)) or prod(area) == 1 or x.shape[1] == 1:
        return False
    alone = node.args[_IMAGES[node.target] + 6] == 1
    if weight.dtype is torch.float32 and torch.backends.cudnn.allow_tf32:
        return bool(alone and x.shape[1] >= _DEPTH)
    return weight.dtype in _HALVES
