"""Whole numbers in the order of floats, which sorting takes apart bit by bit."""

from __future__ import annotations

import numpy as np

from warpsmith.ir.dtypes import DataType
from warpsmith.ops.table.op import Meaning, PointwiseOp, Rule, quiet, spelled


def _rank(kind: type[np.floating]) -> Meaning:
    """Bits of a float, of which the sign is turned, and of negative ones all: NaN is the last."""
    bits = 8 * np.dtype(kind).itemsize
    unsigned = np.dtype(f"u{bits // 8}").type

    def rank(x: np.ndarray) -> np.ndarray:
        word = (x.astype(kind) + kind(0)).view(unsigned)  # one zero, of both signs
        sign = unsigned(1 << (bits - 1))
        found = np.where(word & sign, ~word, word ^ sign)
        return np.asarray(np.where(np.isnan(x), unsigned(2**bits - 1), found).astype(np.int64))

    return quiet(rank)


RANKS = tuple(
    PointwiseOp(
        name=name,
        rule=Rule.RANK,
        numpy=_rank(kind),
        cuda=spelled("ws_rank({0})", dtype),
        pieces=("rank",),
        doc=f"A number of {8 * dtype.size} bits without a sign, larger for larger floats; NaN's is "
        "the largest, and that of both zeros is one.",
    )
    for name, kind, dtype in (
        ("float_rank", np.float32, DataType.Float),
        ("double_rank", np.float64, DataType.Double),
    )
)
