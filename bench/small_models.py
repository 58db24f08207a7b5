"""Models with random weights: those of `transformers` where it is installed, and two written here.

Imports torch, and `transformers` for its models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from math import isqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # torch's own name for it


@dataclass(frozen=True, slots=True)
class Size:
    """How large a model and its input are; heads have `width / heads` elements."""

    width: int
    inner: int
    heads: int
    groups: int
    layers: int
    words: int
    batch: int
    length: int


TINY = Size(32, 64, 4, 2, 2, 96, 2, 16)
REAL = Size(4096, 14336, 32, 8, 2, 32000, 2, 2048)


class _Block(nn.Module):  # type: ignore[misc]  # torch is not analysed
    """A layer of Llama's: attention of grouped heads with rotary places, then SwiGLU."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        self.head = size.width // size.heads
        inner = (size.heads + 2 * size.groups) * self.head
        self.first, self.second = nn.RMSNorm(size.width), nn.RMSNorm(size.width)
        self.qkv = nn.Linear(size.width, inner, bias=False)
        self.out = nn.Linear(size.width, size.width, bias=False)
        self.gate = nn.Linear(size.width, size.inner, bias=False)
        self.up = nn.Linear(size.width, size.inner, bias=False)
        self.down = nn.Linear(size.inner, size.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = self.heads_of(x, cos, sin)
        k, v = (t.repeat_interleave(self.size.heads // self.size.groups, 1) for t in (k, v))
        return self.behind(x, F.scaled_dot_product_attention(q, k, v, is_causal=True))

    def heads_of(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values."""
        batch, length, _ = x.shape
        groups = self.size.groups
        heads = self.qkv(self.first(x)).view(batch, length, -1, self.head).transpose(1, 2)
        q, k, v = heads.split([self.size.heads, groups, groups], 1)
        return q * cos + turned(q) * sin, k * cos + turned(k) * sin, v

    def behind(self, x: Tensor, attended: Tensor) -> Tensor:
        """What a layer that reads x gives where attention gave that."""
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        y = self.second(x)
        result: Tensor = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return result


def turned(x: Tensor) -> Tensor:
    """Rows whose second half, negated, comes first: what rotary places add to them."""
    left, right = x.chunk(2, -1)
    return torch.cat([-right, left], -1)


class Llama(nn.Module):  # type: ignore[misc]  # torch is not analysed
    """The mean loss of next words under a small Llama."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedded = nn.Embedding(size.words, size.width)
        self.blocks = nn.ModuleList(_Block(size) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.width)
        self.logits = nn.Linear(size.width, size.words, bias=False)
        head = size.width // size.heads
        rates = 10000 ** (-torch.arange(0, head, 2) / head)
        self.register_buffer("rates", rates.float(), persistent=False)

    def forward(self, words: Tensor) -> Tensor:
        angles = torch.arange(words.shape[1], device=words.device)[:, None] * self.rates.float()
        angles = torch.cat([angles, angles], -1)
        x = self.embedded(words)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        logits = self.logits(self.norm(x))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), words[:, 1:].flatten())


class _KeepingBlock(_Block):
    """A layer of Llama's that keeps keys and values, and attends to all that are kept."""

    def __init__(self, size: Size, room: int) -> None:
        super().__init__(size)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(size.batch, size.groups, room, self.head))

    def following(self, x: Tensor, cos: Tensor, sin: Tensor, place: Tensor) -> Tensor:
        """The layer's results for words that come at a place of those that are kept."""
        q, k, v = self.heads_of(x, cos, sin)
        self.keys.index_copy_(2, place, k)
        self.values.index_copy_(2, place, v)
        y = F.scaled_dot_product_attention(q, self.keys, self.values, enable_gqa=True)
        return self.behind(x, y)


class Generator(nn.Module):  # type: ignore[misc]  # torch is not analysed
    """Logits of the next words under a small Llama with room for so many keys and values."""

    def __init__(self, size: Size, room: int) -> None:
        super().__init__()
        self.embedded = nn.Embedding(size.words, size.width)
        self.blocks = nn.ModuleList(_KeepingBlock(size, room) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.width)
        self.logits = nn.Linear(size.width, size.words, bias=False)
        self.head = size.width // size.heads

    def forward(self, words: Tensor, place: Tensor) -> Tensor:
        even = torch.arange(0, self.head, 2, device=words.device)
        angles = place[:, None] * 10000 ** (-even / self.head)
        angles = torch.cat([angles, angles], -1)
        x = self.embedded(words)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for block in self.blocks:
            x = block.following(x, cos, sin, place)
        logits: Tensor = self.logits(self.norm(x))
        return logits


class Encoder(nn.Module):  # type: ignore[misc]  # torch is not analysed
    """The mean loss of words under layers with LayerNorm, biases and GELU, as BERT's."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            size.width, size.heads, size.inner, 0.0, "gelu", batch_first=True
        )
        self.embedded = nn.Embedding(size.words, size.width)
        self.blocks = nn.TransformerEncoder(layer, size.layers, enable_nested_tensor=False)
        self.logits = nn.Linear(size.width, size.words)

    def forward(self, words: Tensor) -> Tensor:
        logits = self.logits(self.blocks(self.embedded(words)))
        return F.cross_entropy(logits.flatten(0, 1).float(), words.flatten())


def made(name: str, size: Size) -> tuple[nn.Module, Mapping[str, Tensor]]:
    """A model whose call gives a loss, or something with a `loss`; and the arguments of a call."""
    words = torch.randint(0, size.words, (size.batch, size.length))
    if name in OWN:
        return OWN[name](size), {"words": words}
    import transformers

    own = {
        "hidden_size": size.width,
        "intermediate_size": size.inner,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
    }
    side = 8 * isqrt(size.length)
    dry = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    grouped = {**own, "vocab_size": size.words, "num_key_value_heads": size.groups}
    of: dict[str, tuple[str, str, dict[str, Any]]] = {
        "gpt2": (
            "GPT2LMHeadModel",
            "GPT2Config",
            {
                "n_embd": size.width,
                "n_inner": size.inner,
                "n_layer": size.layers,
                "n_head": size.heads,
                "n_positions": size.length,
                "vocab_size": size.words,
                "resid_pdrop": 0.0,
                "embd_pdrop": 0.0,
                "attn_pdrop": 0.0,
            },
        ),
        "llama": ("LlamaForCausalLM", "LlamaConfig", grouped),
        "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", grouped),
        "mistral": ("MistralForCausalLM", "MistralConfig", grouped),
        "bert": (
            "BertForMaskedLM",
            "BertConfig",
            {**own, **dry, "vocab_size": size.words, "max_position_embeddings": size.length},
        ),
        "t5": (
            "T5ForConditionalGeneration",
            "T5Config",
            {
                "d_model": size.width,
                "d_kv": size.width // size.heads,
                "d_ff": size.inner,
                "num_layers": size.layers,
                "num_heads": size.heads,
                "vocab_size": size.words,
                "dropout_rate": 0.0,
                "decoder_start_token_id": 0,
            },
        ),
        "vit": (
            "ViTForImageClassification",
            "ViTConfig",
            {**own, **dry, "image_size": side, "patch_size": 8, "num_labels": 10},
        ),
        "mixtral": ("MixtralForCausalLM", "MixtralConfig", {**grouped, "num_local_experts": 4}),
    }
    model, config, values = of[name]
    found = getattr(transformers, model)(getattr(transformers, config)(**values))
    if name == "vit":
        labels = torch.randint(0, 10, (size.batch,))
        return found, {"pixel_values": torch.randn(size.batch, 3, side, side), "labels": labels}
    return found, {"input_ids": words, "labels": words}


OWN: Mapping[str, Callable[[Size], nn.Module]] = {"own_llama": Llama, "own_encoder": Encoder}
NAMES = (
    *OWN,
    *(
        ("gpt2", "llama", "qwen2", "mistral", "bert", "t5", "vit", "mixtral")
        if find_spec("transformers")
        else ()
    ),
)
"""Models that can be made here."""


def loss_of(result: Any) -> Tensor:
    """What is minimized."""
    found: Tensor = result if isinstance(result, Tensor) else result.loss
    return found
