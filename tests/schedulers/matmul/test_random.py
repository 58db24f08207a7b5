"""Random numbers behind a product, in its kernel: the ones that the places of its elements give."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.product_programs import values, wide
from warpsmith import DataType, FusionDefinition, knobs, ops
from warpsmith.schedulers.matmul import applicability, heuristic
from warpsmith.targets.hopper import H200

P, OFFSET = 0.25, 3

TURNS: dict[str, Any] = {"tile": (64, 64, 64), "passes": 1, "ping_pong": 2, "stages": 4}


def dropped(x: Any, weight: Any, residual: Any, seed: Any) -> Any:
    h = ops.dropout(ops.linear(x, weight), P, rng_seed=seed, rng_offset=OFFSET)[0]
    return ops.add(h, residual)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("shape", "given"),
    [
        ((136, 72, 72), {"tile": (64, 32, 64), "chunk": 32}),
        ((136, 72, 72), {"tile": (64, 32, 64), "chunk": 16, "ping_pong": 2, "stages": 4}),
        ((136, 72, 136), {"tile": (64, 32, 64), "chunk": 32, "parts": 2}),
        ((136, 72, 72), {"tile": (64, 24, 64), "chunk": 24}),
        ((136, 72, 72), {"tile": (64, 40, 64), "chunk": 8}),
        ((130, 76, 72), {"tile": (128, 64, 64)}),
        ((130, 74, 72), {"tile": (128, 64, 64), "chunk": 0, "staged": (), "by_rows": ()}),
        ((130, 74, 72), {"tile": (128, 64, 64), "chunk": 32}),
        ((9, 72, 72), {}),
    ],
)
def test_dropout_and_a_residual_are_one_kernel(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int, int], given: dict[str, Any]
) -> None:
    """The same elements are dropped as alone, in rows of any length."""
    chosen = heuristic.choose
    usual = {"splits": 1, "parts": 1, "ping_pong": 0, "cluster": (1, 1), "group": 1, "stages": 3}
    usual["stream"] = False
    if given:
        monkeypatch.setattr(
            heuristic, "choose", lambda *args: replace(chosen(*args), **usual | given)
        )
    monkeypatch.setattr("warpsmith.planner.trials.divided", lambda *given: iter(()))
    m, n, k = shape
    x, weight, residual = values((m, k), 1), values((n, k), 2), values((m, n), 3)
    fused = warpsmith.fuse(dropped)
    with knobs.scope(device="reference"):
        kept = warpsmith.fuse(lambda h: ops.dropout(h, P, rng_seed=7, rng_offset=OFFSET)[1])(
            np.ones((m, n), np.float32)
        )
    with knobs.scope(device="sim"):
        result = fused(x, weight, residual, 7)
        compiled = fused.lower(x, weight, residual, 7).compile()
        assert compiled.verify(schedules=2).verdict == "clean"
    said = compiled.explain()
    assert said.startswith("1 kernel")
    assert "scheduler   matmul\n" in said
    product = wide(x) @ wide(weight).T
    wanted = np.where(kept, product / (1 - P), 0) + wide(residual)
    assert 0.6 < kept.mean() < 0.9
    assert np.abs(wide(result) - wanted).max() < 2.0**-6 * np.abs(wanted).max()
    assert np.array_equal(wide(result)[~kept], wide(residual)[~kept])


def test_four_lanes_draw_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a quarter of the blocks, where all say the same one: in rows of 72, not of 76."""
    monkeypatch.setattr("warpsmith.planner.trials.divided", lambda *given: iter(()))

    def cuda(program: Any, columns: int, seed: Any = 7) -> str:
        x, weight, residual = (
            values((72, 72), 1),
            values((columns, 72), 2),
            values((72, columns), 3),
        )
        compiled = warpsmith.fuse(program).lower(x, weight, residual, seed).compile()
        return str(compiled.asm["cuda"].split("__global__")[1])

    def masks(x: Any, weight: Any, residual: Any, seed: Any) -> Any:
        return ops.dropout(dropped(x, weight, residual, seed), P, rng_seed=3, rng_offset=0)[0]

    def numbers(x: Any, weight: Any, residual: Any, seed: Any) -> Any:
        h = ops.linear(x, weight)
        drawn = ops.uniform(0.0, 1.0, ops.shape(h), rng_seed=seed, rng_offset=0, fusion=x.fusion)
        return ops.add(ops.add(h, drawn), residual)

    told = [cuda(dropped, 72), cuda(dropped, 76), cuda(masks, 72), cuda(numbers, 72)]
    told.append(cuda(dropped, 72, np.array([7])))
    asked = ("ws_kept_quads(", "ws_kept_word(", "ws_kept_half(", "ws_philox_word(")
    counts = [[text.count(name) for name in asked] for text in told]
    assert counts == [[1, 0, 1, 0], [0, 1, 0, 0], [2, 0, 2, 0], [0, 0, 0, 1], [1, 0, 1, 0]]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("k", "tile", "passes"),
    [
        (72, (64, 64, 64), 1),
        (328, (64, 64, 64), 1),
        (328, (256, 32, 64), 2),
        (328, (128, 64, 64), 1),
        (584, (128, 64, 64), 1),
    ],
    ids=["fewer steps than draws", "more", "two parts of 64 rows", "too few for turns", "in turns"],
)
def test_groups_that_share_a_tile_draw_beside_its_products(
    monkeypatch: pytest.MonkeyPatch, k: int, tile: tuple[int, int, int], passes: int
) -> None:
    """Four times a tile, of which each of its chunks has a bit for each element; the same ones."""
    chosen = heuristic.choose
    given: dict[str, Any] = {"tile": tile, "passes": passes, "chunk": 16, "cluster": (1, 1)}
    given |= {
        "group": 1,
        "load_stages": 0 if passes == 2 else 2,
    }  # through operands' stages, or not
    given |= {"splits": 1, "parts": 1, "ping_pong": 0, "stream": False, "stages": 3}
    monkeypatch.setattr(heuristic, "choose", lambda *args: replace(chosen(*args), **given))
    x, weight, residual = values((136, k), 1), values((72, k), 2), values((136, 72), 3)
    fused = warpsmith.fuse(dropped)
    with knobs.scope(device="sim"):
        result = fused(x, weight, residual, 7)
    with knobs.scope(device="reference"):
        ones = np.ones(residual.shape, np.float32)
        kept = warpsmith.fuse(lambda h: ops.dropout(h, P, rng_seed=7, rng_offset=OFFSET)[1])(ones)
    assert np.array_equal(wide(result)[~kept], wide(residual)[~kept])
    wanted = np.where(kept, wide(x) @ wide(weight).T / (1 - P), 0) + wide(residual)
    assert np.abs(wide(result) - wanted).max() < 2.0**-6 * np.abs(wanted).max()

    def masks(x: Any, weight: Any, residual: Any, seed: Any) -> Any:
        return ops.dropout(dropped(x, weight, residual, seed), P, rng_seed=3, rng_offset=0)[0]

    for program, drawn in ((masks, 4), (dropped, 2)):  # in a step, and where steps are fewer
        asm = warpsmith.fuse(program).lower(x, weight, residual, 7).compile().asm
        asked = asm["cuda"].split("__global__")[1]
        assert asked.count("ws_keep_bits(") == asked.count("ws_kept_quads(") == drawn
        assert "ws_kept_half(" not in asked
    monkeypatch.setattr(heuristic, "choose", lambda *args: replace(chosen(*args), **given | TURNS))
    turns = warpsmith.fuse(dropped).lower(x, weight, residual, 7).compile().asm["cuda"]
    assert "ws_keep_bits" not in turns  # another group multiplies while one draws
    names = "ws_commit_products", "ws_await_prod", "ws_barrier_release(", "ws_keep_bits"
    order = [asked.index(name) for name in names]
    assert order == sorted(order)


def test_two_masks_and_one_that_is_asked_for() -> None:
    def twice(x: Any, weight: Any, seed: Any) -> Any:
        h, kept = ops.dropout(ops.linear(x, weight), P, rng_seed=seed, rng_offset=OFFSET)
        return ops.dropout(h, P, rng_seed=3, rng_offset=OFFSET)[0], kept

    x, weight = values((72, 136), 1), values((72, 136), 2)
    ones, seed = np.ones((72, 72), np.float32), np.array([7])  # a seed of one element in memory
    fused = warpsmith.fuse(twice)
    with knobs.scope(device="reference"):
        first, second = (
            warpsmith.fuse(lambda h, s=s: ops.dropout(h, P, rng_seed=s, rng_offset=OFFSET)[1])(ones)
            for s in (7, 3)
        )
    with knobs.scope(device="sim"):
        result, kept = fused(x, weight, seed)
        assert fused.lower(x, weight, seed).compile().verify(schedules=2).verdict == "clean"
    wanted = np.where(first & second, wide(x) @ wide(weight).T / (1 - P) ** 2, 0)
    assert np.array_equal(kept, first)
    assert np.abs(wide(result) - wanted).max() < 2.0**-6 * np.abs(wanted).max()
    assert np.array_equal(wide(result) == 0, ~(first & second))


def test_other_reshapes_are_left_to_kernels_of_their_own() -> None:
    with FusionDefinition() as fd:
        x, weight = (fd.define_tensor([-1, -1], True, DataType.BFloat16) for _ in range(2))
        flat = fd.define_tensor([-1], True, DataType.BFloat16)
        h = fd.ops.linear(x, weight)
        whole = fd.ops.reshape(flat, fd.ops.shape(h))
        fd.add_output(fd.ops.add(h, whole))
    said = applicability.refusal(fd.fusion, H200)
    assert said == "it has other operations than pointwise ones beside the product"
