"""A small Llama trained under `torch.compile`, and what became of it.

python examples/train_llama.py

Regions are fused kernels on a GPU, and their NumPy meaning without one. Attention is torch's.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

import warpsmith
from warpsmith.torch_backend.backend import backend

WORDS, WIDTH, HEADS, LENGTH = 32, 32, 4, 16


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up = (nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, _ = x.shape
        heads = self.qkv(self.first(x)).view(batch, length, 3 * HEADS, -1).transpose(1, 2)
        q, k, v = heads.chunk(3, 1)
        q, k = (rotated(q, cos, sin), rotated(k, cos, sin))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))
        y = self.second(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedded = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.RMSNorm(WIDTH)
        self.logits = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        half = WIDTH // HEADS // 2
        rates = 1e4 ** (-torch.arange(half, device=words.device) / half)
        angles = torch.arange(words.shape[1], device=words.device)[:, None] * rates.repeat(2)
        x = self.embedded(words)
        for block in self.blocks:
            x = block(x, angles.cos(), angles.sin())
        return self.logits(self.norm(x))


def main() -> None:
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Llama().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    fast = torch.compile(model, backend=backend, fullgraph=True)  # or backend="warpsmith"
    text = torch.arange(LENGTH + 1, device=device) * 3 + torch.arange(8, device=device)[:, None]
    losses = []
    for _ in range(40):  # each word is the one before it, plus 3
        logits = fast(text[:, :-1] % WORDS)
        loss = functional.cross_entropy(logits.flatten(0, 1), (text[:, 1:] % WORDS).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(
        f"loss from {losses[0]:.2f} to {losses[-1]:.3f}: {'learned' if losses[-1] < 0.1 else 'no'}"
    )
    print(warpsmith.report(model))


if __name__ == "__main__":
    main()
