"""mma.sync: fragments by the manual's tables, values against NumPy and exact rationals."""

import ctypes

import numpy as np
import numpy.typing as npt
import pytest

from tests.sim.support.fragments import (
    NUMPY,
    TABLES,
    accumulator,
    bits_of,
    from_registers,
    to_registers,
)
from tests.sim.support.native_parts import Parts, Product, pointers
from tests.sim.support.sums import LEAST, hardware_sum
from warpsmith.sim.isa import Flag, Op, Type

T = Type
BYTES = [(T.E4M3, T.E4M3), (T.E5M2, T.E5M2), (T.E4M3, T.E5M2), (T.E5M2, T.E4M3)]
INTEGERS = [(T.S8, T.S8), (T.U8, T.U8), (T.S8, T.U8), (T.U8, T.S8)]
SHAPES = [
    *((d, T.F16, T.F16, 16, k) for d in (T.F32, T.F16) for k in (8, 16)),
    *((T.F32, T.BF16, T.BF16, 16, k) for k in (8, 16)),
    *((T.F32, T.TF32, T.TF32, 16, k) for k in (4, 8)),
    *((d, a, b, 16, k) for d in (T.F32, T.F16) for a, b in BYTES for k in (16, 32)),
    *((T.S32, a, b, 16, k) for a, b in INTEGERS for k in (16, 32)),
    (T.F64, T.F64, T.F64, 8, 4),
    *((T.F64, T.F64, T.F64, 16, k) for k in (4, 8, 16)),
]
Matrix = npt.NDArray[np.generic]


def product(shape: tuple[Type, Type, Type, int, int], flags: Flag = Flag.NONE) -> Product:
    d, a, b, m, k = shape
    return Product(d=d, a=a, b=b, m=m, n=8, k=k, flags=flags)


def multiply(
    parts: Parts, what: Product, a: Matrix, b: Matrix, c: Matrix, poison: list[int] | None = None
) -> tuple[Matrix, list[int]]:
    table = TABLES[8 * a.dtype.itemsize, what.m, what.k]
    count, place = accumulator(what.m, 8)
    registers = [
        to_registers(a, table.a, table.a_count),
        to_registers(b, table.b, table.b_count),
        to_registers(c, place, count),
    ]
    done = parts.mma(what, *registers, poison)
    assert done is not None
    return from_registers(done[0], place, (what.m, 8), c.dtype), done[1]


def small_numbers(rng: np.random.Generator, shape: tuple[int, int], dtype: np.dtype) -> Matrix:
    low = 0 if dtype == np.uint8 else -4
    return rng.integers(low, 5, shape).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_small_integers_are_exact(parts: Parts, shape: tuple[Type, Type, Type, int, int]) -> None:
    what = product(shape)
    rng = np.random.default_rng(3)
    a = small_numbers(rng, (what.m, what.k), NUMPY[what.a])
    b = small_numbers(rng, (what.k, 8), NUMPY[what.b])
    c = small_numbers(rng, (what.m, 8), NUMPY[what.d])
    d, poison = multiply(parts, what, a, b, c)
    want = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    np.testing.assert_array_equal(d.astype(np.float64), want)
    assert not any(poison)


FLOATS = [
    *(((T.F32, T.F16, T.F16, 16, k), "f16") for k in (8, 16)),
    *(((T.F32, T.BF16, T.BF16, 16, k), "bf16") for k in (8, 16)),
    *(((T.F32, T.TF32, T.TF32, 16, k), "tf32") for k in (4, 8)),
]


def wide(rng: np.random.Generator, shape: tuple[int, int], reach: int) -> npt.NDArray[np.float64]:
    signs = rng.choice([-1.0, 1.0], shape) * (rng.random(shape) > 0.15)
    return signs * rng.uniform(1, 2, shape) * 2.0 ** rng.integers(-reach, reach + 1, shape)


@pytest.mark.parametrize(("shape", "name"), FLOATS, ids=str)
@pytest.mark.parametrize("reach", [0, 3, 12])
def test_sums_are_aligned_and_cut_off(
    parts: Parts, shape: tuple[Type, Type, Type, int, int], name: str, reach: int
) -> None:
    what = product(shape)
    rng = np.random.default_rng(reach)
    a = wide(rng, (16, what.k), reach).astype(NUMPY[what.a])
    b = wide(rng, (what.k, 8), reach).astype(NUMPY[what.b])
    if what.a == T.TF32:
        a, b = (
            (bits_of(x).astype(np.uint32) & ~np.uint32(0x1FFF)).view(np.float32) for x in (a, b)
        )
    c = (wide(rng, (16, 8), 2 * reach) * rng.choice([0, 1], (16, 8))).astype(np.float32)
    d, _ = multiply(parts, what, a, b, c)
    for i, j in np.ndindex(16, 8):
        pairs = [(float(a[i, k]), float(b[k, j])) for k in range(what.k)]
        assert float(d[i, j]) == hardware_sum(pairs, float(c[i, j]), least=LEAST[name])


def test_tf32_ignores_the_low_bits(parts: Parts) -> None:
    what = product((T.F32, T.TF32, T.TF32, 16, 8))
    a = np.full((16, 8), 0x3F801FFF, np.uint32).view(np.float32)
    d, _ = multiply(parts, what, a, np.ones((8, 8), np.float32), np.zeros((16, 8), np.float32))
    assert (d == 8).all()


def test_bytes_are_multiplied_as_halves_and_c_is_added_at_the_end(parts: Parts) -> None:
    """A C far above the products would hide them were it aligned with them."""
    what = product((T.F32, T.E4M3, T.E4M3, 16, 32))
    a = np.full((16, 32), 2.0**-6).astype(NUMPY[T.E4M3])
    b = np.full((32, 8), 2.0**-9).astype(NUMPY[T.E4M3])
    c = np.full((16, 8), 0.75 - 2.0**-24, np.float32)
    d, _ = multiply(parts, what, a, b, c)
    assert (d == np.float32(np.float32(2.0**-10) + c)).all()


@pytest.mark.parametrize("saturate", [False, True])
def test_integer_sums_wrap_or_saturate(parts: Parts, saturate: bool) -> None:
    what = product((T.S32, T.S8, T.S8, 16, 32), Flag.SATFINITE if saturate else Flag.NONE)
    a, b = np.full((16, 32), -128, np.int8), np.full((32, 8), 127, np.int8)
    c = np.full((16, 8), -(2**31) + 5, np.int32)
    d, _ = multiply(parts, what, a, b, c)
    want = -(2**31) if saturate else 2**31 + 5 - 32 * 128 * 127
    assert (d == want).all()


@pytest.mark.parametrize(
    ("a", "b", "c", "bits"),
    [
        (np.inf, 1.0, 0.0, 0x7F800000),
        (-np.inf, 1.0, 0.0, 0xFF800000),
        (np.inf, 0.0, 1.0, 0x7FFFFFFF),
        (np.inf, 1.0, -np.inf, 0x7FFFFFFF),
        (np.nan, 1.0, 0.0, 0x7FFFFFFF),
        (1.0, 1.0, np.nan, 0x7FFFFFFF),
        (1.0, 1.0, -np.inf, 0xFF800000),
        (-0.0, 1.0, -0.0, 0),
    ],
)
def test_special_numbers(parts: Parts, a: float, b: float, c: float, bits: int) -> None:
    left, right = np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float16)
    sums = np.zeros((16, 8), np.float32)
    left[3, 5], right[5, 2], sums[3, 2] = a, b, c
    d, _ = multiply(parts, product((T.F32, T.F16, T.F16, 16, 16)), left, right, sums)
    assert int(bits_of(d)[3, 2]) == bits
    others = np.delete(bits_of(d), 3, 0)
    assert not np.delete(others, 2, 1).any()


def test_double_products_are_fused_along_k(parts: Parts) -> None:
    """(1 + e)(1 - e) - 1 is lost unless the product stays exact."""
    what = product((T.F64, T.F64, T.F64, 16, 4))
    e = 2.0**-30
    a, b = np.zeros((16, 4)), np.zeros((4, 8))
    a[:, 0], a[:, 1], b[0], b[1] = 1.0, 1 + e, -1.0, 1 - e
    d, _ = multiply(parts, what, a, b, np.zeros((16, 8)))
    assert (d == -e * e).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_poison_spreads_by_row_and_column(
    parts: Parts, shape: tuple[Type, Type, Type, int, int]
) -> None:
    what = product(shape)
    table = TABLES[8 * NUMPY[what.a].itemsize, what.m, what.k]
    packed_a = max(1, 4 // NUMPY[what.a].itemsize)
    packed_d = max(1, 4 // NUMPY[what.d].itemsize)
    count, place = accumulator(what.m, 8)
    sizes = [table.a_count // packed_a, table.b_count // packed_a, count // packed_d]
    a, b = np.ones((what.m, what.k), NUMPY[what.a]), np.ones((what.k, 8), NUMPY[what.b])
    c = np.ones((what.m, 8), NUMPY[what.d])
    rng = np.random.default_rng(11)
    for _ in range(6):
        source, lane = int(rng.integers(sum(sizes))), int(rng.integers(32))
        poison = [1 << lane if i == source else 0 for i in range(sum(sizes))]
        _, found = multiply(parts, what, a, b, c, poison)
        rows, columns, own = set(), set(), set()
        g, t = divmod(lane, 4)
        if source < sizes[0]:
            rows = {table.a(g, t, source * packed_a + i)[0] for i in range(packed_a)}
        elif source < sizes[0] + sizes[1]:
            first = (source - sizes[0]) * packed_a
            columns = {table.b(g, t, first + i)[1] for i in range(packed_a)}
        else:
            own = {(source - sizes[0] - sizes[1], lane)}
        for r in range(sizes[2]):
            for at in range(32):
                places = [place(at // 4, at % 4, r * packed_d + i) for i in range(packed_d)]
                want = (r, at) in own or any(i in rows or j in columns for i, j in places)
                assert bool(found[r] >> at & 1) == want


def test_d_may_be_c(parts: Parts) -> None:
    what = product((T.F32, T.F16, T.F16, 16, 8))
    one = np.full((2, 32), 0x3C003C00, np.uint64)
    sums = np.full((4, 32), 0x3F800000, np.uint64)
    c, record = pointers(sums), what.record(Op.MMA)
    clean = (ctypes.c_uint32 * 16)()
    arguments = (c, pointers(one), pointers(one[:1].copy()), c, clean, clean)
    assert parts.library.mma_run(ctypes.byref(record), *arguments)
    assert (sums.astype(np.uint32).view(np.float32) == 9).all()


@pytest.mark.parametrize(
    "shape",
    [
        (T.F32, T.F16, T.F16, 8, 4),
        (T.F32, T.TF32, T.TF32, 16, 16),
        (T.F16, T.BF16, T.BF16, 16, 16),
        (T.F32, T.F16, T.E4M3, 16, 16),
        (T.S32, T.F16, T.F16, 16, 16),
    ],
    ids=str,
)
def test_what_ptx_does_not_have_is_refused(
    parts: Parts, shape: tuple[Type, Type, Type, int, int]
) -> None:
    rows = np.zeros((8, 32), np.uint64)
    assert parts.mma(product(shape), rows, rows, rows) is None
