"""Softmaxes with gradients against torch in float64."""

from typing import Any

import pytest
import torch

from tests.support.gradients import EPSILON, assert_right, drawn
from warpsmith.nn import functional

torch_functional = torch.nn.functional
NAMES = ("softmax", "log_softmax")


pytestmark = pytest.mark.usefixtures("on_numpy")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("name", NAMES)
def test_results_and_gradients(name: str, dim: int, dtype: torch.dtype) -> None:
    ours, theirs = (getattr(module, name) for module in (functional, torch_functional))
    x = drawn((3, 5, 8), dtype)
    assert_right(lambda x: ours(x, dim), lambda x: theirs(x, dim), x, ulps=8)


@pytest.mark.parametrize(
    "shape", [(), (7,), (1, 1), (4, 1), (1, 4), (0, 4), (4, 0), (2, 3, 4, 5)], ids=str
)
@pytest.mark.parametrize("name", NAMES)
def test_shapes(name: str, shape: tuple[int, ...]) -> None:
    x = drawn(shape, torch.float32)
    for dim in range(-max(x.ndim, 1), max(x.ndim, 1)):
        got, want = (getattr(m, name)(x, dim) for m in (functional, torch_functional))
        assert got.is_contiguous()
        torch.testing.assert_close(got, want)
        of_ours, of_torch = (x.clone().requires_grad_(True) for _ in range(2))
        getattr(functional, name)(of_ours, dim).square().sum().backward()
        getattr(torch_functional, name)(of_torch, dim).square().sum().backward()
        torch.testing.assert_close(of_ours.grad, of_torch.grad)


@pytest.mark.parametrize("name", NAMES)
def test_infinite_elements(name: str) -> None:
    inf = float("inf")
    x = torch.tensor([[0.0, -inf, 1.0], [-inf, -inf, -inf], [inf, 0.0, 1.0], [float("nan"), 0, 0]])
    got, want = (getattr(m, name)(x, -1) for m in (functional, torch_functional))
    torch.testing.assert_close(got, want, equal_nan=True)


@pytest.mark.parametrize("laid", [lambda x: x.T, lambda x: x[:, ::2], lambda x: x[:1].expand(6, 8)])
def test_layouts(laid: Any) -> None:
    x = laid(drawn((6, 8), torch.float32))
    for dim in (0, 1):
        got, want = (m.softmax(x, dim) for m in (functional, torch_functional))
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.bfloat16),
        (torch.float32, torch.float64),
        (torch.float16, torch.bfloat16),
        (torch.int64, torch.float32),
    ],
)
def test_types_that_are_asked_for(given: torch.dtype, dtype: torch.dtype) -> None:
    x = (drawn((4, 8), torch.float32) * 4).to(given)
    for name in NAMES:
        got = getattr(functional, name)(x, 1, dtype=dtype)
        want = getattr(torch_functional, name)(x.to(dtype).double(), 1).to(dtype)
        torch.testing.assert_close(got, want)
    if given.is_floating_point:
        gradients = []
        for module in (functional, torch_functional):
            leaf = x.clone().requires_grad_()
            (module.softmax(leaf, 1, dtype=dtype) ** 2).sum().backward()
            gradients.append(leaf.grad)
        torch.testing.assert_close(*gradients, rtol=0.01, atol=2 * EPSILON[dtype])
