"""A pointwise kernel behind another one goes through memory from its end."""

from typing import Any

import numpy as np

import warpsmith
from warpsmith import knobs, ops


def centred(x: Any) -> Any:
    """A row that no cluster holds: a reduction, and a kernel that reads it again."""
    return x - ops.mean(x, [1], keepdim=True)


def test_the_second_kernel_counts_down_and_is_right() -> None:
    x = np.random.default_rng(0).standard_normal((1, 1200000)).astype(np.float32)
    fused = warpsmith.fuse(centred)
    made = fused.lower(x).compile()
    first, second = (str(kernel.asm["cuda"]) for kernel in made.kernels)
    assert "gridDim.x - 1 - blockIdx.x" not in first
    assert "const int grid_x = gridDim.x - 1 - blockIdx.x;" in second
    assert "last_first=True" in made.explain()
    with knobs.scope(device="sim"):
        found = np.asarray(fused(x))
    np.testing.assert_allclose(
        found, x - x.astype(np.float64).mean(1, keepdims=True), rtol=1e-4, atol=1e-5
    )


def test_a_kernel_alone_counts_up() -> None:
    x = np.ones((64, 64), np.float32)
    made = warpsmith.fuse(lambda x: x * 2.0).lower(x).compile()
    assert "gridDim.x - 1" not in str(made.asm["cuda"]).split("__global__")[-1]
    assert "last_first=False" in made.explain()
