"""Numbers that look random: Philox itself, what is made of it, and that no schedule changes it."""

import math
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.rebuilding import rebuilt
from warpsmith import knobs, ops
from warpsmith.errors import DefinitionError
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.evaluate import evaluate
from warpsmith.ops.table import TABLE
from warpsmith.ops.table.random import philox_words, threefry_words

WORD = 2**32 - 1
PI = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]
TURNS = [(10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)]


def plain_philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10 in Python's integers."""
    a, b, c, d = counter
    low, high = key
    for _ in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (second >> 32) ^ b ^ low, second & WORD, (first >> 32) ^ d ^ high, first & WORD
        low, high = (low + 0x9E3779B9) & WORD, (high + 0xBB67AE85) & WORD
    return [a, b, c, d]


def plain_threefry(counter: list[int], key: list[int], rounds: int = 12) -> list[int]:
    """Threefry4x32 in Python's integers."""
    keys = [*key, 0x1BD11BDA ^ key[0] ^ key[1] ^ key[2] ^ key[3]]
    a, b, c, d = ((n + k) & WORD for n, k in zip(counter, key, strict=True))
    for turn in range(rounds):
        one, two = TURNS[turn % 8]
        a, c = (a + b) & WORD, (c + d) & WORD
        b = (b << one | b >> 32 - one) & WORD ^ a
        d = (d << two | d >> 32 - two) & WORD ^ c
        b, d = d, b  # the next one adds them the other way round
        if turn % 4 == 3:
            by = turn // 4 + 1
            added = [keys[(by + n) % 5] + by * (n == 3) for n in range(4)]
            a, b, c, d = ((n + k) & WORD for n, k in zip((a, b, c, d), added, strict=True))
    return [a, d, c, b] if rounds % 2 else [a, b, c, d]


def signed(low: int, high: int) -> int:
    value = low | high << 32
    return value - 2**64 if value >= 2**63 else value


def halves(*numbers: int) -> list[int]:
    return [number >> 32 * k & WORD for number in numbers for k in (0, 1)]


def number(index: int, seed: int, offset: int) -> float:
    """What `philox` gives for one index."""
    return (plain_philox(halves(offset, index >> 2), halves(seed))[index & 3] >> 8) * 2.0**-24


def own_number(index: int, seed: int, offset: int) -> int:
    """What `kept` compares: 16 bits of an index's own, and 8 of the one that shares its word."""
    words = plain_threefry([*halves(index >> 3), 0, 0], halves(seed, offset))
    word = f"{words[index // 2 % 4]:08x}"
    return int(word[4:] + word[:4] if index % 2 else word, 16) // 256


def test_known_answers() -> None:
    """Those that the authors of both generators publish: for ten rounds, and for 13 and 20."""
    key = [0xA4093822, 0x299F31D0, 0x082EFA98, 0xEC4E6C89]

    def hexadecimal(words: Any) -> str:
        return " ".join(f"{int(word):08x}" for word in words)

    assert hexadecimal(plain_philox([0] * 4, [0, 0])) == "6627e8d5 e169c58d bc57ac4c 9b00dbd8"
    assert hexadecimal(plain_philox(PI, key[:2])) == "d16cfe09 94fdcceb 5001e420 24126ea1"
    zeros = plain_threefry([0] * 4, [0] * 4, 13)
    assert hexadecimal(zeros) == "531c7e4f 39491ee5 2c855a92 3d6abf9a"
    assert hexadecimal(plain_threefry(PI, key, 13)) == "4aa71d8f 734738c2 431fc6a8 ae6debf1"
    twenty = plain_threefry(PI, key, 20)
    assert hexadecimal(twenty) == "59cd1dbb b8879579 86b5d00c ac8b6d84"


def test_words_are_those_of_plain_integers() -> None:
    key = [0xA4093822, 0x299F31D0, 0x082EFA98, 0xEC4E6C89]
    seed, offset = (np.int64(signed(*part)) for part in (key[:2], key[2:]))
    place = 2**59 + 5
    with np.errstate(over="ignore"):
        drawn = philox_words(4 * place + np.arange(4), seed, offset)
        shared = threefry_words(8 * place + np.arange(8), seed, offset)
    assert drawn.tolist() == plain_philox([*key[2:], *halves(place)], key[:2])
    words = plain_threefry([*halves(place), 0, 0], key)
    assert shared[::2].tolist() == words
    assert shared[1::2].tolist() == [(word << 16 | word >> 16) & WORD for word in words]


def drawn(make: Any, *inputs: Any) -> list[np.ndarray]:
    """Results of a definition, as NumPy evaluates it."""
    with FusionDefinition() as fd:
        made = make(fd, *(fd.define_scalar(DataType.Int) for _ in inputs))
        for result in made if isinstance(made, tuple) else (made,):
            fd.add_output(result)
    return evaluate(fd.fusion, list(inputs))


@pytest.mark.parametrize("shape", [[23], [5, 7], [2, 1, 3, 4], [1], [1, 1], []], ids=str)
def test_places_are_counted_row_by_row(shape: list[int]) -> None:
    seed, offset = -(2**62) + 12345, 2**40 + 7
    (found,) = drawn(
        lambda fd, s, o: fd.ops.uniform(0.0, 1.0, shape, rng_seed=s, rng_offset=o), seed, offset
    )
    assert found.shape == tuple(shape)
    expected = [number(k, seed % 2**64, offset) for k in range(math.prod(shape))]
    assert found.ravel().tolist() == expected


@pytest.mark.parametrize(
    ("dtype", "step"),
    [
        (DataType.Float, 2.0**-24),
        (DataType.Half, 2.0**-11),
        (DataType.BFloat16, 2.0**-8),
        (DataType.Double, 2.0**-48),
    ],
)
def test_numbers_are_even_and_below_one(dtype: DataType, step: float) -> None:
    (found,) = drawn(
        lambda fd: fd.ops.uniform(0, 1, [100_000], rng_seed=3, rng_offset=0, dtype=dtype)
    )
    wide = found.astype(np.float64)
    assert wide.min() >= 0.0
    assert wide.max() < 1.0
    assert not (wide / step % 1).any()
    assert abs(wide.mean() + step / 2 - 0.5) < 4 / math.sqrt(12 * 100_000)
    counts, _ = np.histogram(wide, 64, (0, 1))
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 63 + 4 * math.sqrt(2 * 63)


def test_ranges_and_types() -> None:
    (found,) = drawn(lambda fd, s: fd.ops.uniform(-2.0, 6.0, [1000], rng_seed=s, rng_offset=1), 9)
    assert -2.0 <= found.min() < -1.9
    assert 5.9 < found.max() <= 6.0
    assert found.dtype == np.float32


def test_seeds_and_offsets_give_other_numbers() -> None:
    def four(fd: Any) -> Any:
        pairs = ((0, 0), (1, 0), (0, 1), (2**32, 0))
        return tuple(fd.ops.uniform(0, 1, [64], rng_seed=s, rng_offset=o) for s, o in pairs)

    found = drawn(four)
    for k, one in enumerate(found):
        assert not any(np.isin(one, other).sum() > 2 for other in found[:k])


@pytest.mark.parametrize("dtype", [DataType.Float, DataType.Double, DataType.BFloat16])
def test_normal_numbers(dtype: DataType) -> None:
    (found,) = drawn(
        lambda fd: fd.ops.normal(2.0, 3.0, [100_001], rng_seed=5, rng_offset=0, dtype=dtype)
    )
    z = (found.astype(np.float64) - 2) / 3
    assert np.isfinite(z).all()
    assert abs(z.mean()) < 0.015
    assert abs(z.std() - 1) < 0.015
    assert abs((z**3).mean()) < 0.05
    assert abs((z**4).mean() - 3) < 0.15
    assert abs(np.corrcoef(z[0:-1:2], z[1::2])[0, 1]) < 0.015


@pytest.mark.parametrize("p", [0, 0.25, 0.9, 1.0])
def test_dropout(p: float) -> None:
    x = np.random.default_rng(0).standard_normal((40, 50)).astype(np.float32)
    x[0, :3] = np.inf, np.nan, -np.inf

    @warpsmith.fuse
    def dropped(x: Any, seed: int) -> Any:
        return ops.dropout(x, p, rng_seed=seed, rng_offset=2)

    with knobs.scope(device="reference"):
        value, kept = dropped(x, 77)
    numbers = np.array([own_number(k, 77, 2) for k in range(x.size)]).reshape(x.shape)
    np.testing.assert_array_equal(kept, numbers >= p * 2**24)
    scale = np.float32(1 / (1 - p)) if p < 1 else np.float32(0)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(value, np.where(kept, x * scale, np.float32(0)))


def test_a_share_is_dropped_to_24_bits_and_neighbours_do_not_agree() -> None:
    """Where 16 bits are those of the bound, the others decide; two that share a word are apart."""
    p, places = 0.1, np.arange(1 << 20)
    upper = round(p * 2**16) << 8
    kept, above, below = (
        TABLE["kept"].numpy(places, np.asarray(least), np.asarray(5), np.asarray(1))
        for least in (math.ceil(p * 2**24), upper, upper - 256)
    )
    equal = above != below
    assert 0 < (kept & equal).sum() < equal.sum() < 40
    dropped = (~kept).astype(float)
    assert abs(dropped.mean() - p) < 4 * math.sqrt(p * (1 - p) / places.size)
    blocks = dropped.reshape(-1, 8)
    apart = np.corrcoef(blocks, rowvar=False) - np.eye(8)
    assert np.abs(apart).max() < 4.5 / math.sqrt(len(blocks))


def test_a_share_that_a_call_says_drops_the_same() -> None:
    def dropped(x: Any, p: Any) -> Any:
        return ops.dropout(x, p, rng_seed=3, rng_offset=0)

    x = np.ones((33, 24), np.float32)
    for device in ("reference", "sim"):
        with knobs.scope(device=device):
            for p in (0.0, 0.3, 1.0):
                said, literal = (
                    warpsmith.fuse(dropped)(x, p),
                    warpsmith.fuse(lambda t, p=p: dropped(t, p))(x),
                )
                np.testing.assert_array_equal(said[1], literal[1])


def test_refusals() -> None:
    x = np.zeros((2, 2), np.float32)
    for p in (-0.1, 1.5, True, "half"):
        with pytest.raises(DefinitionError, match="WS0159.*dropout got p"):
            warpsmith.fuse(lambda t, p=p: ops.dropout(t, p, rng_seed=0, rng_offset=0)[0]).lower(x)
    with pytest.raises(DefinitionError, match="WS0118.*dropout got dtype Int"):
        warpsmith.fuse(lambda t: ops.dropout(t, 0.5, rng_seed=0, rng_offset=0)[0]).lower(
            x.astype(np.int64)
        )
    with pytest.raises(DefinitionError, match="WS0118.*uniform got dtype Int"):
        drawn(lambda fd: fd.ops.uniform(0, 1, [2], rng_seed=0, rng_offset=0, dtype=DataType.Int))
    with pytest.raises(DefinitionError, match="WS0118.*philox does not take"):
        drawn(lambda fd: fd.ops.philox(fd.ops.iota(4), 0.5, 0))


def test_a_printed_definition_draws_the_same() -> None:
    def program(fd: Any) -> Any:
        return fd.ops.normal(0, 1, [6, 5], rng_seed=4, rng_offset=8)

    with FusionDefinition() as first:
        first.add_output(program(first))
    text = str(first)
    (again,) = evaluate(rebuilt(text).fusion, [])
    np.testing.assert_array_equal(again, evaluate(first.fusion, [])[0])
    assert "philox" in text
