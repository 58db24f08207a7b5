"""The scaled complementary error function, from where it overflows to where it vanishes."""

import math
from decimal import Decimal

import numpy as np
import pytest
import torch

from warpsmith import fuse, knobs, ops
from warpsmith.ops.table import TABLE

meaning = TABLE["erfcx"].numpy


@fuse
def erfcx(x: torch.Tensor) -> torch.Tensor:
    return ops.erfcx(x)


def test_the_meaning_keeps_all_digits() -> None:
    above = np.concatenate([np.linspace(0, 26, 300), np.logspace(1.4, 307, 50)])
    torchs = torch.special.erfcx(torch.from_numpy(above)).numpy()
    np.testing.assert_allclose(meaning(above), torchs, rtol=8 * np.finfo(float).eps)
    # Below zero PyTorch loses digits of the square; Decimal has 28.
    below = np.linspace(-26.6, 0, 100)
    twice = [2 * float((Decimal(x) * Decimal(x)).exp()) for x in below]
    exact = twice - torch.special.erfcx(torch.from_numpy(-below)).numpy()
    np.testing.assert_allclose(meaning(below), exact, rtol=8 * np.finfo(float).eps)


def test_the_meaning_has_its_limits() -> None:
    edges = meaning(np.array([-27.0, -math.inf, -1.7e308, math.inf, 0.0, math.nan]))
    assert edges[:5].tolist() == [math.inf, math.inf, math.inf, 0.0, 1.0]
    assert np.isnan(edges[5])
    assert meaning(np.array([-9.38, -9.39, 3e38], np.float32)).tolist() == pytest.approx(
        [3.2521483e38, math.inf, 1.8806322e-39], rel=1e-6
    )


@pytest.mark.parametrize(
    ("dtype", "lowest"),
    [(torch.float64, -27), (torch.float32, -10), (torch.float16, -4), (torch.bfloat16, -10)],
    ids=str,
)
def test_kernels_compute_the_meaning(dtype: torch.dtype, lowest: int) -> None:
    """Results that are no normal numbers, too."""
    limits = torch.finfo(dtype)
    top = math.log10(limits.max)
    values = [*np.linspace(lowest, 30, 300), *np.logspace(-8, top - 0.01, 90)]
    values += [limits.max, -limits.max, math.inf, -math.inf, -0.0, math.nan]
    x = torch.tensor(values, dtype=torch.float64).to(dtype)
    with knobs.scope(device="sim"):
        found = erfcx(x)
    assert found.dtype is dtype
    exact = torch.from_numpy(meaning(x.double().numpy()))
    rounded = exact.to(dtype)
    least = limits.smallest_normal * limits.eps
    off = (found.double() - exact).abs() / (exact.abs() * limits.eps).clamp(min=least)
    same = (found == rounded) | (found.isnan() & rounded.isnan())
    wrong = ~(same | (off <= (0.51 if limits.bits == 16 else 4)))
    assert not wrong.any(), (x[wrong], found[wrong], exact[wrong])
