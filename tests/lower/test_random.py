"""Numbers that look random in kernels: the same under every schedule, four for one block."""

import random
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from warpsmith import knobs, ops
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Symbol, evaluate
from warpsmith.lower.random import divided
from warpsmith.testing import relative_error

FLOAT = DataType.Float
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
P = 0.25


def alone(x: Any, seed: Any) -> Any:
    return ops.dropout(x, P, rng_seed=seed, rng_offset=5)


def gaussian(x: Any, seed: Any) -> Any:
    """Two words a normal number, of the block that its neighbours have."""
    rows, columns = ops.shape(x)
    drawn: Any = ops.normal(0, 1, [rows, columns], rng_seed=seed, rng_offset=5, fusion=x.fusion)
    return x.to(FLOAT) * 0.0 + drawn


def beside_columns(x: Any, seed: Any) -> Any:
    """Summed along the dimension that is not adjacent."""
    return ops.sum(ops.dropout(x.to(FLOAT), P, rng_seed=seed, rng_offset=5)[0], [0])


def forward(x: Any, residual: Any, weight: Any, seed: Any) -> Any:
    """Dropout, residual add and RMSNorm."""
    dropped: Any = ops.dropout(x.to(FLOAT), P, rng_seed=seed, rng_offset=5)[0]
    total = (dropped + residual.to(FLOAT)).to(x.dtype)
    wide = total.to(FLOAT)
    scale = ops.rsqrt(ops.add(ops.mean(wide * wide, [-1], keepdim=True), 1e-5))
    return (wide * scale * weight).to(x.dtype), total, scale


def backward(dy: Any, dtotal: Any, total: Any, scale: Any, weight: Any, seed: Any) -> Any:
    wide, given = total.to(FLOAT), dy.to(FLOAT)
    normal, weighted = wide * scale, given * weight
    inner = weighted - normal * ops.mean(weighted * normal, [-1], keepdim=True)
    summed = inner * scale + dtotal.to(FLOAT)
    dropped: Any = ops.dropout(summed, P, rng_seed=seed, rng_offset=5)[0]
    return dropped.to(dy.dtype), summed.to(dy.dtype), ops.sum(given * normal, [0])


def inputs_of(program: Any, shape: tuple[int, int], dtype: np.dtype, seed: Any) -> list[Any]:
    rng = np.random.default_rng(0)
    full = [1 + np.abs(rng.standard_normal(shape)).astype(dtype) for _ in range(3)]
    weight = (1 + np.abs(rng.standard_normal(shape[1]))).astype(dtype)
    scale = np.ones((shape[0], 1), np.float32)
    if program in (alone, beside_columns, gaussian):
        return [full[0], seed]
    if program is forward:
        return [*full[:2], weight, seed]
    return [*full, scale, weight, seed]


def run(program: Any, inputs: list[Any], device: Any, rings: Any = "auto") -> list[np.ndarray]:
    with knobs.scope(device=device, rings=rings):
        found = warpsmith.fuse(program)(*inputs)
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.few(3)
@pytest.mark.parametrize("shape", [(3, 64), (5, 33), (2, 1030)], ids=str)
@pytest.mark.parametrize("program", [alone, gaussian, beside_columns, forward, backward])
def test_what_is_dropped_depends_on_the_place_alone(program: Any, shape: tuple[int, int]) -> None:
    """Vectors of 8, 1 and 2, rows with and without predicates, and another program each."""
    dtype = BFLOAT16 if shape[1] != 33 else np.dtype(np.float32)
    for seed in (11, np.array([2**62 + 5]))[program is not alone :]:
        inputs = inputs_of(program, shape, dtype, seed)
        found, wanted = (run(program, inputs, device) for device in ("sim", "reference"))
        for got, want in zip(found, wanted, strict=True):
            assert relative_error(got.astype(np.float64), want.astype(np.float64)) < 2.0**-7
        if program in (alone, backward):
            np.testing.assert_array_equal(found[0] == 0, wanted[0] == 0)
        if program is alone:
            np.testing.assert_array_equal(found[0], wanted[0])
            np.testing.assert_array_equal(found[1], wanted[1])


@pytest.mark.slow
@pytest.mark.parametrize("program", [forward, backward])
@pytest.mark.parametrize(
    ("shape", "specialize", "words"),
    [((7, 2048), True, "warp_specialize=True"), ((2, 65536), "auto", "blocks run at once")],
    ids=["roles", "clusters"],
)
def test_other_strategies_drop_the_same(
    program: Any, shape: tuple[int, int], specialize: Any, words: str
) -> None:
    inputs = inputs_of(program, shape, BFLOAT16, np.array([2**62 + 5]))
    fused = warpsmith.fuse(program, warp_specialize=specialize)
    assert words in fused.explain(*inputs)
    with knobs.scope(device="sim"):
        found = fused(*inputs)
    with knobs.scope(device="reference"):
        wanted = fused(*inputs)
    for got, want in zip(found, wanted, strict=True):
        assert relative_error(got.astype(np.float64), want.astype(np.float64)) < 2.0**-7
    if program is backward:
        np.testing.assert_array_equal(found[0] == 0, wanted[0] == 0)


def compiled(program: Any, shape: tuple[int, int]) -> Any:
    inputs = inputs_of(program, shape, BFLOAT16, np.zeros(1, np.int64))
    return warpsmith.fuse(program).lower(*inputs).compile()


@pytest.mark.parametrize(
    ("program", "elements"),
    [(alone, 16), (gaussian, 8), (forward, 16), (backward, 16)],
    ids=["alone", "gaussian", "forward", "backward"],
)
def test_adjacent_elements_draw_one_block(program: Any, elements: int) -> None:
    """Rounds of two products a block, and not an element: ten for 4 numbers, seven for 8 masks."""
    made = compiled(program, (8, 4096))
    ptx = str(made.asm["ptx"]).split(".entry")[1]
    products = len(re.findall(r"mul\.hi\.u32", ptx))
    assert products <= (20 * elements // 4 if program is gaussian else 14 * elements // 8)
    assert made.n_spills == 0


@pytest.mark.parametrize("program", [forward, backward])
def test_one_kernel_reads_rows_once(program: Any) -> None:
    text = compiled(program, (8, 4096)).explain()
    assert text.startswith("1 kernel\n" if program is forward else "2 kernels\n")
    assert ("inner_persistent" if program is forward else "inner_outer") in text


def test_quotients_by_what_is_known_to_divide() -> None:
    """Against arithmetic, for sums of products of numbers some of which 2, 4 or 8 divides."""
    rng = random.Random(0)
    names = [Symbol(name, low=0) for name in "abcd"]
    names.append(Symbol("e", low=0, extent=integers.index(2)))
    names.append(Symbol("f", low=0, extent=integers.index(4)))
    facts = frozenset({(names[0], 8), (names[1], 2), (names[2], 4)})
    for _ in range(200):
        terms = [
            integers.mul(rng.choice([1, 2, 3, 4, 6, 8]), *rng.sample(names, rng.randint(0, 2)))
            for _ in range(rng.randint(1, 4))
        ]
        number = integers.add(*terms)
        by = rng.choice([4, 8])
        quotient, rest = divided(number, by, facts)
        for _ in range(5):
            values = {s.name: rng.randint(0, 40) for s in names}
            values["a"] *= 8
            values["b"] *= 2
            values["c"] *= 4
            values["e"] %= 2
            values["f"] %= 4
            whole = evaluate(number, values)
            assert evaluate(quotient, values) == whole // by
            assert evaluate(rest, values) == whole % by


def test_what_is_known_leaves_the_quotient() -> None:
    n, block, thread = (Symbol(name, low=0) for name in ("n", "block", "thread"))
    lane = Symbol("lane", low=0, extent=integers.index(8))
    number = integers.add(integers.mul(n, block), integers.mul(8, thread), lane)
    quotient, rest = divided(number, 4, frozenset({(n, 8)}))
    assert rest == integers.mod(lane, 4)
    assert quotient == integers.add(
        integers.mul(integers.floordiv(n, 4), block),
        integers.mul(2, thread),
        integers.floordiv(lane, 4),
    )
    assert divided(number, 4, frozenset())[1] == integers.mod(
        integers.add(integers.mul(n, block), lane), 4
    )


@pytest.mark.parametrize("lanes", [2, 4])
def test_two_vectors_share_a_block(lanes: int) -> None:
    """As threads hold what tensor cores sum, in rows that so many lanes are known to divide."""
    n, row, thread = (Symbol(name, low=0) for name in ("n", "row", "thread"))
    lane = Symbol("lane", low=0, extent=integers.index(lanes))
    number = integers.add(integers.mul(n, row), integers.mul(lanes, thread), lane)
    quotient, rest = divided(number, 2 * lanes, frozenset({(n, lanes)}))
    half = integers.add(integers.mul(integers.floordiv(n, lanes), row), thread)
    assert quotient == integers.floordiv(half, 2)
    assert rest == integers.add(integers.mul(lanes, integers.mod(half, 2)), lane)


def test_any_index_may_be_drawn_by() -> None:
    """Loaded ones, sums, places of other blocks, and a number that is no tensor."""

    def program(x: Any, seed: int) -> Any:
        places: Any = ops.iota(x.size(0), fusion=x.fusion)
        shifted = ops.iota(x.size(0), 2, 3, fusion=x.fusion)
        indices = (x, places * 7 + 1, ops.bitwise_and(places, 12), shifted, ops.neg(places))
        drawn = tuple(ops.philox(index, seed, 9) for index in indices)
        kept = tuple(ops.kept(index, 2**23, seed, 9) for index in indices)
        return *drawn, x.to(FLOAT) * 0.0 + ops.philox(3, seed, 9), *kept

    x = np.random.default_rng(0).integers(-(2**62), 2**62, 100)
    found, wanted = (run(program, [x, -5], device) for device in ("sim", "reference"))
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    assert len({float(w[7]) for w in wanted[:6]}) == 6
