"""Models that are several graphs, and graphs of several devices."""

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from warpsmith.torch_backend.backend import backend
from warpsmith.torch_backend.regions import regions_of
from warpsmith.torch_backend.report import report

pytestmark = pytest.mark.usefixtures("fresh")


class Broken(nn.Module):
    """Its forward breaks, and goes on by what it computed before that."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(16, 8), nn.LayerNorm(8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x).relu()
        torch._dynamo.graph_break()
        if float(hidden.detach().sum()) > 0:
            hidden = self.norm(hidden)
        return self.last(hidden)


def trained(function: nn.Module, model: nn.Module, x: Tensor) -> list[Tensor]:
    """The result, and all gradients."""
    x = x.clone().requires_grad_()
    result = function(x)
    found = torch.autograd.grad(result.square().sum(), [x, *model.parameters()])
    return [result.detach(), *found]


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch's own, at breaks
def test_a_break_leaves_results_and_gradients_right() -> None:
    model, x = Broken(), torch.randn(5, 16)
    fast = torch.compile(model, backend=backend)
    for given in (x, 2 * x):  # the second call compiles nothing
        torch.testing.assert_close(trained(fast, model, given), trained(model, model, given))
    graphs = report(model).graphs
    assert sum(graph.what == "backward" for graph in graphs) >= 2  # on both sides of the break
    assert all(graph.share == 1 for graph in graphs)


def test_what_is_of_two_devices_runs_in_torch() -> None:
    """A number on the CPU times a tensor on a GPU, and copies between the two."""
    mode = FakeTensorMode()
    x = FakeTensor(mode, torch.empty(4, device="meta"), torch.device("cuda:0"))
    number = mode.from_tensor(torch.tensor(2.0))

    def mixed(x: Tensor, number: Tensor) -> list[Tensor]:
        scaled = x.exp() * number
        return [scaled + 1, scaled.cpu() - 1]

    with mode:
        graph = make_fx(mixed)(x, number).graph
    regions = regions_of(graph, "exact", products=True)
    assert {node.name: reason for node, reason in regions.reasons.items()} == {
        "mul": "tensors on cuda:0 and cpu",
        "_to_copy": "tensors on cpu and cuda:0",
    }
    assert [[node.name for node in each] for each in regions.members] == [["exp"], ["add"], ["sub"]]


def test_the_report_names_the_line_of_what_is_left() -> None:
    def partly(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.exp() + 1, x.sin().to("meta")

    fast = torch.compile(partly, backend=backend)
    x = torch.randn(4)
    found, shape = fast(x)
    torch.testing.assert_close(found, x.exp() + 1)
    assert shape.is_meta
    line = partly.__code__.co_firstlineno + 1
    assert f"  left: 1 _to_copy: device meta (test_breaks.py:{line})" in str(report())


def test_devices_that_do_not_fit_are_refused_with_the_line() -> None:
    fast = torch.compile(lambda x, y: x.exp() * y, backend=backend)
    with pytest.raises(RuntimeError, match=r"(?s)same device.*test_breaks\.py.*x\.exp\(\) \* y"):
        fast(torch.randn(4), torch.empty(4, device="meta"))
