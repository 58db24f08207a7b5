"""Modules are torch's but for what computes them."""

from typing import Any

import pytest
import torch

from tests.support.gradients import drawn
from warpsmith import knobs, nn

PAIRS = [
    (nn.LayerNorm, torch.nn.LayerNorm, ((3, 16),), {}),
    (nn.LayerNorm, torch.nn.LayerNorm, (16,), {"bias": False, "eps": 1e-3}),
    (nn.LayerNorm, torch.nn.LayerNorm, (16,), {"elementwise_affine": False}),
    (nn.RMSNorm, torch.nn.RMSNorm, (16,), {}),
    (nn.RMSNorm, torch.nn.RMSNorm, ([3, 16],), {"eps": 1e-3, "elementwise_affine": False}),
    (nn.Softmax, torch.nn.Softmax, (1,), {}),
    (nn.LogSoftmax, torch.nn.LogSoftmax, (-1,), {}),
]


@pytest.mark.parametrize(("ours", "theirs", "args", "options"), PAIRS)
def test_modules_agree(ours: Any, theirs: Any, args: Any, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    mine, reference = ours(*args, **options), theirs(*args, **options)
    for parameter in reference.parameters():
        torch.nn.init.normal_(parameter)
    mine.load_state_dict(reference.state_dict())
    assert repr(mine) == repr(reference)
    x = drawn((2, 3, 16), torch.float32)
    gradients = []
    with knobs.scope(device="reference"):
        for module in (mine, reference):
            leaf = x.clone().requires_grad_()
            (module(leaf) ** 3).sum().backward()
            gradients.append([leaf.grad, *(p.grad for p in module.parameters())])
        torch.testing.assert_close(mine(x), reference(x))
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-4)
