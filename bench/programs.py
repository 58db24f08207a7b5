"""Programs that people write around their products: each a function of tensors, with their shapes.

A shape is said in letters, whose numbers a seed draws, and in numbers. Imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  # torch's own name of it

from bench.small_models import turned

LETTERS: Mapping[str, tuple[int, int, int]] = {
    "B": (2, 16, 1),  # sequences
    "S": (256, 2048, 8),  # words of each
    "H": (1024, 4096, 128),  # numbers of a word
    "R": (2048, 16384, 1),  # rows
    "D": (256, 8192, 8),  # columns
    "O": (257, 8191, 1),  # columns of any number
    "V": (10_000, 60_000, 1),  # words of a language
    "N": (8, 64, 1),  # images
    "C": (32, 512, 32),  # channels
    "A": (7, 64, 1),  # sides of images
    "E": (14, 56, 2),  # even ones
    "F": (1, 16, 1),  # few rows
    "L": (20_000, 200_000, 1),  # long ones
    "M": (50_000, 500_000, 1),  # many rows
    "T": (3, 64, 1),  # short ones
    "Q": (512, 4096, 1),  # pairs of all with all
}
"""From which number to which other each is drawn, evenly by its logarithm, and a step of it."""

MOST = 2**26
"""Elements of the largest tensor of a program."""


INTEGERS = {"byte": torch.uint8, "int8": torch.int8, "int": torch.int64}


@dataclass(frozen=True, slots=True)
class Program:
    """A function, and shapes of its arguments in letters and numbers, apart by spaces.

    An argument of integers says so, and below which number they are: `"R int 1000"`.
    """

    function: Callable[..., Any]
    shapes: tuple[str, ...]
    dtype: torch.dtype = torch.bfloat16

    def draw(self, source: Random, device: str = "cuda") -> list[Tensor]:
        """Arguments of sizes that the source says."""
        while True:
            drawn = {letter: str(_number(source, *said)) for letter, said in LETTERS.items()}
            words = [[drawn.get(word, word) for word in shape.split()] for shape in self.shapes]
            inputs = [self._tensor(each, "meta") for each in words]
            if all(x.numel() <= MOST for x in inputs):
                return inputs if device == "meta" else [self._tensor(w, device) for w in words]

    def _tensor(self, words: list[str], device: str) -> Tensor:
        kind = next((word for word in words if word in INTEGERS), None)
        if kind is None:
            return torch.randn([*map(int, words)], device=device).to(self.dtype)
        place = words.index(kind)
        shape, below = words[:place], int(words[place + 1])
        return torch.randint(below, [*map(int, shape)], device=device, dtype=INTEGERS[kind])


def _number(source: Random, least: int, most: int, step: int) -> int:
    drawn: float = least * (most / least) ** source.random()
    return max(step, round(drawn / step) * step)


def of(function: Callable[..., Any], *shapes: str, dtype: torch.dtype = torch.bfloat16) -> Program:
    return Program(function, shapes, dtype)


def _gated(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def _pairs(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def _root_mean(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float()
    normal = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    return (normal * (1 + weight.float())).to(x.dtype)


def _of_channels(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    apart = x - x.mean(1, keepdim=True)
    normal = apart / torch.sqrt(apart.square().mean(1, keepdim=True) + 1e-6)
    return normal * weight[:, None, None] + bias[:, None, None]


def _batch_norm(x: Tensor, mean: Tensor, spread: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.relu(F.batch_norm(x, mean, spread.abs(), weight, bias))


def _narrowed(x: Tensor) -> tuple[Tensor, Tensor]:
    parts = x.view(x.shape[0], -1, 128).float()
    scale = parts.abs().amax(-1, keepdim=True) / 448
    return (parts / scale).to(torch.float8_e4m3fn).view(x.shape), scale


def _whole(x: Tensor) -> tuple[Tensor, Tensor]:
    scale = x.abs().amax(-1, keepdim=True).float() / 127
    return torch.clamp(torch.round(x.float() / scale), -128, 127).to(torch.int8), scale


def _causal(scores: Tensor) -> Tensor:
    places = torch.arange(scores.shape[-1], device=scores.device)
    kept = places[:, None] >= places
    return torch.softmax(torch.where(kept, scores, float("-inf")), -1)


def _halved(x: Tensor) -> Tensor:
    return x.unflatten(3, (-1, 2)).unflatten(2, (-1, 2)).mean((3, 5))


def _adam(p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v.abs() + 0.001 * g * g
    return p - 1e-3 * m / (v.sqrt() + 1e-8), m, v


def _lion(p: Tensor, g: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
    return p * 0.999 - 1e-4 * torch.sign(0.9 * m + 0.1 * g), 0.99 * m + 0.01 * g


def _alike(a: Tensor, b: Tensor) -> Tensor:
    a, b = ((t - t.mean(0)) / t.std(0) for t in (a, b))
    return a.T @ b / a.shape[0]


def _pixels(x: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    return ((x.float() / 255 - mean) / (deviation.abs() + 0.1)).to(torch.bfloat16)


def _diverging(p: Tensor, q: Tensor) -> Tensor:
    found, wanted = (F.log_softmax(t.float(), -1) for t in (p, q))
    return F.kl_div(found, wanted, log_target=True, reduction="batchmean")


def _clipped(x: Tensor) -> Tensor:
    return x * torch.clamp(1 / (x.float().norm() + 1e-6), max=1)


def _halves(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x[:, :half] * torch.sigmoid(x[:, half : 2 * half])


def _differences(x: Tensor) -> Tensor:
    return x[:, 1:] - x[:, :-1]


def _distances(a: Tensor, b: Tensor) -> Tensor:
    return (a[:, None] - b).square().sum(-1).sqrt()


def _overlaps(a: Tensor, b: Tensor) -> Tensor:
    """Of all pairs of boxes, what both have over what one has."""

    def area(box: Tensor) -> Tensor:
        return (box[..., 2] - box[..., 0]) * (box[..., 3] - box[..., 1])

    a = a[:, None]
    first, last = torch.maximum(a[..., :2], b[:, :2]), torch.minimum(a[..., 2:], b[:, 2:])
    sides = (last - first).clamp(min=0)
    both = sides[..., 0] * sides[..., 1]
    return both / (area(a) + area(b) - both)


def _windows(x: Tensor) -> Tensor:
    x = x.roll((-3, -3), (1, 2)).unflatten(2, (-1, 7)).unflatten(1, (-1, 7))
    return x.permute(0, 1, 3, 2, 4, 5).flatten(0, 2).flatten(1, 2)


def _merged(x: Tensor) -> Tensor:
    return torch.cat([x[:, i::2, j::2] for j in range(2) for i in range(2)], -1)


def _blurred(x: Tensor) -> Tensor:
    wide, (h, w) = F.pad(x, (1, 1, 1, 1)), x.shape[-2:]
    parts = [wide[..., i : i + h, j : j + w] for i in range(3) for j in range(3)]
    return sum(parts[1:], parts[0]) / 9


def _gray(x: Tensor) -> Tensor:
    return 0.299 * x[..., 0] + 0.587 * x[..., 1] + 0.114 * x[..., 2]


def _lengths(x: Tensor) -> Tensor:
    real, imaginary = x[..., 0], x[..., 1]
    return torch.sqrt(real * real + imaginary * imaginary)


def _causal_sums(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """A convolution of each channel with the three words before, as Mamba has it."""
    wide, words = F.pad(x, (0, 0, 3, 0)), x.shape[1]
    return F.silu(sum((wide[:, k : k + words] * w[k] for k in range(4)), b))


def _normed_last(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x.permute(0, 2, 3, 1), w.shape, w, b)


def _groups_by_hand(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    rows = x.view(x.shape[0], 32, -1)
    variance, mean = torch.var_mean(rows, -1, correction=0, keepdim=True)
    normal = ((rows - mean) / torch.sqrt(variance + 1e-5)).view(x.shape)
    return normal * w[:, None, None] + b[:, None, None]


def _squeezed(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x.mean((2, 3), keepdim=True))


def _overlap(x: Tensor, y: Tensor) -> Tensor:
    p, y = x.float().sigmoid().flatten(1), y.float().flatten(1)
    return 1 - ((2 * (p * y).sum(1) + 1) / (p.sum(1) + y.sum(1) + 1)).mean()


def _length_of_all(*gradients: Tensor) -> Tensor:
    return torch.stack([g.float().norm() for g in gradients]).norm()


def _masked_mean(x: Tensor, kept: Tensor) -> Tensor:
    mask = (kept > 2)[..., None]
    return (x.float() * mask).sum(1) / mask.sum(1).clamp(min=1)


def _contrast(scores: Tensor) -> Tensor:
    wide, places = scores.float() / 0.07, torch.arange(scores.shape[0], device=scores.device)
    return (F.cross_entropy(wide, places) + F.cross_entropy(wide.T, places)) / 2


def _triplet(a: Tensor, p: Tensor, n: Tensor) -> Tensor:
    near, far = ((a.float() - t.float()).square().sum(-1).sqrt() for t in (p, n))
    return F.relu(near - far + 1).mean()


def _soft(p: Tensor, q: Tensor) -> Tensor:
    found = F.log_softmax(p.float() / 2, -1)
    return F.kl_div(found, F.softmax(q.float() / 2, -1), reduction="batchmean")


PROGRAMS: Mapping[str, Program] = {
    # activations and gates
    "bias_gelu": of(lambda x, b: F.gelu(x + b, approximate="tanh"), "R D", "D"),
    "gated": of(_gated, "R 11264"),
    "softcap": of(lambda x: torch.tanh(x / 30) * 30, "512 V"),
    "leaky": of(lambda x: F.leaky_relu(x), "R O"),
    "hardswish": of(lambda x: x * F.relu6(x + 3) / 6, "N C A A"),
    "lion": of(_lion, "R D", "R D", "R D"),
    "alike": of(_alike, "Q C", "Q C", dtype=torch.float32),
    # words
    "add_norm": of(
        lambda x, y, w, b: F.layer_norm(x + y, x.shape[-1:], w, b), "R D", "R D", "D", "D"
    ),
    "gemma_norm": of(_root_mean, "R D", "D"),
    "odd_norm": of(lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6), "R O", "O"),
    "scale_and_shift": of(
        lambda x, s, b: F.layer_norm(x, x.shape[-1:]) * (1 + s) + b, "B S H", "B 1 H", "B 1 H"
    ),
    "heads": of(
        lambda x, b: (x + b).unflatten(-1, (-1, 128)).transpose(1, 2).contiguous(), "B S H", "H"
    ),
    "rotated": of(lambda q, c, s: q * c + turned(q) * s, "B 16 S 128", "S 128", "S 128"),
    "rotated_pairs": of(_pairs, "B S 16 128", "S 1 64", "S 1 64"),
    "head_norm": of(lambda q, w: F.rms_norm(q, (128,), w, 1e-6), "B S 16 128", "128"),
    "masked_scores": of(
        lambda s, b, m: torch.softmax(s * 0.125 + b + m, -1),
        *("B 12 512 512", "1 12 512 512", "B 1 1 512"),
    ),
    "causal_scores": of(_causal, "B 8 512 512"),
    "shifted": of(lambda x, m: x * m + F.pad(x, (0, 0, 1, -1)) * (1 - m), "B S H", "H"),
    "embedded": of(
        lambda i, e, p, w, b: F.layer_norm(e[i] + p, e.shape[-1:], w, b),
        *("B S int 30000", "30000 H", "S H", "H", "H"),
    ),
    "probabilities": of(lambda x: torch.softmax(x.float() / 0.7, -1), "256 V"),
    "entropy": of(lambda x: torch.special.entr(torch.softmax(x.float(), -1)).sum(-1), "512 V"),
    "log_sum": of(lambda x: torch.logsumexp(x.float(), -1), "256 V"),
    "best_word": of(lambda x: x.argmax(-1), "256 V"),
    # images
    "batch_norm": of(_batch_norm, "N C A A", "C", "C", "C", "C"),
    "group_norm": of(lambda x, w, b: F.silu(F.group_norm(x, 32, w, b)), "N C E E", "C", "C"),
    "instance_norm": of(lambda x: F.relu(F.instance_norm(x)), "N C E E"),
    "channel_norm": of(_of_channels, "N C E E", "C", "C"),
    "gates_of_channels": of(lambda x, s: x * torch.sigmoid(s), "N C A A", "N C 1 1"),
    "mean_of_image": of(lambda x: x.mean((2, 3)), "N C A A"),
    "mean_and_best": of(lambda x: torch.cat((x.mean(1, True), x.amax(1, True)), 1), "N C E E"),
    "pixels": of(_pixels, "N 3 224 224 byte 256", "1 3 1 1", "1 3 1 1", dtype=torch.float32),
    "pixels_last": of(_pixels, "N 224 224 3 byte 256", "3", "3", dtype=torch.float32),
    "channels_last": of(lambda x, b: (x + b).permute(0, 2, 3, 1).contiguous(), "N C E E", "C 1 1"),
    "channels_first": of(lambda x, b: (x + b).permute(0, 3, 1, 2).contiguous(), "N E E C", "C"),
    "shuffled": of(lambda x: F.pixel_shuffle(x, 2), "N C E E"),
    "pooled": of(lambda x: F.max_pool2d(x.relu(), 2), "N C E E"),
    "means_of_windows": of(lambda x: F.avg_pool2d(x, 3, 1, 1), "N C A A"),
    "pooled_sound": of(lambda x: F.max_pool1d(x, 4), "N C 4000"),
    "enlarged": of(lambda x: F.interpolate(x, scale_factor=2.0), "N 64 E E"),
    "halved": of(_halved, "N C E E"),
    "noisy": of(lambda x, n, a, b: a * x + b * n, *("N 16 E E",) * 2, *("N 1 1 1",) * 2),
    "channel_norm_last": of(_normed_last, "N C E E", "C", "C"),
    "group_norm_by_hand": of(_groups_by_hand, "N 320 E E", "320", "320"),
    # parts and places
    "odd_halves": of(_halves, "R O"),
    "differences": of(_differences, "R O"),
    "lengths_of_pairs": of(_lengths, "R D 2"),
    "distances": of(_distances, "R 3", "2048 3", dtype=torch.float32),
    "overlaps": of(_overlaps, "R 4", "1000 4", dtype=torch.float32),
    "windows": of(_windows, "N 56 56 C"),
    "merged_patches": of(_merged, "N E E C"),
    "blurred": of(_blurred, "N 3 O 240"),
    "gray": of(_gray, "N O 240 3"),
    "causal_sums": of(_causal_sums, "B S H", "4 H", "H"),
    # sums, lengths and losses
    "sums_of_columns": of(lambda x: x.float().sum(0), "R D"),
    "sums_of_odd_columns": of(lambda x: x.float().sum(0), "R O"),
    "standardized": of(lambda x: (x - x.mean(0)) / (x.std(0) + 1e-5), "R D"),
    "unit": of(lambda x: F.normalize(x, dim=-1), "R D"),
    "cosine": of(lambda a, b: F.cosine_similarity(a.float(), b.float(), -1), "R D", "R D"),
    "clipped": of(_clipped, "R D"),
    "running_sum": of(lambda x: x.float().cumsum(-1), "R 1024"),
    "squared_error": of(lambda x, y: F.mse_loss(x.float(), y.float()), "R D", "R D"),
    "cross_entropy": of(lambda x, y: F.cross_entropy(x.float(), y), "R 1000", "R int 1000"),
    "divergence": of(_diverging, "512 32000", "512 32000"),
    "log_probability": of(
        lambda x, m, s: (-0.5 * ((x - m) / s.exp()) ** 2 - s).sum(-1), *("R D",) * 3
    ),
    "log_sum_odd": of(lambda x: torch.logsumexp(x.float(), -1), "R O"),
    "ignoring": of(
        lambda x, y: F.cross_entropy(x.float(), y, ignore_index=7), "512 V", "512 int 10000"
    ),
    "soft_divergence": of(_soft, "512 V", "512 V"),
    "contrast": of(_contrast, "Q Q"),
    "triplet": of(_triplet, *("R D",) * 3),
    "overlap": of(_overlap, *("N 224 224",) * 2),
    "accuracy": of(lambda x, y: (x.argmax(-1) == y).float().mean(), "R 1000", "R int 1000"),
    # reductions
    "mean_of_words": of(lambda x: x.mean(1), "B S H"),
    "masked_mean": of(_masked_mean, "B S H", "B S int 4"),
    "sums_both_ways": of(lambda x: (x.float().sum(0), x.float().sum(1)), "R D"),
    "spread_of_channels": of(lambda x: torch.var_mean(x.float(), (0, 2, 3)), "N C A A"),
    "spread_of_rows": of(lambda x: x.float().std(-1), "R O"),
    "sums_of_planes": of(lambda x: x.sum((2, 3)), "N C A A", dtype=torch.float32),
    "squeezed": of(_squeezed, "N C A A"),
    "best_and_where": of(lambda x: x.max(-1), "R O"),
    "widest_few": of(lambda x: x.abs().amax(1), "F L"),
    "widest_many": of(lambda x: x.abs().amax(1), "M T"),
    "widest_of_all": of(lambda x: x.abs().amax(), "R D"),
    "length_of_all": of(_length_of_all, "4096 H", "H", "H 4096", "4096", "H H", "H"),
    "any_beyond": of(lambda x: (x.abs() > 4).any(-1), "R O"),
    "all_finite": of(lambda x: torch.isfinite(x).all(), "R D"),
    "normed_weight": of(lambda v, g: v * (g / v.float().norm(dim=1, keepdim=True)), "H D", "H 1"),
    # types and optimizers
    "float8_by_blocks": of(_narrowed, "R H"),
    "int8_by_rows": of(_whole, "R D"),
    "from_int8": of(lambda q, s: q.float() * s, "R D int8 100", "R 1"),
    "adam": of(_adam, *("R 1024",) * 4, dtype=torch.float32),
    "average": of(lambda a, b: a.lerp(b, 0.01), "R O", "R O", dtype=torch.float32),
}
"""By name; what a program of transformers, diffusion and images has beside its products."""
