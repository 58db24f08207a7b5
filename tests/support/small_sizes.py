"""Programs with symbolic extents beside what PyTorch makes of them, and calls of any sizes.

A letter of `Case.inputs` is a dimension, whose extent each call draws; `1` is a dimension that is 1
by definition.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tests.support.against_torch import TORCH
from warpsmith import ops
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.dtypes import DataType

EXTENTS = (0, 1, 2, 3, 7, 8, 64, 129)

ANY_STRIDES = (0, 1, 5, 16, 1000003)
"""What a dimension that nothing walks may have."""

Layout = tuple[tuple[int, ...], tuple[bool, ...]]
"""Dimensions of a tensor from the fastest to the slowest, and by dimension, whether it has gaps."""


@dataclass(frozen=True)
class Case:
    """A program, and its peer of torch tensors."""

    name: str
    inputs: tuple[str, ...]
    program: Callable[..., Any]
    peer: Callable[..., Any]
    dtype: DataType = DataType.Float
    tolerance: float = 2e-3


def defined(
    case: Case, choice: random.Random, *, gaps: bool
) -> tuple[FusionDefinition, tuple[Layout, ...]]:
    """The program, row-major without gaps, or with `gaps` in layouts that are drawn."""
    layouts: list[Layout] = []
    with FusionDefinition() as fd:
        tensors = []
        for letters in case.inputs:
            rank = len(letters)
            order = list(range(rank))
            choice.shuffle(order)
            order = order if gaps else list(reversed(range(rank)))
            apart = tuple(gaps and choice.random() < 0.5 for _ in letters)
            layouts.append((tuple(order), apart))
            flags = [None if letters[d] == "1" else not apart[d] for d in reversed(order)]
            tensors.append(
                fd.define_tensor(
                    [1 if letter == "1" else -1 for letter in letters],
                    contiguity=flags,
                    dtype=case.dtype,
                    stride_order=[order.index(d) for d in range(rank)] or None,
                )
            )
        results = case.program(*tensors)
        for result in results if isinstance(results, tuple) else (results,):
            fd.add_output(result)
    return fd, tuple(layouts)


def drawn(case: Case, choice: random.Random) -> dict[str, int]:
    """An extent for each of the program's dimensions."""
    letters = sorted(set("".join(case.inputs)) - {"1"})
    extents = EXTENTS if len(letters) < 3 else EXTENTS[:-1]
    return {letter: 1 if choice.random() < 0.2 else choice.choice(extents) for letter in letters}


def arguments(
    case: Case, layouts: Sequence[Layout], sizes: dict[str, int], choice: random.Random
) -> list[torch.Tensor]:
    """Arrays of these sizes; where nothing walks a dimension, its stride may be anything."""
    return [
        _array(
            tuple(1 if letter == "1" else sizes[letter] for letter in letters), layout, case, choice
        )
        for letters, layout in zip(case.inputs, layouts, strict=True)
    ]


def _array(
    shape: tuple[int, ...], layout: Layout, case: Case, choice: random.Random
) -> torch.Tensor:
    strides = [0] * len(shape)
    step = 1
    for d in layout[0]:
        if layout[1][d] and shape[d] != 1:
            step = step * choice.choice((1, 2, 3)) + choice.choice((0, 0, 1, 4))
        strides[d] = step
        step *= max(shape[d], 1)
    generator = torch.Generator().manual_seed(choice.randrange(2**31))
    flat = torch.randn(step, generator=generator) * 3
    flat = flat.to(TORCH[case.dtype])
    for d, extent in enumerate(shape):
        if (extent == 1 or 0 in shape) and choice.random() < 0.5:
            strides[d] = choice.choice(ANY_STRIDES)
    return flat.as_strided(shape, strides)


def _layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    variance, mean = ops.var_mean(x, [1], 0, True)
    return (x - mean) * ops.rsqrt(variance + 1e-5) * weight + bias


def _torch_layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    variance, mean = torch.var_mean(wide, dim=1, correction=0, keepdim=True)
    return ((wide - mean) * torch.rsqrt(variance + 1e-5) * weight + bias).to(x.dtype)


def _layer_norm_backward(dy: Any, x: Any, mean: Any, scale: Any, weight: Any) -> Any:
    normal, given = (x - mean) * scale, dy * weight
    inner = given - normal * ops.mean(given * normal, [1], keepdim=True)
    dx = (inner - ops.mean(given, [1], keepdim=True)) * scale
    return dx, ops.sum(dy * normal, [0]), ops.sum(dy, [0])


def _torch_layer_norm_backward(
    dy: torch.Tensor, x: torch.Tensor, mean: torch.Tensor, scale: torch.Tensor, w: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    normal, given = (x - mean) * scale, dy * w
    inner = given - normal * (given * normal).mean(1, keepdim=True)
    dx = (inner - given.mean(1, keepdim=True)) * scale
    return dx, (dy * normal).sum(0), dy.sum(0)


def _standardized(*dims: int) -> Callable[[Any], Any]:
    def program(x: Any) -> Any:
        variance, mean = ops.var_mean(x, dims, 0, True)
        return (x - mean) * ops.rsqrt(variance + 1e-5)

    return program


def _torch_standardized(*dims: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def peer(x: torch.Tensor) -> torch.Tensor:
        variance, mean = torch.var_mean(x, dim=dims, correction=0, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + 1e-5)

    return peer


def _softmax(dim: int) -> Callable[[Any], Any]:
    def program(x: Any) -> Any:
        powers = ops.exp(x - ops.max(x, [dim], keepdim=True))
        return powers / ops.sum(powers, [dim], keepdim=True)

    return program


def _torch_softmax(dim: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: torch.softmax(x - x.amax(dim, keepdim=True), dim)


CASES = (
    Case("add", ("nm", "nm"), lambda x, y: x + y, lambda x, y: x + y),
    Case(
        "row", ("nm", "m"), lambda x, y: x * 2 + y, lambda x, y: x * 2 + y, DataType.BFloat16, 2e-2
    ),
    Case("column", ("nm", "n1"), lambda x, y: x - y, lambda x, y: x - y),
    Case("outer", ("n1", "1m"), lambda x, y: x * y, lambda x, y: x * y),
    Case("middle", ("nmk", "n1k"), lambda x, y: x + y, lambda x, y: x + y),
    Case("no dimension", ("nm", ""), lambda x, y: x * y, lambda x, y: x * y),
    Case(
        "choice",
        ("nm", "m"),
        lambda x, y: ops.where(x > y, ops.clamp(x, -1.0, 1.0), y),
        lambda x, y: torch.where(x > y, x.clamp(-1, 1), y),
    ),
    Case("transpose", ("nm", "mn"), lambda x, y: x + ops.permute(y, [1, 0]), lambda x, y: x + y.T),
    Case(
        "permute",
        ("nmk",),
        lambda x: ops.permute(x, [2, 0, 1]) * 2,
        lambda x: x.permute(2, 0, 1) * 2,
    ),
    Case("flat", ("nm",), lambda x: ops.reshape(x, [-1]) * 2, lambda x: x.reshape(-1) * 2),
    Case("threes", ("n",), lambda x: ops.reshape(x, [-1, 3]) + 1, lambda x: x.reshape(-1, 3) + 1),
    Case(
        "inferred",
        ("nmk",),
        lambda x: ops.reshape(x, [x.size(0), -1]) + 1,
        lambda x: x.reshape(x.shape[0], x.shape[1] * x.shape[2]) + 1,
    ),
    Case(
        "merged rows",
        ("nmk",),
        lambda x: ops.sum(ops.reshape(x, [x.size(0) * x.size(1), x.size(2)]), [1]),
        lambda x: x.flatten(0, 1).sum(1) if x.numel() else x.sum(2).flatten(),
    ),
    Case(
        "expand",
        ("n1", "nm"),
        lambda x, y: ops.expand(x, [x.size(0), y.size(1)]) * 1.0,
        lambda x, y: x.expand(x.shape[0], y.shape[1]) * 1.0,
    ),
    Case(
        "count",
        ("n",),
        lambda x: x + ops.iota(x.size(0), dtype=DataType.Float, fusion=x.fusion),
        lambda x: x + torch.arange(x.shape[0]),
    ),
    Case(
        "dropout",
        ("nm",),
        lambda x: ops.dropout(x, 0.5, rng_seed=3, rng_offset=0)[0] * 0.0,
        lambda x: x * 0.0,
    ),
    Case("sum of rows", ("nm",), lambda x: ops.sum(x, [1]), lambda x: x.sum(1)),
    Case("sum of columns", ("nm",), lambda x: ops.sum(x, [0]), lambda x: x.sum(0)),
    Case("sum of all", ("nm",), lambda x: ops.sum(x), lambda x: x.sum()),
    Case("sum between", ("nmk",), lambda x: ops.sum(x, [1]), lambda x: x.sum(1)),
    Case("sum around", ("nmk",), lambda x: ops.sum(x, [0, 2]), lambda x: x.sum((0, 2))),
    Case("sum before", ("nmk",), lambda x: ops.sum(x, [0, 1]), lambda x: x.sum((0, 1))),
    Case("sum of integers", ("nm",), lambda x: ops.sum(x, [1]), lambda x: x.sum(1), DataType.Int),
    Case(
        "product",
        ("nm",),
        lambda x: ops.prod(x * 0.25, [1], keepdim=True),
        lambda x: (x * 0.25).prod(1, keepdim=True),
    ),
    Case("mean", ("nm",), lambda x: ops.mean(x, [1]), lambda x: x.mean(1)),
    Case(
        "narrow mean",
        ("nm",),
        lambda x: ops.mean(x, [0]),
        lambda x: x.mean(0),
        DataType.BFloat16,
        2e-2,
    ),
    Case("mean of all", ("nm",), lambda x: ops.mean(x), lambda x: x.mean()),
    Case("max", ("nm",), lambda x: ops.max(x, [1]), lambda x: x.amax(1)),
    Case("min", ("nm",), lambda x: ops.min(x, [0]), lambda x: x.amin(0)),
    Case("max of integers", ("nm",), lambda x: ops.max(x, [1]), lambda x: x.amax(1), DataType.Int),
    Case("variance", ("nm",), lambda x: ops.var(x, [1]), lambda x: x.var(1)),
    Case(
        "var_mean of columns",
        ("nm",),
        lambda x: ops.var_mean(x, [0], 1),
        lambda x: torch.var_mean(x, dim=0, correction=1),
    ),
    Case(
        "var_mean of all",
        ("nm",),
        lambda x: ops.var_mean(x, None, 1),
        lambda x: torch.var_mean(x, correction=1),
    ),
    Case(
        "var_mean around",
        ("nmk",),
        lambda x: ops.var_mean(x, [0, 2], 0),
        lambda x: torch.var_mean(x, dim=(0, 2), correction=0),
    ),
    Case("layer norm", ("nm", "m", "m"), _layer_norm, _torch_layer_norm),
    Case(
        "narrow layer norm",
        ("nm", "m", "m"),
        _layer_norm,
        _torch_layer_norm,
        DataType.BFloat16,
        5e-2,
    ),
    Case(
        "RMS norm",
        ("nm", "m"),
        lambda x, w: x * ops.rsqrt(ops.mean(x * x, [1], keepdim=True) + 1e-5) * w,
        lambda x, w: x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5) * w,
    ),
    Case(
        "layer norm backward",
        ("nm", "nm", "n1", "n1", "m"),
        _layer_norm_backward,
        _torch_layer_norm_backward,
        tolerance=2e-2,
    ),
    Case("softmax", ("nm",), _softmax(1), _torch_softmax(1)),
    Case("softmax of columns", ("nm",), _softmax(0), _torch_softmax(0)),
    Case("softmax between", ("nmk",), _softmax(1), _torch_softmax(1)),
    Case(
        "softmax backward",
        ("nm", "nm"),
        lambda dy, y: y * (dy - ops.sum(dy * y, [1], keepdim=True)),
        lambda dy, y: y * (dy - (dy * y).sum(1, keepdim=True)),
    ),
    Case("batch norm", ("nmk",), _standardized(0, 2), _torch_standardized(0, 2)),
    Case("batch norm, channels last", ("nmk",), _standardized(0, 1), _torch_standardized(0, 1)),
    Case(
        "minus the mean of columns",
        ("nm",),
        lambda x: x - ops.mean(x, [0], keepdim=True),
        lambda x: x - x.mean(0, keepdim=True),
    ),
    Case(
        "minus the mean of all",
        ("nm",),
        lambda x: x - ops.mean(x, [0, 1], keepdim=True),
        lambda x: x - x.mean((0, 1), keepdim=True),
    ),
    Case(
        "three results",
        ("nm",),
        lambda x: (x * 2, ops.sum(x, [1]), ops.sum(x, [0])),
        lambda x: (x * 2, x.sum(1), x.sum(0)),
    ),
    Case("matrix by vector", ("nk", "k"), ops.matmul, torch.matmul),
)
"""Programs of every kind but matrix products, whose sizes the next planner widens."""
