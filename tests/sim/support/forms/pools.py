"""Operands for each pool of `forms`: edge cases against each other, then random bits.

Made by splitmix64, so that they are the same wherever they are made.
"""

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.uint64]

COUNT = 4096

WIDTHS = {
    "pred": 1,
    "b8": 8,
    "u8": 8,
    "s8": 8,
    **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16", "e4m3x2", "e5m2x2"), 16),
    **dict.fromkeys(("b32", "u32", "s32", "f32", "f16x2", "bf16x2", "u16x2", "s16x2"), 32),
    "shift": 32,
    "lane": 32,
    "offset": 32,
    **dict.fromkeys(("b64", "u64", "s64", "f64"), 64),
}
# Exponent and fraction bits.
FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
PAIRS = {"f16x2": "f16", "bf16x2": "bf16", "u16x2": "u16", "s16x2": "s16"}


def random_bits(seed: int, count: int) -> Values:
    """`count` words of splitmix64."""
    with np.errstate(over="ignore"):
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = steps + np.uint64(seed) * np.uint64(0xD1342543DE82EF95)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def float_edges(exponent: int, fraction: int) -> Values:
    """Zeros, subnormals, ones, ties, large numbers, infinities and NaNs, of both signs."""
    one = ((1 << (exponent - 1)) - 1) << fraction
    infinity = ((1 << exponent) - 1) << fraction
    least = 1 << fraction
    unit = 1 << fraction
    values = [
        *(0, 1, 2, 3, least // 2, least - 1, least, least + 1, least + unit // 2),
        *(one - unit, one - 1, one, one + 1, one + unit // 2, one + unit, one + unit + 1),
        *(one + fraction * unit, one + (fraction + 1) * unit, one - (fraction + 1) * unit),
        *(one + fraction * unit - 1, one + (fraction + 2) * unit + 3),
        *(infinity - unit, infinity - 1, infinity, infinity + 1, infinity + unit // 2 + 5),
        infinity + unit - 1,
    ]
    if fraction > 20:  # where integers end
        for power in (7, 8, 15, 16, 31, 32, 63, 64):
            values += [one + power * unit + near for near in (-1, 0, 1)]
    sign = 1 << (exponent + fraction)
    return np.array([*values, *(value | sign for value in values)], np.uint64)


def integer_edges(width: int) -> Values:
    """Around zero, around the powers of two, around the ends."""
    around = [0, 1, 2, 3, 5, 7, 0xFF, 0x100]
    for bit in (7, 8, 15, 16, 24, 31, 32, 33, 52, 53, 54, 62, 63):
        if bit < width:
            around += [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]
    mask = (1 << width) - 1
    return np.array(sorted({value & mask for v in around for value in (v, -v)}), np.uint64)


def mixed_floats(name: str, seed: int, count: int) -> Values:
    """Random bits; a third near one, where sums cancel; some with short fractions, for ties."""
    exponent, fraction = FLOATS[name]
    bits = random_bits(seed, count) >> np.uint64(63 - exponent - fraction)
    choice = random_bits(seed + 1000, count) % np.uint64(6)
    near = random_bits(seed + 2000, count) % np.uint64(2 * fraction + 6)
    middle = np.uint64((1 << (exponent - 1)) - 1 - fraction - 3)
    centered = (bits & ~np.uint64(((1 << exponent) - 1) << fraction)) | (
        (middle + near) << np.uint64(fraction)
    )
    short = centered & ~np.uint64((1 << (fraction // 2 + 1)) - 1)
    return np.where(choice < 2, bits, np.where(choice < 4, centered, short))


def tiny_results(name: str, position: int, count: int) -> Values:
    """Numbers whose products (even places) or quotients (odd ones) lie around the least normal.

    Fractions are close to one and two, so that rounding decides; the third source is next to none.
    """
    exponent, fraction = FLOATS[name]
    bias = (1 << (exponent - 1)) - 1
    shared = random_bits(5, count)  # the same for all positions
    own = random_bits(31 + position, count)
    offset = (shared % np.uint64(bias // 2)).astype(np.int64) + 1
    quotient = np.arange(count) % 2 == 1
    if position == 0:
        field = np.where(quotient, 1 + offset // 4, bias - offset)
    else:
        field = np.where(quotient, bias + offset // 4, offset)
    near = own % np.uint64(4)
    low = np.where(own >> np.uint64(9) & np.uint64(1) == 0, near, (1 << fraction) - 1 - near)
    sign = own >> np.uint64(11) & np.uint64(1)
    if position > 1:
        return sign << np.uint64(exponent + fraction) | (near >> np.uint64(1))
    bits = (field.astype(np.uint64) << np.uint64(fraction)) | low.astype(np.uint64)
    return sign << np.uint64(exponent + fraction) | bits


def pool(name: str, position: int, count: int = COUNT) -> Values:
    """Operands of a pool for the source at `position`.

    The first two positions meet every edge with every other; a third gets its own order.
    """
    seed = 17 * position + 1 + sum(name.encode())
    if name == "pred":
        return random_bits(seed, count) >> np.uint64(63)
    if name == "lane":
        return random_bits(seed, count) % np.uint64(32)
    if name == "offset":
        return (random_bits(seed, count) % np.uint64(37) - np.uint64(18)) & np.uint64(0xFFFFFFFF)
    if name == "shift":
        small = random_bits(seed, count) % np.uint64(72)
        wild = random_bits(seed + 7, count) & np.uint64(0xFFFFFFFF)
        return np.where(random_bits(seed + 9, count) % np.uint64(8) > 0, small, wild)
    if name in PAIRS:
        low = pool(PAIRS[name], position, count)
        high = np.roll(pool(PAIRS[name], position + 3, count), 5)
        return high << np.uint64(16) | low
    width = WIDTHS[name]
    if name in FLOATS:
        edges = float_edges(*FLOATS[name])
        values = mixed_floats(name, seed, count)
    else:
        edges = integer_edges(width)
        values = random_bits(seed, count) >> np.uint64(64 - width)
        # Numbers of every length, of both signs.
        short = values >> (random_bits(seed + 5, count) % np.uint64(width))
        signs = random_bits(seed + 6, count) % np.uint64(3)
        negated = (np.uint64(0) - short) & np.uint64((1 << width) - 1)
        values = np.where(signs == 0, values, np.where(signs == 1, short, negated))
    n = len(edges)
    index = np.arange(n * n)
    orders = (index // n, index % n, (index // n + 3 * index) % n, (index + index // n * 5) % n)
    met = edges[orders[position % 4]][: count // 2 if n * n > count // 2 else n * n]
    if n * n > count // 2:  # too many to meet all: a fixed choice of the pairs
        chosen = random_bits(99, count // 2) % np.uint64(n * n)
        met = edges[orders[position % 4][chosen.astype(np.int64)]]
    values[: len(met)] = met
    if name in FLOATS:
        values[-512:] = tiny_results(name, position, 512)
    return values


def exhaustive(name: str) -> Values | None:
    """All values of a float format of sixteen bits."""
    if name not in ("f16", "bf16", "e4m3x2", "e5m2x2"):
        return None
    return np.arange(1 << 16, dtype=np.uint64)


def sources(pools: tuple[str, ...]) -> tuple[Values, ...]:
    """The operands of an instruction: all there are where it has one source of few bits."""
    if len(pools) == 1:
        everything = exhaustive(pools[0])
        if everything is not None:
            return (everything,)
    return tuple(pool(name, position) for position, name in enumerate(pools))
