"""Float arithmetic against exact fractions rounded by hand."""

from fractions import Fraction

import numpy as np
import pytest

from tests.sim.support.alu import Alu
from tests.sim.support.forms.pools import pool
from tests.sim.support.rounding import BF16, F16, F32, F64, INFINITE, NOT_A_NUMBER, Format
from warpsmith.sim.isa import Flag, Op, Round, Type

FORMATS = {Type.F16: F16, Type.BF16: BF16, Type.F32: F32, Type.F64: F64}
NANS = {Type.F16: 0x7FFF, Type.BF16: 0x7FFF, Type.F32: 0x7FFFFFFF}
SOURCES = {Op.ADD: 2, Op.SUB: 2, Op.MUL: 2, Op.FMA: 3, Op.DIV: 2, Op.SQRT: 1, Op.RCP: 1}
MODES = (Round.RN, Round.RZ, Round.RM, Round.RP)
CASES = [
    *((type_, op, mode) for type_ in (Type.F32, Type.F64) for op in SOURCES for mode in MODES),
    *(
        (type_, op, Round.RN)
        for type_ in (Type.F16, Type.BF16)
        for op in (Op.ADD, Op.SUB, Op.MUL, Op.FMA)
    ),
]
COUNT = 700
WIDE = Format(11, 23)


def expected(format_: Format, op: Op, mode: Round, bits: tuple[int, ...]) -> int | None:
    """The bits of a result, None for a NaN."""
    if any(format_.kind(b) == NOT_A_NUMBER for b in bits):
        return None
    if op in (Op.ADD, Op.SUB):
        one = format_.round(Fraction(1), Round.RN)
        addend = bits[1] ^ (format_.sign if op is Op.SUB else 0)
        return fused(format_, mode, bits[0], one, addend)
    if op is Op.FMA:
        return fused(format_, mode, *bits)
    if op is Op.MUL:
        return product(format_, mode, *bits)
    if op is Op.RCP:
        return quotient(format_, mode, format_.round(Fraction(1), Round.RN), bits[0])
    if op is Op.DIV:
        return quotient(format_, mode, *bits)
    return root(format_, mode, bits[0])


def product(format_: Format, mode: Round, p: int, q: int) -> int | None:
    sign = (p ^ q) & format_.sign
    if INFINITE in (format_.kind(p), format_.kind(q)):
        zero = 0 in (p & ~format_.sign, q & ~format_.sign)
        return None if zero else sign | format_.infinity
    return format_.round(format_.value(p) * format_.value(q), mode, sign != 0)


def quotient(format_: Format, mode: Round, p: int, q: int) -> int | None:
    sign = (p ^ q) & format_.sign
    p_infinite, q_infinite = format_.kind(p) == INFINITE, format_.kind(q) == INFINITE
    p_zero, q_zero = p & ~format_.sign == 0, q & ~format_.sign == 0
    if (p_infinite and q_infinite) or (p_zero and q_zero):
        return None
    if p_infinite or q_zero:
        return sign | format_.infinity
    if q_infinite or p_zero:
        return sign
    return format_.round(format_.value(p) / format_.value(q), mode)


def root(format_: Format, mode: Round, p: int) -> int | None:
    if p & ~format_.sign == 0:
        return p
    if p & format_.sign:
        return None
    return p if format_.kind(p) == INFINITE else format_.root(format_.value(p), mode)


def fused(format_: Format, mode: Round, p: int, q: int, r: int) -> int | None:
    sign = (p ^ q) & format_.sign
    r_infinite = format_.kind(r) == INFINITE
    if INFINITE in (format_.kind(p), format_.kind(q)):
        infinity = product(format_, mode, p, q)
        opposite = r_infinite and (r & format_.sign) != sign
        return None if infinity is None or opposite else infinity
    if r_infinite:
        return r
    exact = format_.value(p) * format_.value(q) + format_.value(r)
    # An exact zero is negative of two negative zeros, else in .rm where the signs differ.
    both_zero = format_.value(r) == 0
    same = sign == r & format_.sign
    negative = sign != 0 if both_zero and same else mode is Round.RM
    return format_.round(exact, mode, negative)


def exact(op: Op, bits: tuple[int, ...]) -> Fraction:
    """A product or quotient before rounding."""
    values = [F32.value(b) for b in bits]
    if op is Op.RCP:
        return 1 / values[0]
    if op is Op.DIV:
        return values[0] / values[1]
    return values[0] * values[1] + (values[2] if op is Op.FMA else 0)


def operands(type_: Type, op: Op) -> list[tuple[int, ...]]:
    rows = [pool(type_.name.lower(), position).tolist() for position in range(SOURCES[op])]
    step = len(rows[0]) // COUNT
    return list(zip(*(row[::step] for row in rows), strict=True))


@pytest.mark.few(32)
@pytest.mark.parametrize(("type_", "op", "mode"), CASES, ids=lambda value: value.name)
def test_results_are_the_exact_ones_rounded_once(
    alu: Alu, type_: Type, op: Op, mode: Round
) -> None:
    format_ = FORMATS[type_]
    cases = operands(type_, op)
    columns = np.array(cases, np.uint64).T
    results = alu.run(op, type_, *columns, round_=mode).d.tolist()
    for bits, result in zip(cases, results, strict=True):
        wanted = expected(format_, op, mode, bits)
        if wanted is None:
            assert format_.kind(result) == NOT_A_NUMBER
            assert result == NANS.get(type_, result)
        else:
            assert result == wanted, [hex(b) for b in bits]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("op", SOURCES)
def test_ftz_flushes_sources_and_results(alu: Alu, op: Op, mode: Round) -> None:
    cases = operands(Type.F32, op)
    columns = np.array(cases, np.uint64).T
    results = alu.run(op, Type.F32, *columns, round_=mode, flags=Flag.FTZ).d.tolist()
    for bits, result in zip(cases, results, strict=True):
        flushed = tuple(map(F32.flush, bits))
        wanted = expected(F32, op, mode, flushed)
        if wanted is None:
            assert result == NANS[Type.F32]
        elif wanted & ~F32.sign == 0x00800000 and op not in (Op.ADD, Op.SUB, Op.SQRT):
            # Subnormal or not, when rounded as if there were smaller exponents?
            rounded = WIDE.value(WIDE.round(exact(op, flushed), mode))
            flush = abs(rounded) < F32.least_normal
            assert result == (wanted & F32.sign if flush else wanted), [hex(b) for b in bits]
        else:
            assert result == F32.flush(wanted), [hex(b) for b in bits]


def test_sat_clamps_and_turns_nan_to_zero(alu: Alu) -> None:
    values = np.array([-1, -0.0, 0.25, 1, 1.5, np.inf, -np.inf, np.nan], np.float32)
    bits = values.view(np.uint32)
    found = alu.run(Op.ADD, Type.F32, bits, 0x80000000, round_=Round.RN, flags=Flag.SAT).d
    assert found.astype(np.uint32).view(np.float32).tolist() == [0, 0, 0.25, 1, 1, 1, 0, 0]
    assert found[1] == 0


def test_the_rounding_of_the_host_is_left_as_it_was(alu: Alu) -> None:
    third = alu.run(Op.DIV, Type.F64, [0x3FF0 << 48], [0x4008 << 48], round_=Round.RP).d
    assert third[0] == 0x3FD5555555555556
    assert float.fromhex("0x1.5555555555555p-2") == 1.0 / 3.0


@pytest.mark.parametrize("type_", [Type.F16X2, Type.BF16X2])
@pytest.mark.parametrize("op", [Op.ADD, Op.MUL, Op.FMA, Op.MAX, Op.NEG])
def test_pairs_are_two_singles(alu: Alu, type_: Type, op: Op) -> None:
    single = Type.F16 if type_ is Type.F16X2 else Type.BF16
    count = {Op.FMA: 3, Op.NEG: 1}.get(op, 2)
    low = [pool(single.name.lower(), position) for position in range(count)]
    high = [np.roll(row, 7) for row in low]
    both = [h << np.uint64(16) | v for h, v in zip(high, low, strict=True)]
    found = alu.run(op, type_, *both).d
    assert (found & 0xFFFF == alu.run(op, single, *low).d).all()
    assert (found >> np.uint64(16) == alu.run(op, single, *high).d).all()
