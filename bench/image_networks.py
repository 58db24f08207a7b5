"""Small networks of images, as people write them, each with its loss. Imports torch."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # torch's own name of it

# torch is not analysed: what modules are made of is unknown
# mypy: disable-error-code="misc"


def small(x: Tensor) -> Tensor:
    """A loss where what is computed does not matter."""
    return x.float().pow(2).mean()


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(x + self.norms[1](self.second(y)))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()
        self.stem = nn.Sequential(*stem, nn.MaxPool2d(3, 2, 1))
        self.body = nn.Sequential(_Residual(64), nn.Conv2d(64, 128, 1, 2), _Residual(128))
        self.head = nn.Linear(128, 1000)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        found = self.head(self.body(self.stem(x)).mean((2, 3)))
        return F.cross_entropy(found.float(), y, label_smoothing=0.1)


class ConvNeXt(nn.Module):
    def __init__(self, width: int = 96) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, 4)
        self.deep = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.norm(self.deep(x).permute(0, 2, 3, 1))
        y = self.scale * self.narrow(F.gelu(self.wide(y)))
        return small(x + y.permute(0, 3, 1, 2))


class EfficientNet(nn.Module):
    def __init__(self, width: int = 64, inner: int = 384) -> None:
        super().__init__()
        self.wide = nn.Conv2d(width, inner, 1, bias=False)
        self.deep = nn.Conv2d(inner, inner, 3, padding=1, groups=inner, bias=False)
        self.narrow = nn.Conv2d(inner, width, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in (inner, inner, width))
        self.down, self.up = nn.Conv2d(inner, 16, 1), nn.Conv2d(16, inner, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.silu(self.norms[0](self.wide(x)))
        y = F.silu(self.norms[1](self.deep(y)))
        gate = self.up(F.silu(self.down(y.mean((2, 3), keepdim=True))))
        return small(x + self.norms[2](self.narrow(y * torch.sigmoid(gate))))


class _Block(nn.Module):
    """Two convolutions behind group norms, of which the second is moved by the time."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(32, width) for _ in range(2))
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.time = nn.Linear(256, 2 * width)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        scale, shift = self.time(F.silu(time))[:, :, None, None].chunk(2, 1)
        y = self.convs[0](F.silu(self.norms[0](x)))
        return x + self.convs[1](F.silu(self.norms[1](y) * (1 + scale) + shift))


class UNet(nn.Module):
    """One level of a network that takes noise away."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(4, width, 3, padding=1), nn.Conv2d(width, 4, 3, padding=1)
        self.outer, self.inner = _Block(width), _Block(width)
        self.down, self.up = nn.Conv2d(width, width, 3, 2, 1), nn.Conv2d(2 * width, width, 1)
        self.time = nn.Sequential(nn.Linear(256, 256), nn.SiLU(), nn.Linear(256, 256))
        self.norm, self.heads = nn.GroupNorm(32, width), nn.Conv2d(width, 3 * width, 1)

    def forward(self, x: Tensor, times: Tensor, noise: Tensor) -> Tensor:
        speeds = torch.exp(-math.log(10000) * torch.arange(128, device=x.device) / 128)
        angles = times[:, None].float() * speeds
        time = self.time(torch.cat([angles.cos(), angles.sin()], -1).to(x.dtype))
        outer = self.outer(self.first(x), time)
        inner = self.inner(self.down(outer), time)
        count, width, height, _ = inner.shape
        heads = self.heads(self.norm(inner)).view(count, 3, 4, width // 4, -1)
        q, k, v = heads.transpose(-1, -2).unbind(1)
        seen = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2)
        inner = inner + seen.reshape(count, width, height, -1)
        both = torch.cat([F.interpolate(inner, scale_factor=2.0), outer], 1)
        return F.mse_loss(self.last(F.silu(self.up(both))).float(), noise.float())


class Swin(nn.Module):
    """Attention in windows of 7 by 7, which are moved by 3."""

    def __init__(self, width: int = 192, heads: int = 6) -> None:
        super().__init__()
        self.count = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.heads, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros(heads, 49, 49))
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, h, w, c = x.shape
        y = torch.roll(self.norms[0](x), (-3, -3), (1, 2)).view(n, h // 7, 7, w // 7, 7, c)
        heads = self.heads(y.transpose(2, 3).reshape(-1, 49, c))
        q, k, v = heads.view(-1, 49, 3, self.count, c // self.count).permute(2, 0, 3, 1, 4).unbind()
        seen = ((q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1]) + self.bias).softmax(-1) @ v
        y = self.out(seen.transpose(1, 2).reshape(-1, 49, c)).view(n, h // 7, w // 7, 7, 7, c)
        x = x + torch.roll(y.transpose(2, 3).reshape(n, h, w, c), (3, 3), (1, 2))
        return small(x + self.narrow(F.gelu(self.wide(self.norms[1](x)))))


class Mixer(nn.Module):
    """Tokens are mixed, and then channels."""

    def __init__(self, tokens: int = 196, width: int = 512) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.tokens = nn.Sequential(nn.Linear(tokens, 384), nn.GELU(), nn.Linear(384, tokens))
        self.width = nn.Sequential(nn.Linear(width, 2048), nn.GELU(), nn.Linear(2048, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return small(x + self.width(self.norms[1](x)))


class DiT(nn.Module):
    """A block whose norms are moved by what is given beside images."""

    def __init__(self, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.count = heads
        self.moves = nn.Linear(width, 6 * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.heads, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, given: Tensor) -> Tensor:
        a, b, c, d, e, f = self.moves(F.silu(given))[:, None].chunk(6, -1)
        heads = self.heads(self.norm(x) * (1 + a) + b).unflatten(-1, (3, self.count, -1))
        seen = F.scaled_dot_product_attention(*heads.permute(2, 0, 3, 1, 4).unbind())
        x = x + c * self.out(seen.transpose(1, 2).reshape(x.shape))
        y = self.wide(self.norm(x) * (1 + d) + e)
        return small(x + f * self.narrow(F.gelu(y, approximate="tanh")))
