"""Matrix products to test: definitions, random operands, and what a result may differ by."""

from collections.abc import Mapping
from dataclasses import replace
from math import gcd
from typing import Any

import ml_dtypes
import numpy as np

from warpsmith import DataType, FusionDefinition
from warpsmith.schedulers.matmul.params import MatmulParams
from warpsmith.schedulers.matmul.room import Room
from warpsmith.schedulers.matmul.ways import Ways
from warpsmith.targets.hopper import SM90A

Array = np.ndarray

TYPES = {DataType.BFloat16: ml_dtypes.bfloat16, DataType.Half: np.float16}


def linear(dtype: DataType = DataType.BFloat16) -> FusionDefinition:
    """`x [m, k] @ weight [n, k].T`, sizes left to the calls."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, dtype)
        weight = fd.define_tensor([-1, -1], True, dtype)
        fd.add_output(fd.ops.linear(x, weight))
    return fd


def operands(
    m: int, n: int, k: int, seed: int, dtype: DataType = DataType.BFloat16
) -> tuple[Array, Array]:
    """Fresh random operands `[m, k]` and `[n, k]`."""
    random = np.random.default_rng([m, n, k, seed])
    x, weight = (random.uniform(-2, 2, (rows, k)).astype(TYPES[dtype]) for rows in (m, n))
    return x, weight


def check(result: Array, x: Array, weight: Array) -> None:
    """Hold a result against float64: one rounding, and what sums in float of any order lose."""
    wide, other = x.astype(np.float64), weight.astype(np.float64).T
    wanted, size = wide @ other, np.abs(wide) @ np.abs(other)
    rounding = float(ml_dtypes.finfo(x.dtype).eps) / 2
    allowed = rounding * np.abs(wanted) + 2.0**-22 * x.shape[1] ** 0.5 * size
    actual = result.astype(np.float64)
    assert actual.shape == wanted.shape
    assert np.isfinite(actual).all()
    worst = np.max(np.abs(actual - wanted) - allowed, initial=-1.0)
    assert worst <= 0, f"{worst} beyond what rounding allows"


def with_tile(params: MatmulParams, turns: int, tile: tuple[int, int], **also: Any) -> MatmulParams:
    """Parameters with a tile, groups in turn or none, and all stages that there is room for."""
    given = {
        "tile": (*tile, params.tile[2] // params.lines * also.get("lines", 1)),
        "lines": 1,
        "chunk": gcd(params.chunk, tile[1]),
        "store_stages": min(params.store_stages, 2),
        "stages": int(Room(tile, SM90A.limits, places=turns or 1).stages(64)),
        "cluster": (1, 1),
        "splits": 1,
        "ping_pong": turns,
        "swapped": False,
        "passes": 1,
        "parts": 1,
        "stream": False,
    }
    return replace(params, **{**given, **also})


def only(ways: Ways, wanted: Mapping[str, int], **changed: int) -> Ways:
    """Those schedules that have some numbers, with others in place of their own."""
    found = ways.at(np.all([getattr(ways, name) == has for name, has in wanted.items()], axis=0))
    numbers = {name: np.full(len(found), number) for name, number in changed.items()}
    return found.at(np.arange(len(found)), **numbers)


def first_launches(sizes: tuple[tuple[int, int, int], ...]) -> int:
    """Results on the GPU at these sizes, held against float64 products; how many there were."""
    import torch

    fd = linear()
    for number, (m, n, k) in enumerate(sizes):
        torch.manual_seed(number)
        x, weight = (torch.rand(r, k, device="cuda").mul_(4).sub_(2).bfloat16() for r in (m, n))
        poison(m, n)
        (result,) = fd.execute([x, weight])
        check_on_gpu(result, x, weight)
    return len(sizes)


def check_on_gpu(result: Any, x: Any, weight: Any) -> None:
    """As `check`, of tensors on the GPU."""
    wide, other = x.double(), weight.double().T
    wanted, size = wide @ other, wide.abs() @ other.abs()
    allowed = 2.0**-8 * wanted.abs() + 2.0**-22 * x.shape[1] ** 0.5 * size
    assert result.shape == wanted.shape
    excess = (result.double() - wanted).abs() - allowed
    assert bool((excess <= 0).all()), f"{float(excess.max())} beyond what rounding allows"


def poison(m: int, n: int) -> None:
    """Fill the blocks of which the allocator will hand out one as the next result."""
    import torch

    blocks = [torch.full((m, n), torch.nan, device="cuda").bfloat16() for _ in range(4)]
    del blocks
