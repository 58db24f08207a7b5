"""Slices that begin before the first element, as torch lets them: the first is meant."""

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from warpsmith.errors import TorchCompileWarning
from warpsmith.torch_backend.backend import backend

pytestmark = pytest.mark.usefixtures("fresh")


def read(x: Tensor) -> Tensor:
    grown = x.exp()
    return grown[-100:] + grown[:, -9:][:, :3].sum() + grown[-9::2].sum()


def written(x: Tensor) -> Tensor:
    grown = x * 2
    grown[-100:, -9:3] = x[:, :3] * 5
    return grown


def of_part(x: Tensor) -> Tensor:
    """Its gradient is zeros, with a slice of them set."""
    return x[-100:, 2:] * 3


@pytest.mark.few(2)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("program", [read, written, of_part])
def test_the_first_is_meant(program: Callable[[Tensor], Tensor], dynamic: bool) -> None:
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    fast = torch.compile(program, backend=backend, dynamic=dynamic)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TorchCompileWarning)
        torch.testing.assert_close(fast(x), program(x))
    found, expected = (torch.autograd.grad(f(x).sin().sum(), x) for f in (fast, program))
    torch.testing.assert_close(found, expected)
