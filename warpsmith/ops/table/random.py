"""Numbers that look random: a function of an index, a seed and an offset, and of nothing else.

Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011): ten rounds make four words of 32 bits of a
counter of four words under a key of two. Here, with words from the lowest on, the key is the seed,
the counter is the offset and then a quarter of the index, and the index modulo 4 says which of the
four words is taken. That is curand's order: word `index % 4` of the numbers that a generator of
this seed, of subsequence `index / 4`, gives after `4 * offset` others.
"""

from __future__ import annotations

import numpy as np

from warpsmith.ir.dtypes import DataType
from warpsmith.ops.table.op import PointwiseOp, Rule, spelled

ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF
BITS = 24
"""Bits of a number in [0, 1): the highest ones of a word, all of which a float holds."""


def philox_words(index: np.ndarray, seed: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """The word of 32 bits for each index, as uint64; arguments are int64 and broadcast."""
    where, key, start = (np.asarray(a, np.int64).view(np.uint64) for a in (index, seed, offset))
    low, shift = np.uint64(_WORD), np.uint64(32)
    where, key, start = np.broadcast_arrays(where, key, start)
    block = where >> np.uint64(2)
    words = [start & low, start >> shift, block & low, block >> shift]
    keys = [key & low, key >> shift]
    for _ in range(ROUNDS):
        first, second = (np.uint64(m) * words[2 * k] for k, m in enumerate(_MULTIPLIERS))
        words = [
            (second >> shift) ^ words[1] ^ keys[0],
            second & low,
            (first >> shift) ^ words[3] ^ keys[1],
            first & low,
        ]
        keys = [(word + np.uint64(step)) & low for word, step in zip(keys, _STEPS, strict=True)]
    return np.choose((where & np.uint64(3)).astype(np.intp), words)


def _philox(index: np.ndarray, seed: np.ndarray, offset: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        words = philox_words(index, seed, offset)
    highest = (words >> np.uint64(32 - BITS)).astype(np.float32)
    return np.asarray(highest * np.float32(2.0**-BITS))


DRAWS = (
    PointwiseOp(
        name="philox",
        arity=3,
        rule=Rule.DRAW,
        numpy=_philox,
        cuda=spelled("ws_philox({0}, {1}, {2})", DataType.Int),
        pieces=("philox",),
        doc="A Float in [0, 1), a multiple of 2^-24, for an index, a seed and an offset.",
    ),
)
