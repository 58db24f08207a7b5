"""The gradient of a bias before an activation is begun by the product that it is computed of."""

from collections.abc import Callable

import pytest
import torch

from tests.support.begun import all_begun
from warpsmith import knobs
from warpsmith.engine import fitting
from warpsmith.planner.decided import Decided
from warpsmith.planner.epilogues import Offers
from warpsmith.planner.prices import Plan
from warpsmith.torch_backend.backend import backend


@pytest.mark.slow
def test_gradients_of_a_trained_mlp(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: set[tuple[int, int]] = set()

    def decided(offers: Offers, plan: Callable[[Decided], Plan | None]) -> Decided:
        found = all_begun(offers, plan)
        begun.update(found.begun)
        return found

    monkeypatch.setattr(fitting, "faster", decided)
    torch.manual_seed(0)
    layers = torch.nn.Linear(72, 136), torch.nn.GELU(), torch.nn.Linear(136, 64)
    model = torch.nn.Sequential(*layers).bfloat16()
    x, dy = torch.randn(150, 72).bfloat16(), torch.randn(150, 64).bfloat16()
    with knobs.scope(device="sim"):
        torch.compile(model, backend=backend, dynamic=False)(x).backward(dy)
    wide = torch.nn.Sequential(torch.nn.Linear(72, 136), torch.nn.GELU(), torch.nn.Linear(136, 64))
    wide.load_state_dict(model.state_dict())
    wide(x.float()).backward(dy.float())
    for found, wanted in zip(model.parameters(), wide.parameters(), strict=True):
        assert found.grad is not None
        assert wanted.grad is not None
        off = (found.grad.float() - wanted.grad).norm() / wanted.grad.norm()
        assert off < 1e-2
    assert len(begun) == 1
