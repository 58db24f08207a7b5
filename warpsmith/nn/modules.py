"""Norms, softmaxes and losses as modules: constructors, parameters and `state_dict` of torch's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from warpsmith.nn import functional


class LayerNorm(torch.nn.LayerNorm):  # type: ignore[misc]  # torch is not analysed
    """`torch.nn.LayerNorm` through `functional.layer_norm`."""

    def forward(self, input: Tensor) -> Tensor:
        try:  # torch's own attributes of modules take 0.7 µs
            weight, bias = self._parameters["weight"], self._parameters["bias"]
        except KeyError:  # something else stands for them
            weight, bias = self.weight, self.bias
        return functional.layer_norm(input, self.normalized_shape, weight, bias, self.eps)


class RMSNorm(torch.nn.RMSNorm):  # type: ignore[misc]  # torch is not analysed
    """`torch.nn.RMSNorm` through `functional.rms_norm`."""

    def forward(self, input: Tensor) -> Tensor:
        try:
            weight = self._parameters["weight"]
        except KeyError:
            weight = self.weight
        return functional.rms_norm(input, self.normalized_shape, weight, self.eps)


class Softmax(torch.nn.Softmax):  # type: ignore[misc]  # torch is not analysed
    """`torch.nn.Softmax` through `functional.softmax`; it must be given its dimension."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.softmax(input, self.dim)


class LogSoftmax(torch.nn.LogSoftmax):  # type: ignore[misc]  # torch is not analysed
    """`torch.nn.LogSoftmax` through `functional.log_softmax`; it must be given its dimension."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.log_softmax(input, self.dim)


class CrossEntropyLoss(torch.nn.CrossEntropyLoss):  # type: ignore[misc]  # torch is not analysed
    """`torch.nn.CrossEntropyLoss` through `functional.cross_entropy`.

    Args:
        z_loss: so many times the square of its logsumexp is added to the loss of a row.
    """

    def __init__(self, *args: Any, z_loss: float = 0.0, **named: Any) -> None:
        super().__init__(*args, **named)
        self.z_loss = z_loss

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        try:
            weight = self._buffers["weight"]
        except KeyError:
            weight = self.weight
        return functional.cross_entropy(
            input,
            target,
            weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
            z_loss=self.z_loss,
        )
