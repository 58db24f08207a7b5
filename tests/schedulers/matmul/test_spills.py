"""What kernels of products may spill without a word."""

import warnings

import torch

import warpsmith
from warpsmith import DataType, knobs, ops
from warpsmith.errors import SpillWarning
from warpsmith.ir.tensor import TensorView


def gelu(x: TensorView, weight: TensorView, bias: TensorView) -> tuple[TensorView, TensorView]:
    """With its operand, as it is saved for backward."""
    h = ops.cast(ops.add(ops.linear(x, weight), bias), DataType.BFloat16)
    y = ops.cast(h, DataType.Float)
    y = y * 0.5 * (ops.erf(y * 0.7071067811865476) + 1)
    return h, ops.cast(y, DataType.BFloat16)


def test_few_spills_behind_a_product_are_let_pass() -> None:
    """A smaller tile would spill nothing, and take longer."""
    shapes = (6011, 2056), (3080, 2056), (3080,)
    given = [torch.empty(shape, dtype=torch.bfloat16) for shape in shapes]
    with warnings.catch_warnings(), knobs.scope(target="h200"):
        warnings.simplefilter("error", SpillWarning)
        (kernel,) = warpsmith.fuse(gelu).lower(*given).compile().kernels
    assert 0 < kernel.n_spills < 96
