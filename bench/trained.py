"""Small modules that are trained, each with the shapes of its inputs. Imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # torch's own name of it

from bench.programs import Program, _contrast, _overlap, _soft, _squeezed, _triplet, of
from bench.small_models import turned


class _Plain(nn.Module):  # type: ignore[misc]  # torch is not analysed
    """A function without weights."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs)


class _Biased(nn.Module):  # type: ignore[misc]  # torch is not analysed
    """An activation of what a vector is added to."""

    def __init__(self, width: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.bias, self.activation = nn.Parameter(torch.randn(width)), activation

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(x + self.bias)


@dataclass(frozen=True, slots=True)
class Trained:
    """A module, made of the inputs that are drawn for it, and what these are.

    Attributes:
        inputs: their shapes; `function` is not called.
        channels_last: images lie in memory with channels last.
        wide: weights are float32 whatever the inputs are.
    """

    make: Callable[[list[Tensor]], nn.Module]
    inputs: Program
    channels_last: bool = False
    wide: bool = False


def _trained(make: Callable[[list[Tensor]], nn.Module], *shapes: str, **how: Any) -> Trained:
    return Trained(make, of(torch.add, *shapes), **how)


def _plain(function: Callable[..., Tensor], *shapes: str) -> Trained:
    return _trained(lambda inputs: _Plain(function), *shapes)


def _turned_pairs(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def _rotated(q: Tensor) -> Tensor:
    angles = (
        torch.arange(q.shape[-2], device=q.device)[:, None] * 0.01 * torch.ones_like(q[0, 0, 0])
    )
    return q * angles.cos() + turned(q) * angles.sin()


def _to_rows(x: Tensor) -> Tensor:
    return torch.arange(x.shape[0], device=x.device) % x.shape[1]


def _norms(x: list[Tensor]) -> nn.Module:
    return nn.Sequential(nn.BatchNorm2d(x[0].shape[1]), nn.ReLU())


def _stem(x: list[Tensor]) -> nn.Module:
    return nn.Sequential(_norms(x), nn.MaxPool2d(3, 2, 1))


def _groups(x: list[Tensor]) -> nn.Module:
    return nn.Sequential(nn.GroupNorm(32, x[0].shape[1]), nn.SiLU())


MODULES: Mapping[str, Trained] = {
    "batch_norm": _trained(_norms, "N C A A", wide=True),
    "batch_norm_last": _trained(_norms, "N C A A", wide=True, channels_last=True),
    "batch_norm_rows": _trained(lambda x: nn.BatchNorm1d(x[0].shape[1]), "R D", wide=True),
    "stem": _trained(_stem, "N 64 112 112", wide=True),
    "stem_last": _trained(_stem, "N 64 112 112", wide=True, channels_last=True),
    "group_norm": _trained(_groups, "N C E E"),
    "instance_norm": _trained(lambda x: nn.InstanceNorm2d(x[0].shape[1], affine=True), "N C E E"),
    "layer_norm": _trained(lambda x: nn.LayerNorm(x[0].shape[1]), "R D"),
    "layer_norm_gelu": _trained(
        lambda x: nn.Sequential(nn.LayerNorm(x[0].shape[1]), nn.GELU()), "R D"
    ),
    "rms_norm": _trained(lambda x: nn.RMSNorm(x[0].shape[1]), "R D"),
    "bias_gelu": _trained(
        lambda x: _Biased(x[0].shape[1], lambda t: F.gelu(t, approximate="tanh")), "R D"
    ),
    "bias_relu_odd": _trained(lambda x: _Biased(x[0].shape[1], F.relu), "R O"),
    "embedding": _trained(
        lambda x: nn.Sequential(nn.Embedding(32000, 1024), nn.LayerNorm(1024)), "B S int 32000"
    ),
    "prelu": _trained(lambda x: nn.PReLU(x[0].shape[1]), "N C A A"),
    "hardswish": _plain(F.hardswish, "N C A A"),
    "mish": _plain(F.mish, "N C A A"),
    "gated": _plain(lambda a, b: F.silu(a) * b, "R D", "R D"),
    "gated_halves": _plain(lambda x: F.glu(x), "R 11264"),
    "rotated": _plain(_rotated, "B 16 S 128"),
    "scores": _plain(lambda s: torch.softmax(s.float() * 0.125, -1).to(s.dtype), "B 8 512 512"),
    "unit": _plain(lambda x: F.normalize(x, dim=-1), "R D"),
    "cosine": _plain(lambda a, b: F.cosine_similarity(a.float(), b.float(), -1), "R D", "R D"),
    "standardized": _plain(
        lambda x: (x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + 1e-5), "R D"
    ),
    "pooled": _plain(lambda x: F.max_pool2d(x.relu(), 2), "N C E E"),
    "means_of_windows": _plain(lambda x: F.avg_pool2d(x, 3, 1, 1), "N C A A"),
    "enlarged": _plain(lambda x: F.interpolate(x, scale_factor=2.0), "N 64 E E"),
    "enlarged_evenly": _plain(
        lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), "N 32 E E"
    ),
    "mean_of_image": _plain(lambda x: F.adaptive_avg_pool2d(x, 1), "N C A A"),
    "gates_of_channels": _plain(lambda x, s: x * torch.sigmoid(s), "N C A A", "N C 1 1"),
    "best": _plain(lambda x: x.max(1)[0], "N C 1024"),
    "cross_entropy": _plain(lambda x: F.cross_entropy(x.float(), _to_rows(x)), "2048 V"),
    "smoothed": _plain(
        lambda x: F.cross_entropy(x.float(), _to_rows(x), label_smoothing=0.1), "R 1000"
    ),
    "squared_error": _plain(lambda x, y: F.mse_loss(x.float(), y.float()), "R D", "R D"),
    "logistic": _plain(
        lambda x, y: F.binary_cross_entropy_with_logits(x.float(), y.float().sigmoid()),
        *("R 1000", "R 1000"),
    ),
    "ignoring": _plain(lambda x: F.cross_entropy(x.float(), _to_rows(x), ignore_index=7), "512 V"),
    "soft_divergence": _plain(_soft, "512 V", "512 V"),
    "contrast": _plain(_contrast, "Q Q"),
    "triplet": _plain(_triplet, *("R D",) * 3),
    "overlap": _plain(_overlap, *("N 224 224",) * 2),
    "squeezed": _plain(_squeezed, "N C A A"),
    "scaled_layer": _plain(lambda x, y, g: x + g * y, "R D", "R D", "D"),
    "turned_pairs": _plain(_turned_pairs, "B S 16 128", "S 1 64", "S 1 64"),
    "mean_of_words": _plain(lambda x: x.mean(1), "B S H"),
}
"""By name; forward and backward of what networks have beside their products."""
