"""Optimizers and norms under `torch.compile` write in place what eager ones leave."""

import copy

import pytest
import torch
from torch import nn

from warpsmith.torch_backend.backend import backend


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_an_optimizer_leaves_what_an_eager_one_leaves(kind: str) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    sizes = ((63, 41), (4099,), (1,), (1000, 1024), (7, 5, 3))
    own = [torch.randn(size, device="cuda") for size in sizes]
    other = [each.clone() for each in own]
    if kind == "sgd":
        mine, eager = (torch.optim.SGD(p, 0.1, 0.9, foreach=True) for p in (own, other))
    else:
        rate = torch.tensor(0.01, device="cuda")
        mine, eager = (torch.optim.AdamW(p, rate, capturable=True) for p in (own, other))
    fast = torch.compile(lambda: mine.step(), backend=backend)
    for _ in range(5):
        for a, b in zip(own, other, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        fast()
        eager.step()
    torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_norms_leave_what_eager_ones_leave(mode: str | None) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    layers = (nn.Conv2d(8, 24, 3), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 8, 3))
    model = nn.Sequential(*layers, nn.BatchNorm2d(8, momentum=0.3)).cuda()
    eager, fast = copy.deepcopy(model).double(), torch.compile(model, backend=backend, mode=mode)
    for training in (True, True, True, False, True):
        for each in (model, eager):
            each.train(training)
            each.zero_grad()
        x = torch.randn(5, 8, 17, 17, device="cuda")
        torch.compiler.cudagraph_mark_step_begin()
        fast(x).square().sum().backward()
        eager(x.double()).square().sum().backward()
        for own, other in zip(model.buffers(), eager.buffers(), strict=True):
            torch.testing.assert_close(own.double(), other.double(), rtol=2e-3, atol=2e-3)
