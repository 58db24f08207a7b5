"""Nodes of norms whose calls and gradients go past Python do what Python's do."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.support import binaries
from tests.support.stand_in import StandIn
from warpsmith import knobs
from warpsmith.nn import calls, eager, functional, programs
from warpsmith.runtime import launcher

NODE = eager.Norm._backward_cls


@pytest.fixture
def node(gpu: StandIn, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Which ways went through Python."""
    seen: list[str] = []
    shortcut, slow, asked = NODE.way
    norm = eager._norm

    def forward(*args: Any) -> Any:
        seen.append("forward")
        return norm(*args)

    def backward(*args: Any) -> Any:
        seen.append("backward")
        return slow(*args)

    monkeypatch.setattr(eager, "_norm", forward)
    monkeypatch.setattr(NODE, "way", (shortcut, backward, asked))
    with binaries.uncompiled():
        yield seen


def tensors(columns: int) -> dict[str, torch.Tensor]:
    """Each of a type of its own, so that none passes for another."""
    return {
        "x": torch.ones(5, columns, dtype=torch.bfloat16, requires_grad=True),
        "residual": torch.ones(5, columns, requires_grad=True),
        "weight": torch.ones(columns, dtype=torch.float16, requires_grad=True),
        "bias": torch.ones(columns, dtype=torch.float64, requires_grad=True),
    }


def results(given: dict[str, torch.Tensor], columns: int) -> tuple[torch.Tensor, ...]:
    x, residual, weight, bias = (given.get(k) for k in ("x", "residual", "weight", "bias"))
    if residual is None:
        return (functional.layer_norm(x, (columns,), weight, bias),)
    return functional.add_layer_norm(x, residual, (columns,), weight, bias)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        ("x", "x"),
        ("x weight", "x weight"),
        ("x weight", "weight"),
        ("x weight bias", "bias x"),
        ("x residual weight bias", "x residual weight bias"),
        ("x residual weight bias", "residual bias"),
        ("x residual", "x"),
    ],
)
@pytest.mark.parametrize("few", [0, calls.FEW], ids=["kept", "computed again"])
def test_those_that_are_wanted(
    node: list[str], monkeypatch: pytest.MonkeyPatch, names: str, wanted: str, few: int
) -> None:
    """With mean and deviation kept for the gradient, and computed again by it."""
    monkeypatch.setattr(calls, "FEW", few)
    columns = 32 + len(names + wanted) + 64 * bool(few)
    given = {name: tensors(columns)[name] for name in names.split()}
    asked = [given[name] for name in wanted.split()]

    def step() -> list[Any]:
        made = results(given, columns)
        gradients = torch.autograd.grad(made, asked, [torch.ones_like(y) for y in made])
        return [(g.shape, g.dtype) for g in gradients]

    expected = [(each.shape, each.dtype) for each in asked]
    assert step() == expected
    assert node == ["forward", "backward"]
    step()
    node.clear()
    assert step() == expected
    assert not node


@pytest.mark.few(2)
@pytest.mark.parametrize("few", [0, calls.FEW], ids=["kept", "computed again"])
@pytest.mark.parametrize("names", ["x", "x weight bias", "x residual", "x residual weight bias"])
def test_launches_are_those_of_python(
    gpu: StandIn, node: list[str], monkeypatch: pytest.MonkeyPatch, names: str, few: int
) -> None:
    """Each kernel reads and writes what it does where Python finds its arguments."""
    monkeypatch.setattr(calls, "FEW", few)
    columns = 128 + len(names) + 64 * bool(few)
    given = {name: tensors(columns)[name] for name in names.split()}
    incoming = [torch.ones(5, columns, dtype=kind) for kind in (torch.bfloat16, torch.float32)]
    incoming = incoming[: 1 + ("residual" in given)]

    def launched() -> Any:
        made = results(given, columns)
        torch.autograd.grad(made, list(given.values()), incoming)
        return gpu.taken([*given.values(), *incoming])

    for _ in range(2):
        launched()
    for program in (programs.norm, programs.norm_gradient):
        for trace, _ in program._traces.entries.values():
            if trace.executable.last_plan is not None:
                gpu.knows(trace.executable.last_plan)
    node.clear()
    past = launched()
    assert not node
    for way in (calls.NORM, calls.NORM_GRADIENT):
        monkeypatch.setattr(way.shortcut, "launch", lambda given: NotImplemented)
    assert past == launched()
    assert node == ["forward", "backward"]
    read = str(past)
    assert "nowhere" not in read
    assert all(f"input {k}'" in read for k in range(len(given) + len(incoming)))


def test_a_result_without_a_gradient(node: list[str]) -> None:
    given = tensors(40)
    for which in (0, 1, 0, 1):
        made = results(given, 40)
        made[which].backward(torch.ones_like(made[which]))
    assert {tuple(each.grad.shape) for each in given.values()} == {(5, 40), (40,)}
    assert node.count("backward") == 3  # the sum alone needs no launch


def test_a_sum_of_constants_is_one(node: list[str]) -> None:
    given = {k: t.detach() for k, t in tensors(44).items()}
    given["weight"].requires_grad_()
    for _ in range(3):
        node.clear()
        y, total = results(given, 44)
        assert (y.requires_grad, total.requires_grad) == (True, False)
        y.backward(torch.ones_like(y))
    assert not node
    given["residual"].requires_grad_()
    assert results(given, 44)[1].requires_grad


def warmed(columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Arguments whose calls go past Python from here on."""
    x, weight = torch.ones(4, columns, requires_grad=True), torch.ones(columns, requires_grad=True)
    for _ in range(2):
        functional.rms_norm(x, (columns,), weight).backward(torch.ones(4, columns))
    return x, weight


def test_errors_of_autograd_are_seen(node: list[str]) -> None:
    x, weight = warmed(48)
    y = functional.rms_norm(x, (48,), weight)
    y.backward(torch.ones(4, 48))
    with pytest.raises(RuntimeError, match="second time"):
        y.backward(torch.ones(4, 48))
    y = functional.rms_norm(x, (48,), weight)
    with torch.no_grad():
        weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward(torch.ones(4, 48))


@pytest.mark.parametrize(("few", "columns"), [(0, 57), (4 * 56, 56)])
def test_what_is_saved_is_unpacked_once(
    node: list[str], monkeypatch: pytest.MonkeyPatch, few: int, columns: int
) -> None:
    """The deviation of each row, too, where there are more elements than a few."""
    monkeypatch.setattr(calls, "FEW", few)
    x, weight = warmed(columns)
    seen: list[Any] = []

    def unpack(tensor: torch.Tensor) -> torch.Tensor:
        seen.append(tensor.shape)
        return tensor

    rows = [(4, 1)] if few == 0 else []
    for dy in (torch.ones(4, columns), torch.ones(1).expand(4, columns)):  # the other is copied
        node.clear()
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
            y = functional.rms_norm(x, (columns,), weight)
        y.backward(dy)
        assert sorted(seen) == [*rows, (4, columns), (columns,)]
        seen.clear()
    assert node == ["backward"]


def test_gradients_that_are_recorded_are_refused(node: list[str]) -> None:
    x, weight = warmed(72)
    y = functional.rms_norm(x, (72,), weight)
    (gradient,) = torch.autograd.grad(y, [x], torch.ones(4, 72), create_graph=True)
    assert node[-1] == "backward"
    with pytest.raises(Exception, match="WS0363"):
        gradient.sum().backward()


def test_a_scope_of_the_forward_call_holds(node: list[str]) -> None:
    x, weight = warmed(80)
    node.clear()
    with knobs.scope(early_launch=False):
        y = functional.rms_norm(x, (80,), weight)
    y.backward(torch.ones(4, 80))
    assert node == ["forward", "backward"]


def test_a_gradient_of_a_subclass(node: list[str]) -> None:
    class Named(torch.Tensor):
        pass

    x, weight = warmed(96)
    for _ in range(2):
        node.clear()
        functional.rms_norm(x, (96,), weight).backward(torch.ones(4, 96).as_subclass(Named))
        assert node == ["backward"]


def test_others_are_no_nodes() -> None:
    made = launcher.module()
    for function, given in (
        (made.recording, (1,)),
        (made.recording, [1, 2]),
        (made.applying, 1),
    ):
        with pytest.raises(TypeError):
            function(given)
    with pytest.raises(TypeError):
        made.applying(torch._C._FunctionBase).__get__(object())


def test_a_node_without_a_gradient(node: list[str]) -> None:
    x, weight = warmed(88)
    with pytest.raises(TypeError, match="gradient is needed"):
        functional.rms_norm(x, (88,), weight).grad_fn.apply()
