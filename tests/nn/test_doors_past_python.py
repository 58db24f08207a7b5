"""Softmaxes, losses and heads whose calls and gradients go past Python launch what Python does."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.support import binaries
from tests.support.stand_in import StandIn
from warpsmith.frontends.fuse import Fused
from warpsmith.nn import functional, loss_programs, programs
from warpsmith.nn import head_programs as heads
from warpsmith.nn.heads import _GATED, _NORM_ROTARY, _ROTARY
from warpsmith.nn.losses import _CROSS_ENTROPY
from warpsmith.nn.softmaxes import SOFTMAX


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype, requires_grad=True)


def softmax(size: int) -> tuple[Any, ...]:
    x = leaf(2, 3, size, dtype=torch.bfloat16)
    return SOFTMAX, lambda: functional.softmax(x, -1), [x]


def log_softmax(size: int) -> tuple[Any, ...]:
    x = leaf(size, 3)
    return SOFTMAX, lambda: functional.log_softmax(x, 0, torch.float32), [x]


def swiglu(size: int) -> tuple[Any, ...]:
    gate, up = leaf(5, size), leaf(5, size, dtype=torch.float16)
    return _GATED, lambda: functional.swiglu(gate, up), [gate, up]


def geglu_of_a_constant(size: int) -> tuple[Any, ...]:
    gate, up = leaf(5, size), leaf(5, size, dtype=torch.float16)
    return _GATED, lambda: functional.geglu(gate.detach(), up), [up]


def rotary(size: int) -> tuple[Any, ...]:
    x, cos, sin = leaf(5, 4 * size), *torch.ones(2, 5, 2 * size)
    return _ROTARY, lambda: functional.rotary(x, cos, sin), [x]


def normalized_rotary(size: int) -> tuple[Any, ...]:
    x, weight, cos, sin = leaf(5, 4 * size), leaf(4 * size), *torch.ones(2, 5, 2 * size)
    return _NORM_ROTARY, lambda: functional.rms_norm_rotary(x, weight, cos, sin), [x, weight]


def rotary_without_a_weight(size: int) -> tuple[Any, ...]:
    x, cos, sin = leaf(5, 4 * size), *torch.ones(2, 5, 2 * size)
    return _NORM_ROTARY, lambda: functional.rms_norm_rotary(x, None, cos, sin), [x]


def cross_entropy(size: int) -> tuple[Any, ...]:
    x, target = leaf(5, size), torch.zeros(5, dtype=torch.int64)
    return _CROSS_ENTROPY, lambda: functional.cross_entropy(x, target), [x]


def weighted_cross_entropy(size: int) -> tuple[Any, ...]:
    x, target, weight = leaf(3, size, 4), torch.zeros(3, 4, dtype=torch.int32), torch.ones(size)
    named = {"reduction": "none", "label_smoothing": 0.125}
    return _CROSS_ENTROPY, lambda: functional.cross_entropy(x, target, weight, **named), [x]


@pytest.mark.few(5)
@pytest.mark.parametrize(
    "case",
    [
        softmax,
        log_softmax,
        swiglu,
        geglu_of_a_constant,
        rotary,
        normalized_rotary,
        rotary_without_a_weight,
        cross_entropy,
        weighted_cross_entropy,
    ],
    ids=lambda case: case.__name__,
)
def test_launches_are_those_of_python(
    gpu: StandIn, monkeypatch: pytest.MonkeyPatch, case: Callable[[int], tuple[Any, ...]]
) -> None:
    door, function, leaves = case(48)
    nodes: list[Any] = []

    def step() -> tuple[Any, ...]:
        y = function()
        dy = torch.full(y.shape, 2, dtype=y.dtype)
        nodes.append(type(y.grad_fn))
        gradients = torch.autograd.grad(y, leaves, dy)
        forms = [(each.shape, each.stride(), each.dtype) for each in (y, *gradients)]
        given = [cell.cell_contents for cell in function.__closure__ or ()]
        return gpu.taken([dy, *(each for each in given if torch.is_tensor(each))])[1], forms

    with binaries.uncompiled():
        step()
        for module in (programs, loss_programs, heads):
            for fused in (each for each in vars(module).values() if isinstance(each, Fused)):
                for trace, _ in fused._traces.entries.values():
                    if trace.executable.last_plan is not None:
                        gpu.knows(trace.executable.last_plan)
        with monkeypatch.context() as without:
            for shortcut in door.program.shortcuts:
                without.setattr(shortcut, "launch", lambda given: NotImplemented)
            by_python = step()

        def refused(*args: Any) -> Any:
            raise AssertionError("it went through Python")

        shortcut, _, *rest = nodes[0].way
        monkeypatch.setattr(nodes[0], "way", (shortcut, refused, *rest))
        assert step() == by_python
    assert all(values for _, _, values in by_python[0])


def test_an_embedding_is_read_past_python(gpu: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    index, weight = torch.zeros(3, 4, dtype=torch.int64), leaf(9, 8, dtype=torch.bfloat16)

    def step() -> None:
        functional.embedding(index, weight).sum().backward()
        functional.embedding(index, weight.detach())

    def refused(*args: Any) -> Any:
        raise AssertionError("it went through Python")

    with binaries.uncompiled():
        step()
        monkeypatch.setattr(heads, "embedding", refused)
        step()
    assert weight.grad is not None
    assert weight.grad.shape == weight.shape
