"""Constants of a model are copied once, and those that leave it in each call."""

import pytest
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

import warpsmith
from warpsmith.torch_backend.backend import backend
from warpsmith.torch_backend.constants import fold_tables
from warpsmith.torch_backend.decompositions import decompositions

pytestmark = pytest.mark.usefixtures("fresh")


class Masked(nn.Module):  # type: ignore[misc]  # torch is not analysed
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        low = torch.tensor(-2.5).to(x.dtype)
        rows = torch.tensor([[0.5], [2.0]])
        return torch.where(x > 0, x * self.weight, low) * rows, torch.tensor([1.0, 2.0])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("training", [False, True])
def test_constants_are_copied_once(training: bool) -> None:
    model = Masked().requires_grad_(training)
    fast = torch.compile(model, backend=backend, fullgraph=True)
    for _ in range(3):
        x = torch.randn(2, 4)
        found, given_back = fast(x)
        expected, constant = model(x)
        torch.testing.assert_close(found, expected)
        assert torch.equal(given_back, constant)
        given_back.zero_()  # the caller's own
        if training:
            found.sum().backward()
    graphs = warpsmith.report(fast).graphs
    named = " ".join(str(region) for graph in graphs for region in graph.regions)
    assert named.count("lift_fresh_copy") == 1, named
    assert "_to_copy" not in named


def test_tables_are_computed_once() -> None:
    def function(t: Tensor) -> tuple[Tensor, ...]:
        speeds = torch.exp(torch.arange(6) * -0.25) / 2
        angles = t[:, None] * speeds
        places = torch.arange(12)
        return angles.sin(), speeds.cos(), torch.where(places >= 6, 1.0, 0.0) + angles.repeat(1, 2)

    t = torch.randn(4)
    module = make_fx(function, dict(decompositions()), tracing_mode="fake")(t)
    fold_tables(module)
    module.graph.lint()
    module.recompile()
    targets = [str(node.target) for node in module.graph.nodes]
    assert not any("exp." in target for target in targets)
    assert sum("cos" in target for target in targets) == 1
    for _ in range(2):
        found = module(t)
        torch.testing.assert_close(found, function(t))
        found[1].zero_()  # the caller's own


def test_views_that_leave_are_of_copies() -> None:
    """What callers wrote into them, later calls read."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        row = torch.tensor([1.0, 2.0, 3.0])
        return x * row, row[1:], row.unbind()[0]

    fast = torch.compile(function, backend=backend, fullgraph=True)
    x = torch.randn(4, 3)
    for _ in range(2):
        found = fast(x)
        torch.testing.assert_close(found, function(x))
        for given_back in found[1:]:
            given_back.zero_()
