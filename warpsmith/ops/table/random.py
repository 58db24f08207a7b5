"""Numbers that look random: a function of an index, a seed and an offset, and of nothing else.

Both generators (Salmon, Moraes, Dror and Shaw, 2011) make four words of 32 bits, a block, of a
counter and a key, which have words from the lowest on.

`philox` draws by Philox4x32-10 a word for each index. The key is the seed, and the counter is the
offset and then a quarter of the index, of which the remainder says which of the four words is
taken. That is curand's order: word `index % 4` of the numbers that a generator of this seed, of
subsequence `index / 4`, gives after `4 * offset` others.

`kept` decides by Threefry4x32-12, which multiplies nothing: tensor cores wait for warps that
multiply integers to 64 bits. The authors know no flaw of twelve rounds or more. The key is the seed
and the offset, the counter an eighth of the index: two indices share a word. An even one has the
word as it is, an odd one with its halves exchanged, so each has 16 bits of its own; those of the
other decide only where these are exactly the upper bits of the bound.
"""

from __future__ import annotations

import numpy as np

from warpsmith.ir.dtypes import DataType
from warpsmith.ops.table.op import PointwiseOp, Rule, quiet, spelled

_PHILOX_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
_THREEFRY_ROUNDS = 12
_TURNS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
_PARITY = 0x1BD11BDA
_WORD = 0xFFFFFFFF
BITS = 24
"""Bits of a number: the highest ones of a word, all of which a float holds."""


def philox_words(index: np.ndarray, seed: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """The word of 32 bits for each index, as uint64; arguments are int64 and broadcast."""
    where, key, start = _unsigned(index, seed, offset)
    words = [*_halves(start), *_halves(where >> np.uint64(2))]
    keys = _halves(key)
    for _ in range(_PHILOX_ROUNDS):
        first, second = (np.uint64(m) * words[2 * k] for k, m in enumerate(_MULTIPLIERS))
        words = [
            second >> np.uint64(32) ^ words[1] ^ keys[0],
            second & np.uint64(_WORD),
            first >> np.uint64(32) ^ words[3] ^ keys[1],
            first & np.uint64(_WORD),
        ]
        keys = [_word(word + np.uint64(step)) for word, step in zip(keys, _STEPS, strict=True)]
    return np.choose((where & np.uint64(3)).astype(np.intp), words)


def threefry_words(index: np.ndarray, seed: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """The same, of which an index has one with the other of its pair, its own half above."""
    where, key, start = _unsigned(index, seed, offset)
    keys = [*_halves(key), *_halves(start)]
    keys.append(np.uint64(_PARITY) ^ keys[0] ^ keys[1] ^ keys[2] ^ keys[3])
    counter = [*_halves(where >> np.uint64(3)), np.uint64(0), np.uint64(0)]
    words = [_word(a + b) for a, b in zip(counter, keys[:4], strict=True)]
    for turn in range(_THREEFRY_ROUNDS):
        for to, by in zip((0, 2), (1, 3) if turn % 2 == 0 else (3, 1), strict=True):
            words[to] = _word(words[to] + words[by])
            words[by] = _rotated(words[by], _TURNS[turn % 8][to // 2]) ^ words[to]
        step, last = divmod(turn + 1, 4)
        if last == 0:
            more = (0, 0, 0, step)
            words = [
                _word(w + keys[(step + n) % 5] + np.uint64(more[n])) for n, w in enumerate(words)
            ]
    word = np.choose((where >> np.uint64(1) & np.uint64(3)).astype(np.intp), words)
    return np.where(where & np.uint64(1), _rotated(word, 16), word)


def _unsigned(*given: np.ndarray) -> tuple[np.ndarray, ...]:
    return np.broadcast_arrays(*(np.asarray(a, np.int64).view(np.uint64) for a in given))


def _halves(number: np.ndarray) -> list[np.ndarray]:
    return [_word(number), number >> np.uint64(32)]


def _word(number: np.ndarray) -> np.ndarray:
    return np.asarray(number & np.uint64(_WORD))


def _rotated(word: np.ndarray, bits: int) -> np.ndarray:
    return _word(word << np.uint64(bits) | word >> np.uint64(32 - bits))


def _philox(index: np.ndarray, seed: np.ndarray, offset: np.ndarray) -> np.ndarray:
    highest = (philox_words(index, seed, offset) >> np.uint64(32 - BITS)).astype(np.float32)
    return np.asarray(highest * np.float32(2.0**-BITS))


def _kept(index: np.ndarray, least: np.ndarray, seed: np.ndarray, offset: np.ndarray) -> np.ndarray:
    highest = threefry_words(index, seed, offset) >> np.uint64(32 - BITS)
    return np.asarray(highest.astype(np.int64) >= least)


DRAWS = (
    PointwiseOp(
        name="philox",
        rule=Rule.DRAW,
        numpy=quiet(_philox),
        cuda=spelled("ws_philox({0}, {1}, {2})", DataType.Int),
        pieces=("philox",),
        doc="A Float in [0, 1), a multiple of 2^-24, for an index, a seed and an offset.",
    ),
    PointwiseOp(
        name="kept",
        rule=Rule.DECIDE,
        numpy=quiet(_kept),
        cuda=spelled("ws_kept({0}, {1}, {2}, {3})", DataType.Int),
        pieces=("kept",),
        doc="Whether the number below 2^24 of an index is at least a bound, for seed and offset.",
    ),
)
