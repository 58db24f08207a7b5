"""Numbers that look random: a function of an index, a seed and an offset, and of nothing else.

Philox4x32 (Salmon, Moraes, Dror and Shaw, 2011): rounds make four words of 32 bits of a counter of
four words under a key of two. Here, with words from the lowest on, the key is the seed, and the
counter is the offset and then the number of a block.

`philox` takes ten rounds, and a word for each index: word `index % 4` of block `index // 4`. That
is curand's order: word `index % 4` of the numbers that a generator of this seed, of subsequence
`index / 4`, gives after `4 * offset` others.

`kept` decides, for which less will do: two indices share a word, so eight a block, of seven rounds,
the fewest that pass BigCrush. An even index has the word as it is, an odd one with its halves
exchanged. So each has 16 bits of its own, and those of the other decide only where these are
exactly the upper bits of the bound.
"""

from __future__ import annotations

import numpy as np

from warpsmith.ir.dtypes import DataType
from warpsmith.ops.table.op import PointwiseOp, Rule, quiet, spelled

ROUNDS, FEW_ROUNDS = 10, 7
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF
BITS = 24
"""Bits of a number: the highest ones of a word, all of which a float holds."""


def philox_block(
    block: np.ndarray, seed: np.ndarray, offset: np.ndarray, rounds: int
) -> tuple[np.ndarray, ...]:
    """The four words of 32 bits of each block, as uint64; arguments are uint64 and broadcast."""
    low, shift = np.uint64(_WORD), np.uint64(32)
    words = [offset & low, offset >> shift, block & low, block >> shift]
    keys = [seed & low, seed >> shift]
    for _ in range(rounds):
        first, second = (np.uint64(m) * words[2 * k] for k, m in enumerate(_MULTIPLIERS))
        words = [
            (second >> shift) ^ words[1] ^ keys[0],
            second & low,
            (first >> shift) ^ words[3] ^ keys[1],
            first & low,
        ]
        keys = [(word + np.uint64(step)) & low for word, step in zip(keys, _STEPS, strict=True)]
    return tuple(np.broadcast_arrays(*words))


def _numbers(*given: np.ndarray) -> tuple[np.ndarray, ...]:
    return np.broadcast_arrays(*(np.asarray(a, np.int64).view(np.uint64) for a in given))


def _philox(index: np.ndarray, seed: np.ndarray, offset: np.ndarray) -> np.ndarray:
    where, key, start = _numbers(index, seed, offset)
    words = philox_block(where >> np.uint64(2), key, start, ROUNDS)
    word = np.choose((where & np.uint64(3)).astype(np.intp), words)
    highest = (word >> np.uint64(32 - BITS)).astype(np.float32)
    return np.asarray(highest * np.float32(2.0**-BITS))


def _kept(index: np.ndarray, least: np.ndarray, seed: np.ndarray, offset: np.ndarray) -> np.ndarray:
    where, key, start = _numbers(index, seed, offset)
    words = philox_block(where >> np.uint64(3), key, start, FEW_ROUNDS)
    word = np.choose((where >> np.uint64(1) & np.uint64(3)).astype(np.intp), words)
    half = np.uint64(16)
    turned = (word << half | word >> half) & np.uint64(_WORD)
    own = np.where(where & np.uint64(1), turned, word)
    return np.asarray((own >> np.uint64(32 - BITS)).astype(np.int64) >= least)


DRAWS = (
    PointwiseOp(
        name="philox",
        arity=3,
        rule=Rule.DRAW,
        numpy=quiet(_philox),
        cuda=spelled("ws_philox({0}, {1}, {2})", DataType.Int),
        pieces=("philox",),
        doc="A Float in [0, 1), a multiple of 2^-24, for an index, a seed and an offset.",
    ),
    PointwiseOp(
        name="kept",
        arity=4,
        rule=Rule.DECIDE,
        numpy=quiet(_kept),
        cuda=spelled("ws_kept({0}, {1}, {2}, {3})", DataType.Int),
        pieces=("philox",),
        doc="Whether the number below 2^24 of an index is at least a bound, for seed and offset.",
    ),
)
