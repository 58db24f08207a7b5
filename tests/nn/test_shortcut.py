"""Norms of rows like some that were here before ask little, and refuse what they refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.programs import judge
from tests.support.stand_in import StandIn, stand_in
from warpsmith.errors import ArgumentError
from warpsmith.nn import calls, eager, functional


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    return stand_in(monkeypatch)


def step(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> None:
    y, total = functional.add_rms_norm(x, residual, (64,), weight)
    torch.autograd.backward([y, total], [torch.ones(6, 64), torch.ones(6, 64)])


def test_what_was_here_before_is_not_checked_again(
    gpu: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, residual = (torch.ones(6, 64, requires_grad=True) for _ in range(2))
    weight = torch.ones(64, requires_grad=True)
    with judge.uncompiled():
        for _ in range(2):
            step(x, residual, weight)

    def asked(*args: Any) -> Any:
        raise AssertionError("asked again")

    monkeypatch.setattr(eager, "row_dimensions", asked)
    monkeypatch.setattr(calls, "rows_of", asked)
    step(x, residual, weight)
    with pytest.raises(AssertionError, match="asked again"):
        step(x, residual, weight[1:])


def test_what_others_were_here_with_is_refused_still(gpu: StandIn) -> None:
    wide, narrow, weight = torch.ones(6, 64), torch.ones(6, 32), torch.ones(64)
    with judge.uncompiled():
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
