"""The GPU's conversions of 8-bit floats are PyTorch's, as the simulator's are."""

import pytest
import torch

from tests.codegen.test_narrow_types import BYTES, hard, rounded, same
from tests.codegen.test_small_integers import CHAINS, SMALL, numbers
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


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_small_integers_wrap(dtype: DataType) -> None:
    x, y = numbers(dtype, 1), numbers(dtype, 2)
    for chain in CHAINS:
        same(fuse(chain)(x.cuda(), y.cuda()).cpu(), chain(x, y))


def test_images_at_any_start() -> None:
    image = torch.randint(0, 256, (5 * 37 * 61 * 3 + 7,), dtype=torch.uint8, device="cuda")
    scaled = fuse(lambda t: ops.cast(t, DataType.Float) / 255)
    for start in (0, 1, 3, 7):
        whole = image[start:]
        part = whole[: 5 * 37 * 61 * 3].view(5, 37, 61, 3)[:, :, 1:]
        for x in (whole, part):
            same(scaled(x).cpu(), x.cpu().float() / torch.tensor(255.0))
