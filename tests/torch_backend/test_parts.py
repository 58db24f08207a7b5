"""Gradients of parts of one tensor are joined, not added up from zeros."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from warpsmith.torch_backend.backend import backend
from warpsmith.torch_backend.parts import join_parts

aten = torch.ops.aten


def placed(x: Tensor, dim: int, start: int, end: int | None) -> Tensor:
    shape = [4, 6]
    return aten.slice_scatter(torch.full(shape, 0.0), x, dim, start, end)


def chosen(x: Tensor, dim: int, index: int) -> Tensor:
    return aten.select_scatter(torch.full([4, 6], 0.0), x, dim, index)


def all_rows(x: Tensor) -> Tensor:
    first = chosen(x[0], 0, 2) + chosen(x[1], 0, 0)
    return (first + chosen(x[2], 0, -1)) + chosen(x[3], 0, 1)


def with_gaps(x: Tensor) -> Tensor:
    return placed(x[:, :1], 1, 1, 2) + placed(x[:, 3:], 1, -3, None)


def with_another(x: Tensor) -> Tensor:
    return (chosen(x[:, 0], 1, 5) + x * 3) + chosen(x[:, 1], 1, 0)


def two_others(x: Tensor) -> Tensor:
    return (chosen(x[:, 0], 1, 5) + x * 3) + x.exp() + chosen(x[:, 1], 1, 0)


def overlapping(x: Tensor) -> Tensor:
    return placed(x[:, :3], 1, 0, 3) + placed(x[:, 3:], 1, 2, 5)


def of_two_dimensions(x: Tensor) -> Tensor:
    return chosen(x[0], 0, 0) + chosen(x[:, 0], 1, 0)


def by_steps(x: Tensor) -> Tensor:
    zeros = torch.full([4, 6], 0.0)
    return aten.slice_scatter(zeros, x[:, :3], 1, 0, 6, 2) + placed(x[:, 3:], 1, 3, 6)


def by_turns(x: Tensor) -> Tensor:
    zeros = torch.full([4, 6], 0.0)
    last = aten.slice_scatter(zeros, x[:, :2], 1, 2, None, 3)
    return last + aten.slice_scatter(zeros, x[:, 4:], 1, 0, 6, 3)


def by_steps_of_a_part(x: Tensor) -> Tensor:
    zeros = torch.full([4, 6], 0.0)
    return aten.slice_scatter(zeros, x[:, :2], 1, 0, 4, 2) + placed(x[:, 4:], 1, 4, 6)


def in_ones(x: Tensor) -> Tensor:
    ones = torch.full([4, 6], 1.0)
    return aten.select_scatter(ones, x[0], 0, 0) + aten.select_scatter(ones, x[1], 0, 1)


def read_elsewhere(x: Tensor) -> Tensor:
    first = chosen(x[0], 0, 0)
    return (first + chosen(x[1], 0, 1)) * first


@pytest.mark.parametrize(
    ("program", "joined"),
    [
        (all_rows, True),
        (with_gaps, True),
        (with_another, True),
        (two_others, False),
        (overlapping, False),
        (of_two_dimensions, False),
        (by_steps, False),
        (by_turns, True),
        (by_steps_of_a_part, False),
        (in_ones, False),
        (read_elsewhere, False),
    ],
)
def test_parts_in_zeros_are_joined(program: Callable[[Tensor], Tensor], joined: bool) -> None:
    x = torch.randn(4, 6)
    module = make_fx(program, tracing_mode="fake")(x)
    join_parts(module.graph)
    scatters = (aten.select_scatter.default, aten.slice_scatter.default)
    assert any(node.target in scatters for node in module.graph.nodes) is not joined
    assert len(module.graph.find_nodes(op="call_function", target=aten.cat.default)) == joined
    module.recompile()
    assert torch.equal(module(x), program(x))


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_of_slices(dynamic: bool) -> None:
    def program(x: Tensor) -> Tensor:
        y = x * 2
        first, second = y[:, 0], y[:, 1:3].sum(1)
        return (first * second + y[:, -1].exp() - y.select(1, 1)).sum()

    x = torch.randn(3, 5, 4, requires_grad=True)
    (wanted,) = torch.autograd.grad(program(x), x)
    (found,) = torch.autograd.grad(torch.compile(program, backend=backend, dynamic=dynamic)(x), x)
    torch.testing.assert_close(found, wanted)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("dynamic", [False, True])
def test_parts_that_lie_by_steps(dynamic: bool) -> None:
    """Gradients of pairs beside each other, of every third place, and places that are set."""

    def program(x: Tensor) -> Tensor:
        y = x * 2
        turned = torch.stack((y[..., ::2] * 3 - y[..., 1::2], y[..., 1::2] * 5), -1).flatten(-2)
        third = y[:, 1::3].exp().sum(1, keepdim=True)
        y = turned + third
        y[1:, 1::4] = x[1:, :2]
        return y

    x = torch.randn(3, 7, 4, requires_grad=True)
    wanted, found = program(x), torch.compile(program, backend=backend, dynamic=dynamic)(x)
    torch.testing.assert_close(found, wanted)
    slope = torch.randn_like(wanted)
    gradients = (torch.autograd.grad(each, x, slope) for each in (wanted, found))
    torch.testing.assert_close(*gradients)
