"""Small networks of words, sound, graphs and tables, each with its loss. Imports torch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # torch's own name of it

from bench.image_networks import small

# torch is not analysed: what modules are made of is unknown
# mypy: disable-error-code="misc"


# --- sequences ---------------------------------------------------------------------------------


class Mamba(nn.Module):
    """A convolution of four words, gates, and a decay that is summed along the words."""

    def __init__(self, width: int = 768, states: int = 16) -> None:
        super().__init__()
        self.states, inner = states, 2 * width
        self.norm, self.into = nn.RMSNorm(width), nn.Linear(width, 2 * inner, bias=False)
        self.weight, self.bias = (
            nn.Parameter(torch.randn(*s) * 0.1) for s in ((inner, 4), (inner,))
        )
        self.given = nn.Linear(inner, 48 + 2 * states, bias=False)
        self.step, self.out = nn.Linear(48, inner), nn.Linear(inner, width, bias=False)
        self.skip = nn.Parameter(torch.ones(inner))

    def forward(self, x: Tensor) -> Tensor:
        y, gate = self.into(self.norm(x)).chunk(2, -1)
        wide, words = F.pad(y, (0, 0, 3, 0)), x.shape[1]
        parts = [wide[:, k : k + words] * self.weight[:, k] for k in range(4)]
        y = F.silu(sum(parts) + self.bias)
        step, into, out = self.given(y).split([48, self.states, self.states], -1)
        step = F.softplus(self.step(step))
        decay = torch.exp(torch.cumsum(-step.float(), 1).clamp(min=-20)).to(y.dtype)
        seen = y * step * (into.float() * out.float()).sum(-1, keepdim=True) * decay
        return small(x + self.out(((seen + self.skip * y) * F.silu(gate)).to(x.dtype)))


class RWKV(nn.Module):
    def __init__(self, width: int = 768) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.mixes = nn.ParameterList(torch.rand(width) for _ in range(3))
        self.three = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(3))
        self.out = nn.Linear(width, width, bias=False)
        self.wide, self.narrow = (
            nn.Linear(*sizes, bias=False) for sizes in ((width, 3 * width), (3 * width, width))
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[0](x)
        before = F.pad(y, (0, 0, 1, -1))
        pairs = zip(self.three, self.mixes, strict=True)
        k, v, r = (linear(y * mix + before * (1 - mix)) for linear, mix in pairs)
        weight = torch.exp(k.float().clamp(max=10))
        mean = torch.cumsum(weight * v.float(), 1) / torch.cumsum(weight, 1)
        x = x + self.out(torch.sigmoid(r) * mean.to(r.dtype))
        return small(x + self.narrow(F.relu(self.wide(self.norms[1](x))).square()))


class LSTM(nn.Module):
    """Sixteen steps, written out."""

    def __init__(self, width: int = 512) -> None:
        super().__init__()
        self.given = nn.Linear(width, 4 * width)
        self.kept = nn.Linear(width, 4 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        given = self.given(x)
        seen = state = torch.zeros_like(x[:, 0])
        for step in range(16):
            i, f, o, u = (given[:, step] + self.kept(seen)).chunk(4, -1)
            state = torch.sigmoid(f) * state + torch.sigmoid(i) * torch.tanh(u)
            seen = torch.sigmoid(o) * torch.tanh(state)
        return small(seen)


class Wave(nn.Module):
    """The first layers of a network that reads sound."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(1, 256, 10, 5, bias=False), nn.Conv1d(256, 256, 3, 2)
        self.group, self.norm = nn.GroupNorm(256, 256), nn.LayerNorm(256)

    def forward(self, x: Tensor) -> Tensor:
        y = F.gelu(self.second(F.gelu(self.group(self.first(x)))))
        return self.norm(y.transpose(1, 2)).float().abs().mean()


# --- and others --------------------------------------------------------------------------------


class Graph(nn.Module):
    """Messages along edges, and their mean at each node, twice."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        layers = nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width)
        self.message, self.update = nn.Sequential(*layers), nn.Linear(2 * width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        ones = torch.ones_like(target, dtype=x.dtype)
        degree = torch.zeros_like(x[:, 0]).index_add(0, target, ones).clamp(min=1)
        for _ in range(2):
            message = self.message(torch.cat([x[source], x[target]], -1))
            mean = torch.zeros_like(x).index_add(0, target, message) / degree[:, None]
            x = x + F.relu(self.norm(self.update(torch.cat([x, mean], -1))))
        return small(x)


class Clicks(nn.Module):
    """Embeddings of eight features, and the products of all pairs (DLRM)."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.ModuleList(nn.Embedding(20000, 64) for _ in range(8))
        self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(100, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, dense: Tensor, sparse: Tensor, y: Tensor) -> Tensor:
        first = self.bottom(torch.log1p(dense.clamp(min=0)))
        features = [first, *(table(sparse[:, i]) for i, table in enumerate(self.words))]
        all_of = torch.stack(features, 1)
        i, j = torch.tril_indices(9, 9, -1, device=y.device)
        pairs = (all_of @ all_of.transpose(1, 2))[:, i, j]
        found = self.top(torch.cat([first, pairs], 1)).squeeze(1)
        return F.binary_cross_entropy_with_logits(found.float(), y.float())


class Experts(nn.Module):
    """All experts of all words, two of which count."""

    def __init__(self, width: int = 512, count: int = 8) -> None:
        super().__init__()
        self.gate = nn.Linear(width, count, bias=False)
        self.wide = nn.Parameter(torch.randn(count, width, 1024) * 0.02)
        self.narrow = nn.Parameter(torch.randn(count, 1024, width) * 0.02)

    def forward(self, x: Tensor) -> Tensor:
        share = self.gate(x).float().softmax(-1)
        best, places = share.topk(2, -1)
        weights = torch.zeros_like(share).scatter(-1, places, best / best.sum(-1, keepdim=True))
        y = F.silu(torch.einsum("td,edf->etf", x, self.wide))
        y = torch.einsum("etf,efd->etd", y, self.narrow)
        chosen = F.one_hot(places[:, 0], share.shape[1]).float().mean(0)
        balance = share.shape[1] * (share.mean(0) * chosen).sum()
        return small((y * weights.t()[:, :, None].to(y.dtype)).sum(0)) + 0.01 * balance


class Pairs(nn.Module):
    """What belongs together is near, both ways (CLIP)."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = (nn.Linear(n, 512, bias=False) for n in (768, 512))
        self.heat = nn.Parameter(torch.tensor(2.66))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        left, right = F.normalize(self.left(x), dim=-1), F.normalize(self.right(y), dim=-1)
        scores = self.heat.exp() * (left @ right.t()).float()
        places = torch.arange(scores.shape[0], device=x.device)
        return (F.cross_entropy(scores, places) + F.cross_entropy(scores.t(), places)) / 2


class Latent(nn.Module):
    """A variational autoencoder."""

    def __init__(self) -> None:
        super().__init__()
        self.code = nn.Sequential(nn.Linear(784, 1024), nn.LeakyReLU(0.1), nn.Linear(1024, 128))
        self.image = nn.Sequential(nn.Linear(64, 1024), nn.LeakyReLU(0.1), nn.Linear(1024, 784))

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        mean, spread = self.code(x).float().chunk(2, -1)
        found = self.image((mean + torch.exp(0.5 * spread) * noise.float()).to(x.dtype)).float()
        wanted = torch.sigmoid(x.float())
        wrong = F.binary_cross_entropy_with_logits(found, wanted, reduction="none").sum(-1)
        return (wrong - 0.5 * (1 + spread - mean * mean - spread.exp()).sum(-1)).mean()


class Policy(nn.Module):
    """The losses of PPO."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh())
        self.policy, self.value = nn.Linear(256, 12), nn.Linear(256, 1)

    def forward(
        self, seen: Tensor, done: Tensor, before: Tensor, better: Tensor, wanted: Tensor
    ) -> Tensor:
        y = self.body(seen)
        logs = self.policy(y).float().log_softmax(-1)
        ratio = (logs.gather(1, done[:, None]).squeeze(1) - before.float()).exp()
        better = (better.float() - better.float().mean()) / (better.float().std() + 1e-8)
        gain = torch.min(ratio * better, ratio.clamp(0.8, 1.2) * better).mean()
        wrong = F.mse_loss(self.value(y).squeeze(1).float(), wanted.float())
        return 0.5 * wrong - gain + 0.01 * (logs.exp() * logs).sum(-1).mean()


class Points(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        first = nn.Conv1d(6, 64, 1, bias=False), nn.BatchNorm1d(64), nn.ReLU()
        second = nn.Conv1d(64, 256, 1, bias=False), nn.BatchNorm1d(256), nn.ReLU()
        self.body, self.head = nn.Sequential(*first, *second), nn.Linear(256, 40)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self.head(self.body(x).max(2)[0]).float(), y)
