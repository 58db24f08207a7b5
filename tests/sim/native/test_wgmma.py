"""wgmma: operands laid out in a simulated shared memory by arithmetic on bytes, full products."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.support.fragments import NUMPY, TABLES, accumulator, from_registers, to_registers
from tests.sim.support.layouts import Bytes, lay_out
from tests.sim.support.native_parts import Parts, Product, Wgmma, descriptor
from tests.sim.support.sums import LEAST, hardware_sum
from warpsmith.sim.isa import Flag, Type

T = Type
CODES = {16: 0, 128: 1, 64: 2, 32: 3}
BITS16 = [(T.F32, T.F16, T.F16), (T.F16, T.F16, T.F16), (T.F32, T.BF16, T.BF16)]
OTHERS = [
    (T.F32, T.TF32, T.TF32),
    *((d, a, b) for d in (T.F32, T.F16) for a in (T.E4M3, T.E5M2) for b in (T.E4M3, T.E5M2)),
    *((T.S32, a, b) for a in (T.S8, T.U8) for b in (T.S8, T.U8)),
]
Types = tuple[Type, Type, Type]
Matrix = npt.NDArray[np.generic]


def product_of(types: Types, n: int, flags: Flag = Flag.NONE) -> Product:
    d, a, b = types
    k = 32 // NUMPY[a].itemsize
    return Product(d=d, a=a, b=b, m=64, n=n, k=k, flags=flags)


def numbers(rng: np.random.Generator, shape: tuple[int, int], dtype: np.dtype) -> Matrix:
    return rng.integers(0 if dtype == np.uint8 else -3, 4, shape).astype(dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """How one operand lies: `span` bytes of swizzle (16 for none), where, and how far apart."""

    span: int
    transposed: bool
    start: int
    leading: int
    stride: int
    base: int = 0

    def put(self, memory: Bytes, matrix: Matrix) -> None:
        lay_out(
            *(memory, self.start, matrix),
            transposed=self.transposed,
            span=self.span,
            base=self.base,
            leading=self.leading,
            stride=self.stride,
        )

    def at(self, advance: int = 0) -> int:
        start = self.start + advance
        return descriptor(start, self.leading, self.stride, CODES[self.span], self.base)


def compact(span: int, transposed: bool, start: int, lines: int, k_bytes: int) -> Operand:
    """A layout without holes, as a tile of `lines` x k."""
    if span == 16 and transposed:  # atoms of 8 x 8 elements: along k, then along lines
        return Operand(
            span=span,
            transposed=True,
            start=start,
            leading=128,
            stride=128 * k_bytes // 16,
        )
    if span == 16:
        return Operand(
            span=span,
            transposed=False,
            start=start,
            leading=128,
            stride=128 * k_bytes // 16,
        )
    if transposed:
        groups = k_bytes // 16
        return Operand(
            span=span,
            transposed=True,
            start=start,
            leading=8 * span * groups,
            stride=8 * span,
        )
    return Operand(span=span, transposed=False, start=start, leading=16, stride=8 * span)


def d_rows(types: Types, n: int, matrix: Matrix | None = None) -> npt.NDArray[np.uint64]:
    count, place = accumulator(16, n)
    values = np.zeros((64, n), NUMPY[types[0]]) if matrix is None else matrix
    return np.hstack([to_registers(values[16 * q : 16 * q + 16], place, count) for q in range(4)])


def d_matrix(types: Types, n: int, rows: npt.NDArray[np.uint64]) -> Matrix:
    _, place = accumulator(16, n)
    warps = [np.ascontiguousarray(rows[:, 32 * q : 32 * q + 32]) for q in range(4)]
    return np.vstack([from_registers(w, place, (16, n), NUMPY[types[0]]) for w in warps])


def run(parts: Parts, what: Wgmma, memory: Bytes, types: Types, c: Matrix | None = None) -> Matrix:
    rows = d_rows(types, what.product.n, c)
    poison = parts.wgmma(what, memory, rows)
    assert poison is not None
    assert not poison.any()
    return d_matrix(types, what.product.n, rows)


def exact(a: Matrix, b: Matrix) -> npt.NDArray[np.float64]:
    return a.astype(np.float64) @ b.astype(np.float64).T


LAYOUTS = [(span, span_b) for span in CODES for span_b in CODES]


@pytest.mark.few(20)
@pytest.mark.parametrize(("a_span", "b_span"), LAYOUTS)
@pytest.mark.parametrize(("a_turned", "b_turned"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_every_layout_of_halves(
    parts: Parts, a_span: int, b_span: int, a_turned: int, b_turned: int
) -> None:
    types = BITS16[(a_span + b_span) // 16 % 3]
    n = 128
    rng = np.random.default_rng(a_span + b_span)
    a, b = numbers(rng, (64, 16), NUMPY[types[1]]), numbers(rng, (n, 16), NUMPY[types[2]])
    left = compact(a_span, bool(a_turned), 1024, 64, 32)
    right = compact(b_span, bool(b_turned), 32768, n, 32)
    memory = np.zeros(1 << 18, np.uint8)
    left.put(memory, a)
    right.put(memory, b)
    what = Wgmma(
        product=product_of(types, n),
        a=left.at(),
        b=right.at(),
        a_transposed=bool(a_turned),
        b_transposed=bool(b_turned),
    )
    np.testing.assert_array_equal(run(parts, what, memory, types), exact(a, b))


@pytest.mark.few(8)
@pytest.mark.parametrize("types", [*BITS16, *OTHERS], ids=str)
@pytest.mark.parametrize("n", [8, 24, 256])
def test_every_type_and_a_step_along_k(parts: Parts, types: Types, n: int) -> None:
    """A tile of 128 bytes along k; the third step's descriptors start 64 bytes on."""
    dtype = NUMPY[types[1]]
    rng = np.random.default_rng(n)
    wide = 128 // dtype.itemsize
    a, b = numbers(rng, (64, wide), dtype), numbers(rng, (n, wide), NUMPY[types[2]])
    left = compact(128, False, 2048, 64, 128)
    right = compact(128, False, 65536, n, 128)
    memory = np.zeros(1 << 18, np.uint8)
    left.put(memory, a)
    right.put(memory, b)
    product = product_of(types, n)
    part = slice(2 * product.k, 3 * product.k)
    what = Wgmma(product=product, a=left.at(64), b=right.at(64))
    got = run(parts, what, memory, types).astype(np.float64)
    np.testing.assert_array_equal(got, exact(a[:, part], b[:, part]))


@st.composite
def operands(draw: st.DrawFn, turnable: bool) -> Operand:
    """A layout with holes: any offsets that keep a tile of 64 lines and 32 bytes of k apart."""
    span = draw(st.sampled_from(tuple(CODES)))
    transposed = turnable and draw(st.booleans())
    base = draw(st.integers(0, 7)) if span > 16 else 0
    start = 1024 * draw(st.integers(1, 4)) + 128 * base
    near, far = 8 * span + 1024 * draw(st.integers(0, 1)), 1024 * draw(st.integers(2, 4))
    leading, stride = (near, far) if draw(st.booleans()) else (far, near)
    if span == 16:  # two chunks along k, eight groups along lines; the other way round turned
        near, far = 128 + 16 * draw(st.integers(0, 3)), 2048 + 16 * draw(st.integers(0, 9))
        leading, stride = (near, far) if draw(st.booleans()) else (16 * 121, 128)
    elif transposed and leading < stride:  # lines repeat within a step along k
        stride = leading * 8
    elif transposed:
        leading = stride * 2
    return Operand(
        span=span,
        transposed=transposed,
        start=start,
        base=base,
        leading=leading,
        stride=stride,
    )


@settings(deadline=None, max_examples=60)
@given(right=operands(turnable=True), seed=st.integers(0, 99))
def test_offsets_may_leave_holes(parts: Parts, right: Operand, seed: int) -> None:
    types, n = BITS16[0], 64
    rng = np.random.default_rng(seed)
    a, b = numbers(rng, (64, 16), NUMPY[T.F16]), numbers(rng, (n, 16), NUMPY[T.F16])
    memory = np.zeros(1 << 18, np.uint8)
    left = compact(128, False, 200 * 1024, 64, 128)
    right.put(memory, b)
    left.put(memory, a)
    what = Wgmma(
        product=product_of(types, n), a=left.at(), b=right.at(), b_transposed=right.transposed
    )
    np.testing.assert_array_equal(run(parts, what, memory, types), exact(a, b))


@pytest.mark.parametrize("types", [*BITS16, *OTHERS], ids=str)
def test_a_from_registers_added_to_d(parts: Parts, types: Types) -> None:
    n = 40
    product = product_of(types, n)
    rng = np.random.default_rng(2)
    a = numbers(rng, (64, product.k), NUMPY[types[1]])
    b = numbers(rng, (n, product.k), NUMPY[types[2]])
    c = numbers(rng, (64, n), NUMPY[types[0]])
    table = TABLES[8 * NUMPY[types[1]].itemsize, 16, product.k]
    warps = [to_registers(a[16 * q : 16 * q + 16], table.a, table.a_count) for q in range(4)]
    memory = np.zeros(1 << 18, np.uint8)
    right = compact(32, False, 1024, n, 32)
    right.put(memory, b)
    sign = 1 if types[0] == T.S32 else -1
    what = Wgmma(product=product, a=np.hstack(warps), b=right.at(), scale_d=True, scale_a=sign)
    want = sign * exact(a, b) + c.astype(np.float64)
    np.testing.assert_array_equal(run(parts, what, memory, types, c).astype(np.float64), want)
    fresh = replace(what, scale_d=False, scale_b=sign)
    np.testing.assert_array_equal(run(parts, fresh, memory, types, c), exact(a, b))


@pytest.mark.parametrize(
    ("type_", "name", "fraction"),
    [
        *((T.F16, "f16", 25), (T.BF16, "bf16", 25), (T.TF32, "tf32", 25)),
        *((T.E4M3, "e4m3", 13), (T.E5M2, "e5m2", 13)),
    ],
)
def test_sums_are_cut_off(parts: Parts, type_: Type, name: str, fraction: int) -> None:
    types, n = (T.F32, type_, type_), 8
    product = product_of(types, n)
    rng = np.random.default_rng(8)

    def spread(lines: int, width: int) -> npt.NDArray[np.float64]:
        return rng.normal(size=(lines, width)) * 2.0 ** rng.integers(-5, 5, (lines, width))

    def operand(lines: int) -> Matrix:
        values = spread(lines, product.k).astype(NUMPY[type_])
        if type_ == T.TF32:
            values = (values.view(np.uint32) & ~np.uint32(0x1FFF)).view(np.float32)
        return values

    a, b = operand(64), operand(n)
    c = spread(64, n).astype(np.float32)
    memory = np.zeros(1 << 18, np.uint8)
    left, right = compact(32, False, 1024, 64, 32), compact(64, False, 8192, n, 32)
    left.put(memory, a)
    right.put(memory, b)
    what = Wgmma(product=product, a=left.at(), b=right.at(), scale_d=True)
    got = run(parts, what, memory, types, c)
    for i, j in np.ndindex(64, n):
        pairs = [(float(a[i, k]), float(b[j, k])) for k in range(product.k)]
        want = hardware_sum(pairs, float(c[i, j]), least=LEAST[name], fraction=fraction)
        assert float(got[i, j]) == want


def test_integer_sums_saturate(parts: Parts) -> None:
    types, n = (T.S32, T.S8, T.S8), 8
    a, b = np.full((64, 32), 127, np.int8), np.full((n, 32), 127, np.int8)
    c = np.full((64, n), 2**31 - 7, np.int32)
    memory = np.zeros(1 << 18, np.uint8)
    left, right = compact(16, False, 1024, 64, 32), compact(16, False, 8192, n, 32)
    left.put(memory, a)
    right.put(memory, b)
    for flags, want in ((Flag.SATFINITE, 2**31 - 1), (Flag.NONE, 32 * 127**2 - 2**31 - 7)):
        what = Wgmma(product=product_of(types, n, flags), a=left.at(), b=right.at(), scale_d=True)
        assert (run(parts, what, memory, types, c) == want).all()


@pytest.mark.parametrize("turned", [False, True])
def test_poison_spreads_by_row_and_column(parts: Parts, turned: bool) -> None:
    types, n = BITS16[0], 16
    product = product_of(types, n)
    memory = np.zeros(1 << 18, np.uint8)
    marks = np.zeros((64, 16), np.uint16), np.zeros((n, 16), np.uint16)
    marks[0][37, 9] = marks[1][5, 3] = 1
    poison = np.zeros(1 << 18, np.uint8)
    left, right = compact(64, turned, 1024, 64, 32), compact(64, turned, 32768, n, 32)
    left.put(poison, marks[0])
    right.put(poison, marks[1])
    what = Wgmma(
        product=product,
        a=left.at(),
        b=right.at(),
        a_transposed=turned,
        b_transposed=turned,
    )
    found = parts.wgmma(what, memory, d_rows(types, n), poison)
    assert found is not None
    rows = range(32, 40) if turned else (37,)  # a chunk holds eight rows, or part of one
    columns = range(8) if turned else (5,)
    _, place = accumulator(16, n)
    for q, r, lane in np.ndindex(4, len(found[0]), 32):
        i, j = place(lane // 4, lane % 4, r)
        assert bool(found[q, r] >> lane & 1) == (16 * q + i in rows or j in columns)


@pytest.mark.parametrize("change", [{"n": 12}, {"n": 264}, {"m": 32}, {"k": 8}, {"a": T.F64}])
def test_what_ptx_does_not_have_is_refused(parts: Parts, change: dict[str, int]) -> None:
    fields = {"d": T.F32, "a": T.F16, "b": T.F16, "m": 64, "n": 8, "k": 16, **change}
    if "a" in change:
        fields["b"] = change["a"]
    what = Wgmma(product=Product(**fields), a=64, b=64)
    assert parts.wgmma(what, np.zeros(1 << 18, np.uint8), np.zeros((4, 128), np.uint64)) is None


@pytest.mark.parametrize("types", OTHERS, ids=str)
def test_only_halves_may_be_transposed(parts: Parts, types: Types) -> None:
    what = Wgmma(product=product_of(types, 8), a=64, b=64, b_transposed=True)
    assert parts.wgmma(what, np.zeros(1 << 18, np.uint8), np.zeros((4, 128), np.uint64)) is None
