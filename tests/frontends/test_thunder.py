"""Lightning Thunder's nvFuser executor on warpsmith, where Thunder is installed.

Without a GPU, Thunder is told to take tensors of the CPU for a GPU's, and fusions run on the
simulator. Where a GPU is, nothing is told.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

import warpsmith
from warpsmith import knobs

torch = pytest.importorskip("torch")
if find_spec("thunder") is None:
    pytest.skip("Lightning Thunder is not installed", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")  # of what Thunder still calls
PLACE = "cuda" if torch.cuda.is_available() else "cpu"


def fill_names() -> None:
    """Have torch name what Thunder names and newer torch lacks; nobody calls it."""
    spec = find_spec("thunder")
    assert spec is not None
    assert spec.submodule_search_locations
    path = f"{spec.submodule_search_locations[0]}/torch/default_torch_ops.py"
    with open(path) as file:
        names = re.findall(r"\btorch\.Tensor\.(\w+),", file.read())
    for name in names:
        if not hasattr(torch.Tensor, name):
            gone = mock.Mock(name=name)
            gone.__name__ = name
            setattr(torch.Tensor, name, gone)


@pytest.fixture(scope="module")
def thunder() -> Iterator[Any]:
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        fill_names()
        installed = warpsmith.install_as_nvfuser()
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))
        found = importlib.import_module("thunder")
        implementation = importlib.import_module("thunder.executors.nvfuserex_impl")
        if PLACE == "cpu":
            kinds = implementation.DeviceType
            patch.setattr(implementation, "DeviceType", SimpleNamespace(CUDA=kinds.CPU))
            patch.setattr(implementation, "cpu", None)  # no tensor is of the host
        patch.setattr(torch.cuda, "is_available", lambda: PLACE == "cuda")
        with knobs.scope(device="sim" if PLACE == "cpu" else "auto"):
            yield SimpleNamespace(jit=found.jit, last_traces=found.last_traces, ex=implementation)
        installed.undo()


def norm(x: Any, weight: Any) -> Any:
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight) * torch.sigmoid(x)


def loss(x: Any, weight: Any) -> Any:
    logits = torch.nn.functional.log_softmax(x * weight, -1)
    return -(logits * torch.softmax(x, -1)).sum(-1).mean()


def gated(x: Any, weight: Any) -> Any:
    hidden = torch.nn.functional.gelu(x, approximate="tanh") * torch.nn.functional.silu(x + weight)
    return torch.where(hidden > 0, hidden, 0.1 * hidden).var(-1, keepdim=True) + hidden


def moved(x: Any, weight: Any) -> Any:
    joined = torch.cat([x, x * weight], 1)
    return joined.view(x.shape[0], 2, -1).transpose(1, 2)[:, 1:].contiguous().exp()


PROGRAMS: tuple[Callable[..., Any], ...] = (norm, loss, gated, moved)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_functions_and_their_gradients(thunder: Any, program: Callable[..., Any]) -> None:
    fast = thunder.jit(program, executors=[thunder.ex.ex])
    torch.manual_seed(3)
    given = torch.randn(12, 40, device=PLACE), torch.randn(40, device=PLACE)
    results = []
    for run in (fast, program):
        leaves = [each.clone().requires_grad_() for each in given]
        result = run(*leaves)
        result.square().sum().backward()
        results.append([result.detach(), *(each.grad for each in leaves)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    assert "nvFusion" in str(thunder.last_traces(fast)[-1])


class Block(torch.nn.Module):
    """A layer of a small transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.behind = torch.nn.LayerNorm(32), torch.nn.RMSNorm(32)
        self.asked, self.out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)
        self.up, self.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, x: Any) -> Any:
        q, k, v = self.asked(self.before(x)).chunk(3, -1)
        scores = (q @ k.transpose(-1, -2)) / 32**0.5
        x = x + self.out(torch.softmax(scores, -1) @ v)
        return x + self.down(torch.nn.functional.gelu(self.up(self.behind(x))))


def test_a_model_is_trained(thunder: Any) -> None:
    torch.manual_seed(4)
    model = Block().to(PLACE)
    fast = thunder.jit(model, executors=[thunder.ex.ex])
    losses = {}
    start = {name: each.detach().clone() for name, each in model.state_dict().items()}
    x = torch.randn(2, 12, 32, device=PLACE)
    for run in (fast, model):
        model.load_state_dict(start)
        losses[run is fast] = steps(run, model, x)
    torch.testing.assert_close(losses[True], losses[False], rtol=1e-4, atol=1e-5)
    assert losses[True][-1] < losses[True][0]


def steps(run: Callable[..., Any], model: Any, x: Any) -> list[float]:
    """The loss before each of five steps."""
    found = []
    for _ in range(5):
        loss = run(x).square().mean()
        model.zero_grad()
        loss.backward()
        found.append(float(loss.detach()))
        with torch.no_grad():
            for each in model.parameters():
                each -= 0.05 * each.grad
    return found
