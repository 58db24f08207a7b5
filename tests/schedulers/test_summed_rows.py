"""How many rows a thread of a norm backward adds up, how exactly, and how many at once."""

import re
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.norms_backward import (
    Case,
    explained,
    layer_norm_backward,
    rms_norm_backward,
)
from warpsmith.runtime import arrays
from warpsmith.schedulers.rows import turns
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.strategy import MOST_ADDED


@pytest.mark.usefixtures("uncompiled")
def test_a_new_row_count_changes_the_blocks_alone_unless_there_are_few_or_many_bytes() -> None:
    def line(rows: int, word: str) -> str:
        kind = arrays.NUMPY_DTYPES["bfloat16"]
        x, dy, weight = (np.zeros(shape, kind) for shape in ((rows, 2048), (rows, 2048), (2048,)))
        text = explained(rms_norm_backward, (x, dy, weight, np.zeros((rows, 1), np.float32)))
        return next(part for part in text.splitlines() if part.startswith(f"  {word}"))

    assert line(3, "parameters") == line(500, "parameters")
    assert line(3500, "parameters") == line(4000, "parameters")
    assert line(4200, "parameters") == line(6000, "parameters")
    assert line(40000, "parameters") == line(60000, "parameters")
    assert "streaming=False, evict_last=False" in line(4000, "parameters")
    assert "streaming=True, evict_last=False" in line(6000, "parameters")
    assert "streaming=False, evict_last=True" in line(60000, "parameters")
    assert "grid (3, 1, 1)" in line(3, "launch")
    assert "grid (125, 1, 1)" in line(500, "launch")


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_thread_adds_no_more_rows_than_its_sum_bears(dtype: str) -> None:
    """Blocks that are more than run at once, by a whole number of times."""
    kind = arrays.NUMPY_DTYPES["bfloat16"] if dtype == "bfloat16" else np.dtype(dtype)

    def launch(rows: int) -> tuple[int, int]:
        """Blocks, and rows side by side in each."""
        x, stat = np.empty((rows, 1024), kind), np.empty((rows, 1), np.float32)
        words = explained(layer_norm_backward, (x, x, x[0], stat, stat)).split("kernel 1")[0]
        found = [re.search(word, words) for word in (r"grid \((\d+),", r"block_y=(\d+)")]
        return tuple(int(match[1]) for match in found if match)

    few, _ = launch(132 * 192)  # as many turns of all blocks that run at once, whatever these are
    many, side = launch(4_000_000)
    assert many > few
    assert many % few == 0
    assert 4_000_000 / (many * side) <= MOST_ADDED < 4_000_000 / (many - few) / side


def test_sums_of_so_many_rows_are_as_exact_as_pairwise_ones() -> None:
    """As blocks add them, one row after the other, and sixteen threads their sums; 264 blocks gave
    1.2e-6, and torch's own sums are off by 5.4e-7.
    """
    rows, columns = 1_000_000, 32
    x = np.random.default_rng(9).standard_normal((rows, columns)).astype(np.float32)
    exact = x.sum(0, np.float64)
    blocks = -(-rows // MOST_ADDED)
    parts = np.zeros((blocks, columns), np.float32)
    for first in range(0, rows, blocks):
        some = x[first : first + blocks]
        parts[: len(some)] += some
    total = sum(parts[thread::16].sum(0) for thread in range(16))
    error = np.linalg.norm(total - exact) / np.linalg.norm(exact)
    assert error < 7e-7


@pytest.mark.few(1)
@pytest.mark.parametrize("columns", [6096, 4696])
def test_several_rows_of_two_sums_do_not_spill(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """The shape that has least room of them: two rows side by side had spilled 224 bytes."""
    every = turns.candidates

    def missing(params: RowParams) -> float:
        threads = params.block_x * params.block_y * params.blocks_per_sm
        kept = params.unroll * params.vector * (4 * params.rows_per_thread + 10) / 4
        return kept + 2 * params.vector - min(255, 65536 // threads)

    def candidates(*given: Any) -> list[RowParams]:
        return [max((p for p in every(*given) if p.at_once > 1), key=missing)]

    monkeypatch.setattr(turns, "candidates", candidates)
    inputs = Case((8, columns), "bfloat16").inputs(layer_norm_backward)
    made = warpsmith.fuse(layer_norm_backward, warp_specialize=False).lower(*inputs).compile()
    assert made.kernels[0].n_spills == 0
