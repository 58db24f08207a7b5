"""Gradients of results that no loss is made of are known to be zeros, and nobody makes them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo import compiled_autograd

import warpsmith
from tests.torch_backend.test_joint import Ran
from warpsmith.torch_backend import undefined
from warpsmith.torch_backend.backend import backend

pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.filterwarnings("ignore:The .grad attribute"),  # torch looks at it itself
]


class Model(nn.Module):  # type: ignore[misc]  # torch is not analysed
    """A loss, and beside it what it is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.logits = nn.Linear(16, 16), nn.Linear(16, 32)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = torch.nn.functional.silu(self.inner(x))
        logits = self.logits(hidden)
        return logits.float().square().mean(), logits, hidden.exp()


def gradients(run: Callable[..., Any], model: nn.Module, chosen: tuple[int, ...]) -> list[Tensor]:
    """Those of a sum of some results; zeros of what these do not need."""
    model.zero_grad()
    x = torch.linspace(-1, 1, 64).view(4, 16).requires_grad_()
    results = run(x)
    sum(results[k].sum() for k in chosen).backward()
    wanted = (x, *model.parameters())
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in wanted]


def test_any_results_may_have_none() -> None:
    model = Model()
    run = torch.compile(model, backend=backend, fullgraph=True)
    for chosen in ((0,), (0, 1), (1,), (2,), (0, 1, 2), (1, 2), (0, 2), (0,)):
        torch.testing.assert_close(gradients(run, model, chosen), gradients(model, model, chosen))
    kinds = [graph.what for graph in warpsmith.report(model).graphs]
    assert kinds.count("backward") == undefined.MOST_SETS + 1  # and one that gets all of them


def made(run: Callable[..., Any], chosen: tuple[int, ...]) -> list[str]:
    """What autograd makes before it runs backward of some results."""
    x = torch.linspace(-1, 1, 64).view(4, 16).requires_grad_()
    loss = sum(run(x)[k].sum() for k in chosen)
    with Ran() as ran:
        loss.backward()
    return [name for name in ran.names if name.startswith(("zero", "fill", "new_zeros"))]


def test_nobody_makes_zeros() -> None:
    model = Model()
    assert made(torch.compile(model, backend="aot_eager"), (0,))
    torch._dynamo.reset()
    assert not made(torch.compile(model, backend=backend), (0,))


def test_a_result_that_is_an_argument_keeps_the_zeros_of_who_made_it() -> None:
    x = torch.linspace(-1, 1, 16).requires_grad_()
    given, _ = torch.compile(lambda x: (x.sin(), x.cos()), backend="aot_eager")(x)
    (same,) = undefined.leave_undefined(lambda *given: given)(given)
    same.sum().backward()  # by a graph that knows no None
    assert x.grad is not None
    torch.testing.assert_close(x.grad, x.detach().cos())


def test_compiled_autograd_makes_zeros() -> None:
    model = Model()
    found = []
    for run in (torch.compile(model, backend=backend), model):
        model.zero_grad()
        loss = run(torch.linspace(-1, 1, 64).view(4, 16))[0]
        with compiled_autograd._enable(torch.compile(backend="eager")):
            loss.backward()
        found.append([p.grad.clone() for p in model.parameters()])
    torch.testing.assert_close(*found)


def test_sizes_that_change_are_left_to_autograd() -> None:
    model = Model()
    run = torch.compile(model, backend=backend, dynamic=True)
    for rows in (4, 7):
        x = torch.randn(rows, 16)
        model.zero_grad()
        run(x)[0].backward()
        got = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        model(x)[0].backward()
        torch.testing.assert_close(got, [p.grad for p in model.parameters()])
