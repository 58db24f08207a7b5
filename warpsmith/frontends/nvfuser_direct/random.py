"""Seed and offset of a call's random numbers, from PyTorch's generators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from warpsmith.frontends.nvfuser_direct.place import on_gpu

_STEP = 4
"""What the offset of a device's generator counts for each number that a thread draws."""


def drawn(count: int, passed: Iterable[Any]) -> tuple[int, int]:
    """Seed and offset of a call that draws so many tensors, each with an offset of its own.

    On a GPU they are those of its generator, which moves on by as many; `torch.manual_seed` sets
    it. The CPU's generator has no offset: it draws a seed.

    Args:
        passed: values of the call, of which the first tensor on a GPU says which one it is; the
            first GPU where there is none.
    """
    import torch

    if not on_gpu():
        return int(torch.randint(0, 2**62, (1,)).item()), 0
    torch.cuda.init()
    on_cuda = (each.get_device() for each in passed if getattr(each, "is_cuda", False))
    return of_device(torch.cuda.default_generators[next(on_cuda, 0)], count)


def of_device(generator: Any, count: int) -> tuple[int, int]:
    """Seed and offset of a device's generator, which is moved on."""
    seed, offset = int(generator.initial_seed()), int(generator.get_offset())
    generator.set_offset(offset + _STEP * count)
    signed = (seed + 2**63) % 2**64 - 2**63
    return signed, offset // _STEP
