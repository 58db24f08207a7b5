"""Models compiled with `backend="warpsmith"` compute what they compute without it."""

import gc
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import warpsmith
from warpsmith import knobs
from warpsmith.engine.executable import Executable
from warpsmith.errors import ArgumentError, InternalError, KnobError, TorchCompileWarning
from warpsmith.torch_backend.backend import backend

pytestmark = pytest.mark.usefixtures("fresh")


def stack() -> nn.Sequential:
    return nn.Sequential(
        nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16), nn.RMSNorm(16)
    )


def test_the_entry_point_is_the_backend() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["torch_dynamo_backends"]["warpsmith"].partition(":")
    assert getattr(import_module(module), name) is backend


def test_a_stack_is_one_region_for_inference() -> None:
    model, x = stack(), torch.randn(6, 16)
    fast = torch.compile(model, backend=backend, fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x))
    (graph,) = warpsmith.report(fast).graphs
    assert graph.what == "inference"
    assert (graph.share, graph.left, len(graph.regions)) == (1, 0, 1)


def test_a_function_has_no_report_of_its_own() -> None:
    fast = torch.compile(lambda x: x.exp(), backend=backend)
    with pytest.raises(ArgumentError, match=r"WS0373.* told apart by the parameters .* nothing"):
        warpsmith.report(fast)


def test_training_gives_the_gradients_of_torch() -> None:
    model, x = stack(), torch.randn(6, 16, requires_grad=True)
    fast = torch.compile(model, backend=backend, fullgraph=True)
    torch.testing.assert_close(gradients(fast, model, x), gradients(model, model, x))
    kinds = [graph.what for graph in warpsmith.report(model).graphs]
    assert kinds == ["forward", "backward"]
    assert all(graph.share == 1 for graph in warpsmith.report(model).graphs)


def test_gradients_in_bfloat16_are_as_near_to_the_truth_as_those_of_torch() -> None:
    model, x = stack().bfloat16(), torch.randn(6, 16, dtype=torch.bfloat16, requires_grad=True)
    found = gradients(torch.compile(model, backend=backend), model, x)
    theirs = gradients(model, model, x)
    wide = x.detach().double().requires_grad_()
    exact = gradients(model.double(), model, wide)
    for mine, other, truth in zip(found, theirs, exact, strict=True):
        assert mine.dtype is torch.bfloat16
        off, allowed = ((given - truth).norm() for given in (mine, other))
        assert off <= 1.2 * allowed


def gradients(function: Any, model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    x.grad = None
    function(x).square().sum().backward()
    wanted = [x, *model.parameters()]
    return [tensor.grad.clone() for tensor in wanted if tensor.grad is not None]


def test_kernels_of_a_model_run_on_the_simulator() -> None:
    def norm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x + y, -1).t()

    gc.collect()  # what other tests compiled is gone
    x, y = torch.randn(4, 32), torch.randn(32)
    with knobs.scope(device="sim"):
        fast = torch.compile(norm, backend=backend)
        found = fast(x, y)
    torch.testing.assert_close(found, norm(x, y))
    assert found.stride() == norm(x, y).stride()
    (graph,) = [g for g in warpsmith.report().graphs if any(r.kernels for r in g.regions)]
    (kernel,) = graph.regions[0].kernels
    assert kernel.scheduler == "inner_persistent"
    assert 2 < kernel.predicted < 10
    assert graph.regions[0].peak == found.nbytes
    assert "memory 0.000488 MiB at most" in str(warpsmith.report())


def test_what_does_not_compile_runs_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise InternalError("no kernel today")

    monkeypatch.setattr(Executable, "prepared", broken)
    model, x = stack(), torch.randn(6, 16)
    fast = torch.compile(model, backend=backend)
    with torch.no_grad(), pytest.warns(TorchCompileWarning, match="WS0370.*no kernel today"):
        torch.testing.assert_close(fast(x), model(x))
    assert "no kernel today" in str(warpsmith.report(model))


def test_options_that_are_none_are_refused() -> None:
    x = torch.randn(4)
    for asked in ({"mode": "fastest"}, {"options": {"fallback": "numpy"}}):
        fast = torch.compile(torch.sin, backend=backend, **asked)
        with pytest.raises(Exception, match="WS0371") as failure:
            fast(x)
        assert isinstance(failure.value.__cause__, ArgumentError | None)
    fast = torch.compile(torch.sin, backend=backend, options={"device": "cray"})
    with pytest.raises(Exception, match="WS0700") as failure:
        fast(x)
    assert isinstance(failure.value.__cause__, KnobError | None)
    fast = torch.compile(nn.Linear(4, 4), backend=backend, options={"products": False})
    fast(x[None])
    assert "the option products is off" in str(warpsmith.report(fast))


def test_cuda_graphs_leave_out_what_runs_on_the_cpu() -> None:
    model, x = stack(), torch.randn(6, 16, requires_grad=True)
    fast = torch.compile(model, backend=backend, mode="reduce-overhead")
    torch.testing.assert_close(gradients(fast, model, x), gradients(model, model, x))


def test_autocast_casts_inside_regions() -> None:
    model, x = stack()[:4], torch.randn(6, 16, requires_grad=True)
    fast = torch.compile(model, backend=backend)
    with torch.autocast("cpu", torch.bfloat16):
        found, expected = fast(x), model(x)
    assert found.dtype is expected.dtype
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
    found.float().square().sum().backward()
    assert x.grad is not None
    assert [graph.share for graph in warpsmith.report(fast).graphs] == [1, 1]


def test_writes_aliases_and_random_numbers_are_those_of_torch() -> None:
    def busy(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x.add_(1)
        view = y[1:]
        y.mul_(x[:1])
        dropped = nn.functional.dropout(x * 2, 0.5) + torch.rand_like(x)
        return view, dropped.t(), x.view(-1)

    fast = torch.compile(busy, backend=backend, fullgraph=True)
    for _ in range(2):
        ours, theirs = [torch.ones(3, 4), torch.ones(5, 4)], [torch.ones(3, 4), torch.ones(5, 4)]
        torch.manual_seed(5)
        found = fast(*ours)
        torch.manual_seed(5)
        expected = busy(*theirs)
        torch.testing.assert_close((found, ours), (expected, theirs))
        assert [t.stride() for t in found] == [t.stride() for t in expected]
        assert found[0].data_ptr() == ours[1][1:].data_ptr()
        assert found[2].data_ptr() == ours[0].data_ptr()


def test_operators_of_others_are_theirs() -> None:
    @torch.library.custom_op("warpsmith_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)

    def around(x: torch.Tensor) -> torch.Tensor:
        return twice(x.exp() + 1).sin() - x

    fast = torch.compile(around, backend=backend, fullgraph=True)
    x = torch.randn(7)
    torch.testing.assert_close(fast(x), around(x))
    (graph,) = (g for g in warpsmith.report().graphs if "twice" in str(g.reasons))
    assert (graph.taken, graph.left) == (4, 1)


@pytest.mark.slow  # Inductor compiles C++ for half a minute
def test_inductor_runs_what_is_left() -> None:
    def mixed(x: torch.Tensor) -> torch.Tensor:
        first = torch.sort(x.exp()).values
        return nn.functional.pad(first[None], (1, 1), mode="reflect")[0] * 2 + first.sum()

    fast = torch.compile(mixed, backend=backend, options={"fallback": "inductor"})
    x = torch.randn(8)
    torch.testing.assert_close(fast(x[:6]), mixed(x[:6]))


def test_what_inductor_cannot_compile_runs_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no C++ here")

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx_inner", broken)
    fast = torch.compile(
        lambda x: torch.sort(x + 1).values * 2, backend=backend, options={"fallback": "inductor"}
    )
    with pytest.warns(TorchCompileWarning, match="WS0372.*no C"):
        torch.testing.assert_close(fast(torch.ones(3)), torch.full((3,), 4.0))
