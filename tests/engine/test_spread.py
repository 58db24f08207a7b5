"""Blocks of a kernel that starts early ask for so much memory that no multiprocessor takes many."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.fake_driver import no_kernels_loaded
from warpsmith import knobs, ops
from warpsmith.engine.executable import Executable
from warpsmith.engine.launches import Launch
from warpsmith.engine.loaded import Loaded
from warpsmith.engine.spread import MOST_SHARE, reserved_bytes
from warpsmith.runtime.arrays import NUMPY_DTYPES
from warpsmith.targets.hopper import H200, SM90A


def fitting(bytes_: int) -> int:
    """Blocks of so much shared memory that a multiprocessor holds (CUDA programming guide)."""
    return 233_472 // (-(-(bytes_ + 1024) // 128) * 128)


@pytest.mark.parametrize("sm_count", [132, 148, 7])
@pytest.mark.parametrize("share", range(1, MOST_SHARE + 1))
def test_a_multiprocessor_holds_its_share_and_no_more(share: int, sm_count: int) -> None:
    for blocks in ((share - 1) * sm_count + 1, share * sm_count):
        asked = reserved_bytes(256, blocks, replace(H200, sm_count=sm_count))
        assert asked <= SM90A.limits.block_shared
        assert fitting(asked) == share


def test_what_a_block_uses_is_the_least() -> None:
    assert reserved_bytes(200_000, 100, H200) == 200_000
    assert reserved_bytes(100_000, 300, H200) == 100_000


def test_more_blocks_than_that_fill_all_multiprocessors_anyway() -> None:
    assert reserved_bytes(256, MOST_SHARE * 132 + 1, H200) == 256


def gradients(x: Any, dy: Any, scale: Any) -> Any:
    """Rows beside sums of columns: the second kernel adds what the blocks of the first left."""
    normal = x * scale
    dx = (dy - normal * ops.mean(dy * normal, [-1], keepdim=True)) * scale
    return dx, ops.sum(dy * normal, [0])


def launches(early: bool, columns: int = 512, dtype: str = "float") -> tuple[Launch, ...]:
    x = np.zeros((264, columns), NUMPY_DTYPES[dtype])
    inputs = [x, x, np.zeros((264, 1), "f4")]
    fused = warpsmith.fuse(gradients).lower(*inputs)
    chosen = knobs.current().replace(early_launch=early)
    return Executable(fused.fusion).plan_for(inputs, chosen).launches


def test_only_early_kernels_spread() -> None:
    first, second = launches(early=True)
    assert first.reserved_bytes == first.shared_bytes
    assert second.early
    assert fitting(second.shared_bytes) > 1
    assert fitting(second.reserved_bytes) == 1
    for launch in launches(early=False):
        assert launch.reserved_bytes == launch.shared_bytes


def test_small_blocks_of_many_columns_spread() -> None:
    """Registers are there for 16 of a multiprocessor, so that 529 lay on 34 of 132."""
    _, second = launches(early=True, columns=8456, dtype="bfloat16")
    assert (math.prod(second.grid), math.prod(second.block)) == (529, 64)
    assert second.compiled.n_regs <= 64
    assert fitting(second.reserved_bytes) == 5


def test_the_driver_is_asked_for_what_is_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Recorder:
        def __init__(self, *_: object, **__: object) -> None: ...

        def launch(self, grid: Any, block: Any, shared_bytes: int, *_: object) -> None:
            asked.append(shared_bytes)

    monkeypatch.setattr("warpsmith.engine.loaded.ready_to_launch", Recorder)
    no_kernels_loaded(monkeypatch)
    both = launches(early=True)
    for launch in both:
        addresses = dict.fromkeys(launch.pointers, 0) | {each.tensor: 0 for each in launch.maps}
        Loaded(launch, 0).start(addresses, {}, 0)
    assert asked == [launch.reserved_bytes for launch in both]


def test_explain_says_so() -> None:
    x = np.zeros((264, 512), "f4")
    scale = np.zeros((264, 1), "f4")
    said = warpsmith.fuse(gradients).lower(x, x, scale).compile().explain()
    assert said.count("spreads     as each block asks for 115840 bytes of shared memory") == 1
