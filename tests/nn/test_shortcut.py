"""Norms of rows like some that were here before ask little, and refuse what they refused."""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from tests.support import binaries
from tests.support.stand_in import StandIn, told
from warpsmith.errors import ArgumentError
from warpsmith.nn import calls, eager, functional


def step(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> None:
    y, total = functional.add_rms_norm(x, residual, (64,), weight)
    torch.autograd.backward([y, total], [torch.ones(6, 64), torch.ones(6, 64)])


def test_what_was_here_before_is_not_checked_again(
    gpu: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, residual = (torch.ones(6, 64, requires_grad=True) for _ in range(2))
    weight = torch.ones(64, requires_grad=True)
    with binaries.uncompiled():
        for _ in range(2):
            step(x, residual, weight)

    def asked(*args: Any) -> Any:
        raise AssertionError("asked again")

    monkeypatch.setattr(eager, "row_dimensions", asked)
    monkeypatch.setattr(calls, "rows_of", asked)
    step(x, residual, weight)
    with pytest.raises(AssertionError, match="asked again"):
        step(x, residual, weight[1:])


def test_views_as_rows_are_not_made_again(gpu: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [torch.ones(2, 3, 4, 16, requires_grad=True) for _ in range(2)]
    weight = torch.ones(4, 16, requires_grad=True)

    def once(dy: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, total = functional.add_rms_norm(*given, (4, 16), scale)
        return (
            y,
            total,
            *torch.autograd.grad([y, total], [*given, scale], [dy, torch.ones(dy.shape)]),
        )

    dense = torch.ones(2, 3, 4, 16)
    with binaries.uncompiled():
        for _ in range(2):
            expected = [(each.shape, each.stride()) for each in once(dense, weight)]
            once(torch.ones(1).expand(2, 3, 4, 16), weight)

    def asked(*args: Any) -> Any:
        raise AssertionError("asked again")

    monkeypatch.setattr(eager, "row_dimensions", asked)
    monkeypatch.setattr(calls, "rows_of", asked)
    assert [(each.shape, each.stride()) for each in once(dense, weight)] == expected
    with pytest.raises(AssertionError, match="asked again"):
        once(torch.ones(1).expand(2, 3, 4, 16), weight)  # it was copied
    monkeypatch.undo()


def test_softmaxes_are_the_same(gpu: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(2, 3, 4, 16, requires_grad=True)

    def step(dim: int) -> None:
        functional.softmax(x, dim).backward(torch.ones(2, 3, 4, 16))

    with binaries.uncompiled():
        for _ in range(2):
            step(-1)

    def asked(*args: Any) -> Any:
        raise AssertionError("asked again")

    monkeypatch.setattr(calls, "around", asked)
    step(-1)
    assert x.grad is not None
    assert x.grad.shape == x.shape
    with pytest.raises(AssertionError, match="asked again"):
        step(-2)


def test_threads_train_at_once(gpu: StandIn) -> None:
    """Each in its own shape, so that the tables grow while others look something up."""
    told("seen", ctypes.c_void_p).value = None

    def train(rows: int) -> bool:
        x, residual = (torch.ones(rows, 2, 64, requires_grad=True) for _ in range(2))
        weight = torch.ones(64, requires_grad=True)
        for _ in range(20):
            y, total = functional.add_rms_norm(x, residual, (64,), weight)
            torch.autograd.backward([y, total], [torch.ones_like(x), torch.ones_like(x)])
            if y.shape != x.shape or x.grad.shape != x.shape or weight.grad.shape != (64,):
                return False
        return True

    with binaries.uncompiled(), ThreadPoolExecutor(4) as pool:
        assert all(pool.map(train, range(1, 9)))


def test_what_others_were_here_with_is_refused_still(gpu: StandIn) -> None:
    wide, narrow, weight = torch.ones(6, 64), torch.ones(6, 32), torch.ones(64)
    with binaries.uncompiled():
        for _ in range(2):
            functional.rms_norm(wide, (64,), None)
            functional.rms_norm(wide, (64,), weight)
            functional.rms_norm(narrow, (32,), None)
    for x, shape, scale in (
        (narrow, (64,), None),
        (narrow, (32,), weight),
        (wide, (32,), None),
        (wide, (6, 64), weight),
        (wide.int(), (64,), weight),
    ):
        with pytest.raises(ArgumentError, match="WS036"):
            functional.rms_norm(x, shape, scale)
