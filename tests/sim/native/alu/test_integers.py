"""Integer arithmetic and bits against Python's integers."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.support.alu import Alu
from warpsmith.sim.isa import Flag, Mode, Op, Type

WIDTHS = {
    Type.U16: 16,
    Type.U32: 32,
    Type.U64: 64,
    Type.S16: 16,
    Type.S32: 32,
    Type.S64: 64,
}
SIGNED = (Type.S16, Type.S32, Type.S64)


def numbers(width: int) -> st.SearchStrategy[int]:
    """Words of a width, with many near the ends and near powers of two."""
    top = (1 << width) - 1
    near = st.builds(
        lambda bit, offset: ((1 << bit) + offset) & top, st.integers(0, width), st.integers(-2, 2)
    )
    return st.one_of(near, st.integers(0, top))


def words(width: int, count: int) -> st.SearchStrategy[list[tuple[int, ...]]]:
    """Operands for one warp and a little more."""
    return st.lists(st.tuples(*[numbers(width)] * count), min_size=1, max_size=40)


def signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) & 1 else value


def truncated(p: int, q: int) -> tuple[int, int]:
    """Quotient and remainder towards zero; all ones by zero."""
    if q == 0:
        return -1, -1
    quotient = abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)
    return quotient, p - q * quotient


OPERATIONS: dict[tuple[Op, Mode], Callable[[int, int, int, int], int]] = {
    (Op.ADD, Mode.NONE): lambda p, q, r, w: p + q,
    (Op.SUB, Mode.NONE): lambda p, q, r, w: p - q,
    (Op.MUL, Mode.LO): lambda p, q, r, w: p * q,
    (Op.MUL, Mode.HI): lambda p, q, r, w: p * q >> w,
    (Op.MAD, Mode.LO): lambda p, q, r, w: p * q + r,
    (Op.MAD, Mode.HI): lambda p, q, r, w: (p * q >> w) + r,
    (Op.DIV, Mode.NONE): lambda p, q, r, w: truncated(p, q)[0],
    (Op.REM, Mode.NONE): lambda p, q, r, w: truncated(p, q)[1],
    (Op.MIN, Mode.NONE): lambda p, q, r, w: min(p, q),
    (Op.MAX, Mode.NONE): lambda p, q, r, w: max(p, q),
    (Op.SAD, Mode.NONE): lambda p, q, r, w: abs(p - q) + r,
}
THREE = (Op.MAD, Op.SAD)


@pytest.mark.few(33)
@pytest.mark.parametrize("type_", WIDTHS, ids=lambda t: t.name)
@pytest.mark.parametrize("op", OPERATIONS, ids=lambda o: f"{o[0].name}.{o[1].name}")
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_arithmetic(alu: Alu, op: tuple[Op, Mode], type_: Type, data: st.DataObject) -> None:
    width = WIDTHS[type_]
    rows = data.draw(words(width, 3))
    columns = np.array(rows, np.uint64).T[: 3 if op[0] in THREE else 2]
    found = alu.run(op[0], type_, *columns, mode=op[1]).d.tolist()
    for row, result in zip(rows, found, strict=True):
        p, q, r = (signed(v, width) for v in row) if type_ in SIGNED else row
        assert result == OPERATIONS[op](p, q, r, width) & ((1 << width) - 1)


@pytest.mark.parametrize("type_", [Type.U16, Type.S16, Type.U32, Type.S32], ids=lambda t: t.name)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_wide_products(alu: Alu, type_: Type, data: st.DataObject) -> None:
    width = WIDTHS[type_]
    rows = data.draw(words(width, 2))
    columns = np.array(rows, np.uint64).T
    addend = np.full(len(rows), (1 << 2 * width) - 3, np.uint64)
    products = alu.run(Op.MUL, type_, *columns, mode=Mode.WIDE).d.tolist()
    sums = alu.run(Op.MAD, type_, *columns, addend, mode=Mode.WIDE).d.tolist()
    mask = (1 << 2 * width) - 1
    for row, found, total in zip(rows, products, sums, strict=True):
        p, q = (signed(v, width) for v in row) if type_ in SIGNED else row
        assert found == p * q & mask
        assert total == p * q - 3 & mask


@settings(max_examples=60, deadline=None)
@given(
    a=st.lists(st.integers(0, 2**32 - 1), min_size=4, max_size=4),
    b=st.lists(st.integers(0, 2**32 - 1), min_size=4, max_size=4),
    subtract=st.booleans(),
)
def test_carries_make_long_sums(alu: Alu, a: list[int], b: list[int], subtract: bool) -> None:
    first, later = (Op.SUB, Op.SUBC) if subtract else (Op.ADD, Op.ADDC)
    total, carry = 0, None
    for index, (p, q) in enumerate(zip(a, b, strict=True)):
        flags = Flag.CC | (Flag.CARRY if index else Flag.NONE)
        step = alu.run(later if index else first, Type.U32, [p], [q], flags=flags, carry=carry)
        total |= int(step.d[0]) << 32 * index
        carry = step.carry
    p, q = (sum(word << 32 * i for i, word in enumerate(words)) for words in (a, b))
    assert total == (p - q if subtract else p + q) & (2**128 - 1)


@pytest.mark.parametrize("length", [0, 1, 5, 31, 32, 40, 255])
@pytest.mark.parametrize("position", [0, 3, 30, 31, 32, 100])
def test_bit_fields(alu: Alu, position: int, length: int) -> None:
    values = np.array([0, 1, 0x80000000, 0xFFFFFFFF, 0x12345678, 0xDEADBEEF], np.uint64)
    unsigned = alu.run(Op.BFE, Type.U32, values, position, length).d.tolist()
    extended = alu.run(Op.BFE, Type.S32, values, position, length).d.tolist()
    inserted = alu.run(Op.BFI, Type.B32, values, 0x5A5A5A5A, position, length).d.tolist()
    for index, value in enumerate(values.tolist()):
        inside = [i for i in range(length) if position + i <= 31]
        sign = value >> min(position + length - 1, 31) & 1 if length else 0
        field = sum((value >> (position + i) & 1) << i for i in inside if i < 32)
        above = sum(sign << i for i in range(32) if i not in inside)
        assert unsigned[index] == field
        assert extended[index] == field | above
        base = 0x5A5A5A5A
        for i in inside:
            base = base & ~(1 << (position + i)) | (value >> i & 1) << (position + i)
        assert inserted[index] == base


@pytest.mark.parametrize("table", range(0, 256, 5))
def test_lop3_is_a_table(alu: Alu, table: int) -> None:
    a, b, c = 0xF0F0F0F0, 0xCCCCCCCC, 0xAAAAAAAA
    assert alu.run(Op.LOP3, Type.B32, [a], [b], [c], [table]).d[0] == table * 0x01010101


@pytest.mark.parametrize("amount", [0, 1, 15, 16, 31, 32, 33, 63, 64, 65, 0x80000000, 0xFFFFFFFF])
def test_shifts_stop_at_the_width(alu: Alu, amount: int) -> None:
    for type_, width in WIDTHS.items():
        value = (1 << width) - 0x35
        plain = {16: Type.B16, 32: Type.B32, 64: Type.B64}[width]
        left = alu.run(Op.SHL, plain, [value], [amount]).d[0]
        right = alu.run(Op.SHR, type_, [value], [amount]).d[0]
        shifted = (signed(value, width) if type_ in SIGNED else value) >> min(amount, 80)
        assert left == value << min(amount, 80) & ((1 << width) - 1)
        assert right == shifted & ((1 << width) - 1)


@pytest.mark.parametrize("amount", [0, 1, 31, 32, 33, 100])
def test_funnel_shifts_wrap_or_clamp(alu: Alu, amount: int) -> None:
    low, high = 0x89ABCDEF, 0x01234567
    both = high << 32 | low
    for flags, n in ((Flag.WRAP, amount & 31), (Flag.NONE, min(amount, 32))):
        left = alu.run(Op.SHF, Type.B32, [low], [high], [amount], mode=Mode.LEFT, flags=flags)
        right = alu.run(Op.SHF, Type.B32, [low], [high], [amount], mode=Mode.RIGHT, flags=flags)
        assert left.d[0] == (both << n) >> 32 & 0xFFFFFFFF
        assert right.d[0] == both >> n & 0xFFFFFFFF


@pytest.mark.parametrize("selector", [0x3210, 0x5410, 0x7632, 0xBA98, 0x8888, 0xF007, 0x4321])
def test_prmt_picks_bytes_and_signs(alu: Alu, selector: int) -> None:
    a, b = 0x83827180, 0x8706F504
    pool = (b << 32 | a).to_bytes(8, "little")
    picked = [
        (255 * (pool[n & 7] >> 7)) if n & 8 else pool[n & 7]
        for n in (selector >> 4 * k & 15 for k in range(4))
    ]
    wanted = int.from_bytes(bytes(picked), "little")
    same = alu.run(Op.PRMT, Type.B32, [a] * 32, [b] * 32, [selector] * 32).d
    mixed = alu.run(Op.PRMT, Type.B32, [a] * 2, [b] * 2, [selector, 0x3210]).d
    assert (same == wanted).all()
    assert mixed.tolist() == [wanted, a]


def test_fns_counts_both_ways(alu: Alu) -> None:
    mask = 0b1011_0100
    cases = {(2, 0): 2, (3, 0): 2**32 - 1, (2, 1): 2, (3, 1): 4, (0, 4): 7, (7, -2): 5}
    for (base, offset), wanted in cases.items():
        found = alu.run(Op.FNS, Type.B32, [mask], [base], [offset & 0xFFFFFFFF]).d[0]
        assert found == wanted
