"""What rounding does to dW and dB of a million rows: sums in float, in the order of the kernels.

Row `r` belongs to block `r mod blocks`. A thread adds those of its block one after the other, at
worst all of them, and the second kernel adds the blocks' sums.
"""

from collections.abc import Callable

import numpy as np
import pytest

ROWS, COLUMNS = 1_000_000, 8
BLOCKS = 264
"""Two a multiprocessor of an H200, the most that there are."""


def summed_as_kernels_do(values: np.ndarray) -> np.ndarray:
    padded = np.zeros((-(-ROWS // BLOCKS) * BLOCKS, COLUMNS), np.float32)
    padded[:ROWS] = values
    running = np.zeros((BLOCKS, COLUMNS), np.float32)
    for turn in padded.reshape(-1, BLOCKS, COLUMNS):
        running += turn
    total = np.zeros(COLUMNS, np.float32)
    for block in running:
        total += block
    return total


def relative_error(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("draw", "limit"),
    [
        (lambda rng: rng.standard_normal((ROWS, COLUMNS)), 4e-6),
        (lambda rng: rng.random((ROWS, COLUMNS)), 4e-6),
        (lambda rng: 100 + rng.standard_normal((ROWS, COLUMNS)), 1e-5),
    ],
    ids=["signs cancel", "one sign", "almost equal"],
)
def test_sums_of_a_million_rows(draw: Callable[..., np.ndarray], limit: float) -> None:
    values = draw(np.random.default_rng(0)).astype(np.float32)
    exact = values.astype(np.float64).sum(0)
    ours = relative_error(summed_as_kernels_do(values), exact)
    one_after_the_other = relative_error(np.cumsum(values, 0, np.float32)[-1], exact)
    assert ours < limit
    assert ours < one_after_the_other / 4
