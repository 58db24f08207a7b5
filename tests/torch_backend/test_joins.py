"""Joins of equal parts that are computed together."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from warpsmith.torch_backend.backend import backend
from warpsmith.torch_backend.joins import stack_parts


def gradients(x: Tensor, gate: Tensor, mask: Tensor) -> Tensor:
    """What masks both halves, and a sort, which torch runs, reads them."""
    joined = torch.cat([x * gate.cos(), x * gate.sin()], 1)
    return torch.sort(torch.where(mask, 0, joined * 2 + mask))[0]


def three(x: Tensor, gate: Tensor, mask: Tensor) -> list[Tensor]:
    joined = torch.cat([x * gate, x - gate, gate.exp()])
    return [joined, torch.sort(joined.view(3, -1).t())[1]]


def uneven(x: Tensor, gate: Tensor, mask: Tensor) -> Tensor:
    return torch.cat([x * gate, (x * gate)[:, :2].sin()], 1)


def moved(x: Tensor, gate: Tensor, mask: Tensor) -> Tensor:
    return torch.cat([x * gate, x[:, :]], 1)


def read_by_kernels(x: Tensor, gate: Tensor, mask: Tensor) -> Tensor:
    joined = torch.cat([x * gate, x - gate], 1)
    return joined.sum(1) + joined[:, 1]


def of_the_place(x: Tensor, gate: Tensor, mask: Tensor) -> Tensor:
    """What is added differs along the join, and so is added to it."""
    return torch.cat([x * gate, x - gate], 1) + torch.arange(8)


def column_by_column(x: Tensor, gate: Tensor, mask: Tensor) -> Tensor:
    return torch.cat([x.t() * gate.t(), x.t() - gate.t()], 1)


@pytest.mark.parametrize(
    ("program", "stacked"),
    [
        (gradients, True),
        (three, True),
        (uneven, False),
        (moved, False),
        (read_by_kernels, False),
        (of_the_place, False),
        (column_by_column, False),
    ],
)
def test_equal_parts_that_torch_reads_are_stacked(
    program: Callable[..., Tensor], stacked: bool
) -> None:
    drawn = torch.manual_seed(0)
    given = torch.randn(6, 4, generator=drawn), torch.randn(6, 4, generator=drawn)
    mask = torch.arange(6)[:, None] > 3
    module = make_fx(program, tracing_mode="fake")(*given, mask)
    stack_parts(module.graph)
    module.graph.lint()
    module.recompile()
    assert ("cat" not in module.code) == stacked
    torch.testing.assert_close(module(*given, mask), program(*given, mask))


@pytest.mark.usefixtures("fresh")
def test_sizes_that_turn_out_to_be_numbers_as_backward_is_traced() -> None:
    """They are symbols in the graph still, which are equal, but not to be looked up."""

    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.sort(torch.cat([x + x, x * 2]))[0], torch.prod(x, 1)

    x = torch.randn(2, 2, requires_grad=True)
    found = torch.compile(program, backend=backend, dynamic=True)(x)
    torch.testing.assert_close(found, program(x))
