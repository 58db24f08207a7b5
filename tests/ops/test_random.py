"""Numbers that look random: Philox itself, what is made of it, and that no schedule changes it."""

import math
from typing import Any

import numpy as np
import pytest

import warpsmith
from warpsmith import knobs, ops
from warpsmith.errors import DefinitionError
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.evaluate import evaluate
from warpsmith.ops.table.random import philox_words

WORD = 2**32 - 1


def plain_philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10 in Python's integers."""
    a, b, c, d = counter
    low, high = key
    for _ in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (second >> 32) ^ b ^ low, second & WORD, (first >> 32) ^ d ^ high, first & WORD
        low, high = (low + 0x9E3779B9) & WORD, (high + 0xBB67AE85) & WORD
    return [a, b, c, d]


def signed(low: int, high: int) -> int:
    value = low | high << 32
    return value - 2**64 if value >= 2**63 else value


def number(index: int, seed: int, offset: int) -> float:
    """What `philox` gives for one index."""
    words = [v >> 32 * k & WORD for v in (offset, index >> 2) for k in (0, 1)]
    key = [seed & WORD, seed >> 32 & WORD]
    return (plain_philox(words, key)[index & 3] >> 8) * 2.0**-24


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ([0, 0, 0, 0], [0, 0], "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_known_answers(counter: list[int], key: list[int], expected: str) -> None:
    """Those that the authors of Philox publish for ten rounds."""
    assert [f"{word:08x}" for word in plain_philox(counter, key)] == expected.split()
    index = 4 * (counter[2] | counter[3] << 32) + np.arange(4)
    seed, offset = np.int64(signed(*key)), np.int64(signed(*counter[:2]))
    with np.errstate(over="ignore"):
        words = philox_words(index, seed, offset)
    assert [f"{int(word):08x}" for word in words] == expected.split()


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
    numbers = np.array([number(k, 77, 2) for k in range(x.size)]).reshape(x.shape)
    np.testing.assert_array_equal(kept, numbers >= p)
    scale = np.float32(1 / (1 - p)) if p < 1 else np.float32(0)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(value, np.where(kept, x * scale, np.float32(0)))


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
    with FusionDefinition() as fd:
        names: dict[str, Any] = {"DataType": DataType, "FusionDefinition": FusionDefinition}
        text = str(first)
        exec(text, names)
        names["nvfuser_fusion"](fd)
    (again,) = evaluate(fd.fusion, [])
    np.testing.assert_array_equal(again, evaluate(first.fusion, [])[0])
    assert "philox" in text
