"""Modules of the bench of calls: ours compute what torch's do, with all gradients."""

import pytest
import torch

from bench.host_modules import MODULES, call_of
from warpsmith import knobs, nn
from warpsmith.testing import relative_error


@pytest.mark.few(2)
@pytest.mark.parametrize("name", MODULES)
def test_modules_compute_what_those_of_torch_do(name: str) -> None:
    module = MODULES[name]
    with knobs.scope(device="sim"):
        found = call_of(module, nn, backward=True, device="cpu")()
    wanted = call_of(module, torch.nn, backward=True, device="cpu", wide=True)()
    assert len(found) == len(wanted) > 1
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == torch.float32
        assert relative_error(ours, theirs) < 1e-5
    once = call_of(module, nn, backward=False, device="cpu")()
    assert relative_error(once, wanted[0]) < 1e-5
    assert not once.requires_grad
