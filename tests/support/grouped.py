"""Products by group, computed one after the other."""

from typing import Any

import numpy as np


def drawn(rows: int, k: int, n: int, groups: int, dtype: Any) -> tuple[Any, Any]:
    """Rows, and a matrix for each group."""
    random = np.random.default_rng(rows + 7 * n)
    x = random.uniform(-1, 1, (rows, k)).astype(dtype)
    return x, random.uniform(-1, 1, (groups, n, k)).astype(dtype)


def by_group(x: Any, w: Any, ends: Any) -> Any:
    """In float64; rows of no group are 0, and groups that end before others have none."""
    y = np.zeros((x.shape[0], w.shape[1]))
    begin = 0
    for matrix, end in zip(w, ends, strict=True):
        end = max(begin, min(end, len(x)))
        y[begin:end] = x[begin:end].astype(np.float64) @ matrix.astype(np.float64).T
        begin = end
    return y
