"""nvFuser's module on a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from warpsmith.frontends.nvfuser_direct import DataType, FusionDefinition


def _drawn(*, with_seed: bool) -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], [True])
        words: dict[str, Any] = {}
        if with_seed:
            words = {
                "rng_seed": fd.define_scalar(DataType.Int),
                "rng_offset": fd.define_scalar(DataType.Int),
            }
        fd.add_output(fd.ops.mul(x, fd.ops.uniform(0.0, 1.0, x.shape(), **words)))
    return fd


def test_seed_and_offset_are_those_of_the_device() -> None:
    x = torch.ones(1000, device="cuda")
    free, fixed = _drawn(with_seed=False), _drawn(with_seed=True)
    torch.manual_seed(5)
    for offset in range(3):
        assert torch.equal(free.execute([x])[0], fixed.execute([x, 5, offset])[0])


def test_tensors_of_the_cpu() -> None:
    with FusionDefinition() as fd:
        x = fd.from_pytorch(torch.ones(4, device="cuda"))
        factor = fd.from_pytorch(torch.tensor(2.5))
        with pytest.raises(ValueError, match="only scalar CPU or CUDA tensors"):
            fd.from_pytorch(torch.ones(2))
        fd.add_output(fd.ops.mul(x, factor))
        fd.add_output(fd.ops.full([2], 3.0, DataType.Float))
    product, three = fd.execute([torch.ones(4, device="cuda"), torch.tensor(2.5)], device=0)
    assert torch.equal(product, torch.full((4,), 2.5, device="cuda"))
    assert three.device.type == "cuda"
