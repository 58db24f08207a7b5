"""Scales of parts of k beside an operand that its product's kernel computes: each loaded once."""

from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.schedulers.matmul.test_prologues import BF16, check, force, run, whole
from warpsmith import DataType, knobs, ops


@pytest.mark.few(1)
@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("lines", [1, 2])
@pytest.mark.parametrize(("group", "k"), [(32, 512), (64, 352), (128, 512), (256, 768), (512, 700)])
def test_scales_that_elements_of_a_tile_share_are_loaded_once(
    monkeypatch: pytest.MonkeyPatch, group: int, k: int, lines: int, splits: int
) -> None:
    """Of tiles that have several, one, or a part of one; and of parts of k that blocks have."""
    depth = 64 * lines
    params: dict[str, Any] = {
        "tile": (64, 64, depth),
        "lines": lines,
        "splits": splits,
        "blocks": 4,
    }
    params |= {"chunk": 32, "stages": 2, "whole": depth * splits if k % (2 * depth) == 0 else 1}
    force(monkeypatch, params)
    x, weight = whole(200, k, dtype=np.int8), whole(72, k)
    scale = whole(200, -(-k // group), dtype=np.float32, most=2)
    if k % 16:
        x, weight = (np.pad(each, ((0, 0), (0, 4)))[:, :k] for each in (x, weight))

    def program(x: Any, weight: Any, scale: Any) -> Any:
        spread = ops.repeat_interleave(scale, group, 1, output_size=k)
        return ops.linear(ops.cast(ops.cast(x, DataType.Float) * spread, BF16), weight)

    check(run(program, x, weight, scale), x * np.repeat(scale, group, axis=1)[:, :k], weight)


def test_scales_of_blocks_and_scales_that_lie_along_rows() -> None:
    x, weight = whole(8, 384), whole(136, 384, seed=2, dtype=np.int8)
    block, turned = (whole(*shape, dtype=np.float32, most=2) for shape in ((2, 3), (6, 136)))

    def program(x: Any, weight: Any, block: Any, turned: Any) -> Any:
        rows = ops.repeat_interleave(block, 128, 0, output_size=136)
        spread = ops.repeat_interleave(rows, 128, 1)
        other = ops.repeat_interleave(ops.transpose(turned), 64, 1)
        wide = ops.cast(weight, DataType.Float) * spread * other
        return ops.linear(x, ops.cast(wide, BF16))

    spread = np.repeat(np.repeat(block, 128, axis=0)[:136], 128, axis=1)
    wanted = weight * spread * np.repeat(turned.T, 64, axis=1)
    check(run(program, x, weight, block, turned), x, wanted)


@pytest.mark.few(2)
@pytest.mark.parametrize(("group", "ahead"), [(128, True), (32, True), (8, False)])
def test_they_are_loaded_before_the_loop_over_elements(group: int, ahead: bool) -> None:
    """Few of them a step ahead: before the first one, and for the next one in each."""
    x, weight = whole(8, 256), whole(72, 256, dtype=np.int8)
    scale = whole(72, 256 // group, dtype=np.float32)

    def program(x: Any, weight: Any, scale: Any) -> Any:
        spread = ops.repeat_interleave(scale, group, 1)
        return ops.linear(x, ops.cast(ops.cast(weight, DataType.Float) * spread, BF16))

    check(run(program, x, weight, scale), x, weight * np.repeat(scale, group, 1).astype(np.float64))
    with knobs.scope(device="sim"):
        (kernel,) = warpsmith.fuse(program).lower(x, weight, scale).compile().kernels
    before, loop = kernel.cuda.split("ws_barrier_wait(ring0_full", 1)
    assert before.count("= T2[") == 1 + ahead
    assert "= T2[" not in loop
