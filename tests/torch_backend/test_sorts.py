"""Sorts of small numbers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from warpsmith.torch_backend.backend import backend
from warpsmith.torch_backend.sorts import sort_in_few_bits


def experts(x: Tensor) -> tuple[Tensor, Tensor]:
    found, order = torch.sort(x.topk(2).indices.view(-1))
    return found + 1, order


def descending(x: Tensor) -> tuple[Tensor, Tensor]:
    found, order = torch.sort(x.topk(2, 0).indices, -1, True)
    return found + 1, order


def orders(x: Tensor) -> tuple[Tensor, Tensor]:
    """Places of a sort of each row, sorted along columns."""
    return tuple(x.sort(dim=-1, stable=True).indices.sort(dim=0, stable=True))  # type: ignore[return-value]


def values(x: Tensor) -> tuple[Tensor, Tensor]:
    return tuple(x.topk(2).values.sort(-1))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("program", "shape", "few"),
    [
        (experts, (16, 256), True),
        (experts, (16, 257), False),
        (descending, (256, 3), True),
        (descending, (257, 3), False),
        (orders, (4, 8), True),
        (values, (16, 8), False),
    ],
)
def test_places_along_a_short_dimension_are_sorted_in_8_bits(
    program: Callable[[Tensor], Any], shape: tuple[int, ...], few: bool
) -> None:
    x = torch.randn(shape, generator=torch.manual_seed(0))
    module = make_fx(program, tracing_mode="fake")(x)
    sort_in_few_bits(module.graph)
    module.recompile()
    sorts = [n for n in module.graph.nodes if "aten.sort" in str(n.target)]
    assert (sorts[-1].args[0].meta["val"].dtype is torch.uint8) == few
    for found, expected in zip(module(x), program(x), strict=True):
        torch.testing.assert_close(found, expected)


def test_a_model_with_such_a_sort_is_right() -> None:
    torch._dynamo.reset()
    x = torch.randn(16, 8)
    fast = torch.compile(experts, backend=backend)
    for found, expected in zip(fast(x), experts(x), strict=True):
        torch.testing.assert_close(found, expected)
