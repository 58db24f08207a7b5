"""Pointwise programs that share inputs alone are one kernel, each in blocks of its own."""

import re
from typing import Any

import numpy as np
import pytest

import warpsmith
from warpsmith import knobs, ops
from warpsmith.ir.apart import apart
from warpsmith.schedulers.side_by_side import candidate
from warpsmith.schedulers.side_by_side.candidate import SideBySide


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


def several(a: Any, b: Any, c: Any, rate: Any) -> Any:
    twice = b + b
    return ops.exp(a) * rate, twice * rate, ops.sin(c), c + 1.0, rate * 0.5, twice - 1.0


SHAPES = [
    ((37, 5), (1000,), (3, 4, 8)),
    ((1, 1), (128,), (0, 4, 8)),
    ((513,), (1, 7), (2, 3)),
    ((0,), (0, 3), (5, 0)),
]


@pytest.mark.few(2)
@pytest.mark.parametrize("shapes", SHAPES)
def test_each_program_has_blocks_of_its_own(shapes: tuple[tuple[int, ...], ...]) -> None:
    given = [*(drawn(*shape) for shape in shapes), drawn(1)]
    fused = warpsmith.fuse(several)
    compiled = fused.lower(*given).compile()
    sizes = [np.prod(shape) for shape in shapes]
    if min(sizes) > 0:
        assert [kernel.name.rpartition("_")[0] for kernel in compiled.kernels] == ["side_by_side"]
    found = fused(*given)
    with knobs.scope(device="reference"):
        wanted = fused(*given)
    for own, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-6)
    if max(sizes) > 0:
        assert compiled.verify().verdict == "clean"


def test_two_orders_of_an_input_have_a_kernel_each() -> None:
    def turned(a: Any, b: Any) -> Any:
        return a + ops.transpose(a, 0, 1), b * 2.0

    lowered = warpsmith.fuse(turned).lower(drawn(8, 8), drawn(5))
    assert "in two orders" in SideBySide.declines(lowered.fusion)
    assert len(lowered.compile().kernels) == 2


@pytest.mark.parametrize(("size", "kernels"), [(64, 1), (2048, 2)])
def test_large_programs_in_tiles_have_kernels_of_their_own(size: int, kernels: int) -> None:
    def turned(a: Any, b: Any, c: Any) -> Any:
        return a + ops.transpose(b, 0, 1), c * 2.0

    given = *(np.ones((size, size), np.float32) for _ in range(2)), drawn(5)
    assert len(warpsmith.fuse(turned).lower(*given).compile().kernels) == kernels


def test_a_kernel_has_no_more_tensors_than_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Any:
        return tuple(each * 2.0 for each in (a, b, c, d, e, f))

    lowered = warpsmith.fuse(doubled).lower(*(drawn(3 + k) for k in range(6)))
    assert len(apart(lowered.fusion)) == 6
    assert not SideBySide.declines(lowered.fusion)
    monkeypatch.setattr(candidate, "MOST_TENSORS", 11)
    assert "more than 11 tensors" in SideBySide.declines(lowered.fusion)


def test_joins_beside_each_other_read_vectors() -> None:
    def joined(a: Any, b: Any, c: Any, d: Any) -> Any:
        return ops.cat([a, b], -1), ops.exp(ops.cat([c, d], 0))

    given = [drawn(7 + (k == 3), 64) for k in range(4)]
    fused = warpsmith.fuse(joined)
    compiled = fused.lower(*given).compile()
    assert [kernel.name.rpartition("_")[0] for kernel in compiled.kernels] == ["side_by_side"]
    text = compiled.asm["cuda"]
    assert all(re.search(rf"ws_load(_where)?<.*T{k} \+", text) for k in range(4))
    found = fused(*given)
    with knobs.scope(device="reference"):
        wanted = fused(*given)
    for own, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5)
