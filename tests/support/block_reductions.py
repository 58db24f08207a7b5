"""Reductions by hand schedules over threads of a block along any axes, and over blocks."""

import itertools
from typing import Any

import torch

from warpsmith import DataType, FusionDefinition, ParallelType

Shape = tuple[int, int, int]
Axes = tuple[bool, bool, bool]

BLOCKS: list[Shape] = [
    (32, 1, 1),
    (64, 1, 1),
    (96, 1, 1),
    (100, 1, 1),
    (256, 1, 1),
    (1024, 1, 1),
    (32, 8, 1),
    (16, 16, 1),
    (8, 32, 1),
    (8, 12, 1),
    (3, 5, 7),
    (4, 4, 8),
]
CASES: list[tuple[Shape, Axes]] = [
    (block, (x, y, z))
    for block in BLOCKS
    for x, y, z in itertools.product(*((False, True)[: min(extent, 2)] for extent in block))
    if x or y or z
]
"""Every choice of axes that has something to reduce along each of them."""

TYPES = {
    "sum": (DataType.Float, torch.float32),
    "prod": (DataType.Double, torch.float64),
    "max": (DataType.Float, torch.float32),
    "min": (DataType.Int, torch.int64),
    "var_mean": (DataType.Float, torch.float32),
}
HELD, ROWS = 2, 3
"""Results that a thread takes part in; results of a block, or of those that share some."""


def reduction(name: str, block: Shape, axes: Axes, splits: int = 1) -> FusionDefinition:
    """An operation on tensors `[ROWS, splits, z, y, x, HELD]`, a block for each row and split.

    Args:
        block: threads along x, y, z.
        axes: which of these are reduced; so are splits, where there are some.
    """
    shape = (splits, *reversed(block), HELD)
    with FusionDefinition() as fd:
        x: Any = fd.define_tensor([-1, *shape], True, TYPES[name][0])
        made = getattr(fd.ops, name)(x, _dims(axes, splits))
        for result in made if isinstance(made, tuple) else (made,):
            fd.add_output(fd.ops.set(result))
    x.cache_after()
    total: Any = next(t for t in fd.fusion.tensors if t.has_reduction)
    kinds = ("grid_x", "grid_y", "block_z", "block_y", "block_x", "unroll")
    for place, (kind, extent) in enumerate(zip(kinds, (ROWS, *shape), strict=True)):
        if extent != 1:
            total.axis(place).parallelize(ParallelType[kind])
    fd.sched.transform_like(total)
    fd.sched.parallelize_like(total)
    fd.sched.inline_at(total, 5, best_effort=True)
    return fd


def _dims(axes: Axes, splits: int) -> list[int]:
    return [*([1] if splits > 1 else []), *(4 - place for place, gone in enumerate(axes) if gone)]


def drawn(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Values whose reduction is exact in any order; but for moments, whose is not."""
    random = torch.Generator().manual_seed(shape[1])
    if name == "var_mean":
        return torch.randn(shape, generator=random) + 10
    if name == "min":
        return torch.randint(-(2**62), 2**62, shape, generator=random)
    if name == "prod":
        return (torch.randint(0, 2, shape, generator=random) * 2 - 1).to(torch.float64)
    values = torch.randint(-8, 9, shape, generator=random).to(torch.float32)
    if name == "max":
        values[torch.rand(shape, generator=random) < 0.001] = torch.nan
    return values


def check(
    name: str, block: Shape, axes: Axes, splits: int = 1, *, device: str = "cpu", launches: int = 1
) -> FusionDefinition:
    """Hold results against torch's, and those of several launches against each other."""
    x = drawn(name, (ROWS, splits, *reversed(block), HELD)).to(device)
    fd = reduction(name, block, axes, splits)
    first, *others = (fd.manual_execute([x]) for _ in range(launches))
    for again in others:
        for one, other in zip(first, again, strict=True):
            assert torch.equal(one.nan_to_num(), other.nan_to_num())
    dims = _dims(axes, splits)
    if name == "var_mean":
        for found, wanted in zip(first, torch.var_mean(x.double(), dims), strict=True):
            torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-4)
        return fd
    wanted = x
    for dim in sorted(dims, reverse=True):
        wanted = getattr(wanted, {"max": "amax", "min": "amin"}.get(name, name))(dim)
    torch.testing.assert_close(first[0], wanted, rtol=0, atol=0, equal_nan=True)
    return fd
