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


class Doubled(torch.nn.Module):
    def forward(self, weight: Any) -> Any:
        return weight * 2.0


@pytest.mark.parametrize(("ours", "theirs"), [(each[0], each[1]) for each in (PAIRS[0], PAIRS[3])])
def test_what_stands_for_parameters_counts(ours: Any, theirs: Any) -> None:
    """Parametrizations, functional calls and plain attributes in the place of parameters."""
    x, weight = drawn((2, 16), torch.float32), drawn((16,), torch.float32)
    with knobs.scope(device="reference"):
        found: list[list[Any]] = []
        for kind in (ours, theirs):
            module = kind(16)
            results = [torch.func.functional_call(module, {"weight": weight}, (x,))]
            with torch.no_grad():
                module.weight.copy_(weight)
            results.append(module(x))
            torch.nn.utils.parametrize.register_parametrization(module, "weight", Doubled())
            results.append(module(x))
            plain = kind(16)
            del plain.weight
            plain.weight = 3.0 * weight
            found.append([*results, plain(x)])
        torch.testing.assert_close(*found)
        compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(x), module(x))
        mine = ours(16)
        whole = torch.compile(mine, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(whole(x), mine(x))
