"""Dropouts backward draw before the rows of a turn are there, where blocks share them."""

import re
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from tests.schedulers.test_inner_outer import explained, on_simulator
from warpsmith import knobs, ops
from warpsmith.schedulers.rows import turns

ROWS, LENGTH, P, SEED = 9, 256, 0.25, 11
DRAWS = ("ws_philox_word(", "ws_kept_word(")


@pytest.fixture(autouse=True)
def in_two_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(turns, "CLUSTERS", (2,))
    with knobs.scope(warp_specialize=False, rings="prefer"):
        yield


def backward(x: Any, dy: Any, seed: Any) -> Any:
    """RMSNorm's, whose incoming gradient went through a dropout before."""
    total = dy - x * ops.mean(dy * x, [-1], keepdim=True)
    return ops.dropout(total, P, rng_seed=seed, rng_offset=3)[0], ops.sum(dy * x, [0])


def backward_that_tells(x: Any, dy: Any, seed: Any) -> Any:
    """The same, and what was kept."""
    total = dy - x * ops.mean(dy * x, [-1], keepdim=True)
    dropped, kept = ops.dropout(total, P, rng_seed=seed, rng_offset=3)
    return dropped, ops.sum(dy * x, [0]), kept


def multiplied(x: Any, dy: Any, seed: Any) -> Any:
    """Numbers that are used as they are."""
    total = dy - x * ops.mean(dy * x, [-1], keepdim=True)
    drawn = ops.uniform(0, 1, [ROWS, LENGTH], rng_seed=seed, rng_offset=3, fusion=x.fusion)
    return total * drawn, ops.sum(dy * x, [0])


def shared(x: Any, dy: Any, seed: Any, shape: list[int]) -> Any:
    """What is drawn once for all of a row, or of a column."""
    total = dy - x * ops.mean(dy * x, [-1], keepdim=True)
    drawn = ops.uniform(0, 1, shape, rng_seed=seed, rng_offset=3, fusion=x.fusion)
    return ops.where(ops.ge(drawn, P), total, 0.0), ops.sum(dy * x, [0])


def inputs(seed: Any = SEED, dtype: Any = np.float32) -> tuple[Any, ...]:
    random = np.random.default_rng(5)
    x, dy = random.standard_normal((2, ROWS, LENGTH)).astype(dtype)
    return x, dy, seed


def expected(given: tuple[Any, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """dx and the sums of columns in float64, and what is kept by NumPy's generator."""
    x, dy = (np.asarray(t, np.float64) for t in given[:2])
    with knobs.scope(device="reference"):
        kept = warpsmith.fuse(lambda t, seed: ops.dropout(t, P, rng_seed=seed, rng_offset=3)[1])(
            given[0], SEED
        )
    total = dy - x * (dy * x).mean(-1, keepdims=True)
    return np.where(kept, total / (1 - P), 0), (dy * x).sum(0), kept


def code(program: Any, given: tuple[Any, ...]) -> str:
    """Of the kernel that walks rows."""
    compiled = warpsmith.fuse(program).lower(*given).compile()
    return str(compiled.kernels[0].asm["cuda"])


def draws_before_it_waits(text: str) -> bool:
    """Whether a turn's draws stand before the one wait for its rows."""
    kernel = text[text.index('extern "C"') :]
    (wait,) = (found.start() for found in re.finditer(r"ws_barrier_wait\(ring\d_full", kernel))
    return min(kernel.index(draw) for draw in DRAWS if draw in kernel) < wait


@pytest.mark.few(1)
@pytest.mark.parametrize("program", [backward, backward_that_tells])
@pytest.mark.parametrize("seed", [SEED, np.full((1, 1), SEED)], ids=["number", "tensor"])
def test_what_is_kept_is_what_the_generator_says(program: Any, seed: Any) -> None:
    given = inputs(seed)
    dx, summed, *kept = on_simulator(program, given, "prefer")
    want = expected(given)
    np.testing.assert_allclose(dx, want[0], 1e-5, 1e-5)
    np.testing.assert_allclose(summed, want[1], 1e-5, 1e-4)
    assert np.array_equal(dx != 0, want[2])
    assert not kept or np.array_equal(kept[0], want[2])


@pytest.mark.parametrize("shape", [[ROWS, 1], [1, LENGTH]])
def test_rows_or_columns_that_share_a_number(shape: list[int]) -> None:
    given = inputs()
    dx, summed = on_simulator(lambda x, dy, seed: shared(x, dy, seed, shape), given, "prefer")
    x, dy = (t.astype(np.float64) for t in given[:2])
    with knobs.scope(device="reference"):
        drawn = warpsmith.fuse(
            lambda t, seed: ops.uniform(0, 1, shape, rng_seed=seed, rng_offset=3, fusion=t.fusion)
        )(given[0], SEED)
    total = dy - x * (dy * x).mean(-1, keepdims=True)
    np.testing.assert_allclose(dx, np.where(drawn >= P, total, 0), 1e-5, 1e-5)
    np.testing.assert_allclose(summed, (dy * x).sum(0), 1e-5, 1e-4)


def test_bfloat16_in_random_orders_of_blocks() -> None:
    found = warpsmith.verify(
        warpsmith.fuse(backward), list(inputs(dtype=ml_dtypes.bfloat16)), schedules=4
    )
    assert found.verdict == "clean", found


@pytest.mark.parametrize("seed", [SEED, np.full((1, 1), SEED)], ids=["number", "tensor"])
def test_bits_are_drawn_before_rows_are_waited_for(seed: Any) -> None:
    text = code(backward, inputs(seed))
    assert draws_before_it_waits(text)
    assert len(re.findall(r"ws_bits<\d+> \w+;", text)) == 1


@pytest.mark.parametrize("program", [backward_that_tells, multiplied])
def test_what_is_stored_or_multiplied_is_drawn_where_it_is_used(program: Any) -> None:
    text = code(program, inputs())
    assert "ws_bits<" not in text
    assert not draws_before_it_waits(text)


def test_blocks_that_have_rows_to_themselves_draw_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "CLUSTERS", (1,))
    assert "drawn_first=False" in explained(backward, inputs())
    text = code(backward, inputs())
    assert "ws_bits<" not in text
    assert not draws_before_it_waits(text)
