"""Cases of roles on the GPU: the first launches of each kernel, for a process of their own."""

from typing import Any

from tests.support.ring_loads import Kind
from tests.support.role_case import Case
from tests.support.role_cases import case_named

POISONED = 8
"""Blocks of a size that the allocator may have kept from before."""
REPEATS = 2
"""Launches of a kernel and size, each on other numbers."""


def poison(like: Any) -> None:
    """Fill the blocks of which the allocator will hand out one as the next result."""
    import torch

    blocks = [torch.full_like(like, torch.nan) for _ in range(POISONED)]
    del blocks


def on_gpu(case: Case, extent: int, seed: int) -> tuple[list[Any], list[Any]]:
    """Random inputs, as arrays and as tensors of the same bits."""
    import torch

    inputs = case.inputs(extent, seed)
    kinds = {"bfloat16": torch.bfloat16}
    given = []
    for array in inputs:
        kind = kinds.get(array.dtype.name)
        bits = array.view("int16") if kind else array
        tensor = torch.from_numpy(bits).cuda()
        given.append(tensor.view(kind) if kind else tensor)
    return inputs, given


def off_gpu(case: Case, tensors: list[Any]) -> list[Any]:
    """Results as arrays of the case's type."""
    import torch

    narrow = [t.view(torch.int16) if t.dtype is torch.bfloat16 else t for t in tensors]
    return [t.cpu().numpy().view(case.dtype) for t in narrow]


def first_launches(name: str, kind: str) -> int:
    """Hold every kernel of a case and kind of load against the meaning, at every extent.

    Returns how many kernels there were.
    """
    case = case_named(name)
    feeds = [feed for feed in case.feeds() if feed.kind is Kind(kind)]
    for number, feed in enumerate(feeds):
        fd = case.schedule(feed)
        for extent in case.extents:
            for seed in range(REPEATS):
                inputs, given = on_gpu(case, extent, 1000 * number + seed)
                for tensor in given:
                    poison(tensor)
                results = off_gpu(case, fd.manual_execute(given))
                try:
                    case.check(results, inputs, extent)
                except AssertionError as error:
                    raise AssertionError(f"{name}-{feed}, extent {extent}: {error}") from error
    return len(feeds)
