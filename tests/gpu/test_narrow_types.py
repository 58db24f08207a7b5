"""The GPU's conversions of 8-bit floats are PyTorch's, as the simulator's are."""

import pytest
import torch

from tests.codegen.test_narrow_types import BYTES, hard, rounded, same
from tests.support.against_torch import FLOAT8S, TORCH
from warpsmith import DataType, fuse, ops


@pytest.mark.parametrize("dtype", FLOAT8S, ids=str)
def test_every_float8_is_widened_and_comes_back(dtype: DataType) -> None:
    x = BYTES.view(TORCH[dtype])
    wide = fuse(lambda t: ops.cast(t, DataType.Float))(x.cuda())
    same(wide.cpu(), x.float())
    back = fuse(lambda t: ops.cast(t, dtype))(wide)
    same(back.cpu(), x)


@pytest.mark.parametrize(
    "source", [DataType.Float, DataType.Double, DataType.Half, DataType.BFloat16], ids=str
)
@pytest.mark.parametrize("dtype", FLOAT8S, ids=str)
def test_floats_are_rounded_to_even(dtype: DataType, source: DataType) -> None:
    x = hard(dtype).to(TORCH[source])
    found = fuse(lambda t: ops.cast(t, dtype))(x.cuda())
    same(found.cpu(), rounded(x, dtype))


def test_int8_wraps() -> None:
    x = BYTES.view(torch.int8)
    found = fuse(lambda t: (t + t) * 3 // 2)(x.cuda())
    same(found.cpu(), (x + x) * 3 // 2)
