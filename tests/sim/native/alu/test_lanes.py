"""Masks, rows that are source and destination, predicates, refusals, atomics."""

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.sim.support.alu import Alu, Refused
from tests.sim.support.native_library import insn
from warpsmith.sim.isa import Combine, Compare, Flag, Mode, Op, Round, Type

MASKS = (0xFFFFFFFF, 0, 1, 0x80000000, 0x55555555, 0x0000FFFF)


def call(alu: Alu, record: Any, mask: int, d: Any, *sources: Any) -> bool:
    """One `alu_run` on rows as they are."""
    pointers = (ctypes.c_void_p * 5)(*(row.ctypes.data for row in sources))
    carry = ctypes.c_uint32()
    at_carry = ctypes.addressof(carry)
    done: bool = alu.library.alu_run(
        ctypes.addressof(record), d.ctypes.data, None, pointers, mask, at_carry
    )
    return done


@pytest.mark.parametrize("mask", MASKS, ids=hex)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_destination_may_be_a_source_and_other_lanes_stay(
    alu: Alu, mask: int, place: int
) -> None:
    rng = np.random.default_rng(3)
    rows = [rng.integers(0, 1 << 32, 32, np.uint64) for _ in range(3)]
    for record, result in (
        (insn(Op.MAD, type=Type.U32, mode=Mode.LO), rows[0] * rows[1] + rows[2]),
        (insn(Op.SHF, type=Type.B32, mode=Mode.LEFT, flags=Flag.WRAP), None),
        (insn(Op.FMA, type=Type.F32, round=Round.RN, flags=Flag.FTZ), None),
        (insn(Op.FMA, type=Type.F16X2, round=Round.RN), None),
    ):
        apart = np.full(32, 77, np.uint64)
        assert call(alu, record, 0xFFFFFFFF, apart, *rows)
        if result is not None:
            assert (apart == result & np.uint64(0xFFFFFFFF)).all()
        same = [row.copy() for row in rows]
        assert call(alu, record, mask, same[place], *same)
        inside = (mask >> np.arange(32) & 1).astype(bool)
        assert (same[place] == np.where(inside, apart, rows[place])).all()


@pytest.mark.parametrize("combine", list(Combine))
def test_setp_gives_both_predicates(alu: Alu, combine: Combine) -> None:
    p, q, c = [1, 2, 1, 2], [2, 1, 2, 1], [0, 0, 1, 1]
    sources = (p, q) if combine is Combine.NONE else (p, q, c)
    found = alu.run(Op.SETP, Type.S32, *sources, compare=Compare.LT, combine=combine)
    combined = {
        Combine.NONE: lambda first, _: first,
        Combine.AND: lambda first, second: first & second,
        Combine.OR: lambda first, second: first | second,
        Combine.XOR: lambda first, second: first ^ second,
    }[combine]
    less = [1, 0, 1, 0]
    assert found.d.tolist() == [combined(v, w) for v, w in zip(less, c, strict=True)]
    assert found.d2.tolist() == [combined(1 - v, w) for v, w in zip(less, c, strict=True)]


def test_nan_is_unordered(alu: Alu) -> None:
    nan, one = 0x7FFFFFFF, 0x3F800000
    for compare in list(Compare)[1:]:
        if compare in (Compare.LO, Compare.LS, Compare.HI, Compare.HS):
            continue
        found = alu.run(Op.SETP, Type.F32, [nan], [one], compare=compare).d[0]
        assert found == (compare.name.endswith("U") or compare is Compare.NAN)


def test_min_and_max_order_zeros_and_drop_nans(alu: Alu) -> None:
    zero, minus_zero, nan = 0, 0x80000000, 0x7FC00000
    assert alu.run(Op.MIN, Type.F32, [zero], [minus_zero]).d[0] == minus_zero
    assert alu.run(Op.MAX, Type.F32, [minus_zero], [zero]).d[0] == zero
    assert alu.run(Op.MAX, Type.F32, [nan], [minus_zero]).d[0] == minus_zero
    assert alu.run(Op.MAX, Type.F32, [nan], [zero], flags=Flag.NAN).d[0] == 0x7FFFFFFF
    assert alu.run(Op.MIN, Type.F16, [0x7E00], [0x8000]).d[0] == 0x8000


def test_lop3_with_a_predicate(alu: Alu) -> None:
    rows = ([1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1], 0x80, [0, 1, 0, 1])
    both = alu.run(Op.LOP3, Type.B32, *rows, mode=Mode.AND)
    either = alu.run(Op.LOP3, Type.B32, *rows, mode=Mode.OR)
    assert both.d.tolist() == [1, 1, 0, 0]
    assert both.d2.tolist() == [0, 1, 0, 0]
    assert either.d2.tolist() == [1, 1, 0, 1]


@pytest.mark.parametrize(
    ("op", "type_", "options"),
    [
        (Op.ADD, Type.F32X2, {"round_": Round.RN}),  # sm_100
        (Op.ADD, Type.PRED, {}),
        (Op.ADD, Type.F16, {"round_": Round.RZ}),
        (Op.ADD, Type.U32, {"flags": Flag.SAT}),
        (Op.MUL, Type.U64, {"mode": Mode.WIDE}),
        (Op.MIN, Type.F64, {"flags": Flag.NAN}),
        (Op.BFE, Type.B32, {}),
        (Op.SIN, Type.F64, {"flags": Flag.APPROX}),
        (Op.CVT, Type.S32, {"type2": Type.F32}),  # no rounding
        (Op.CVT, Type.E4M3X2, {"type2": Type.BF16X2, "round_": Round.RN}),
        (Op.SETP, Type.F32, {"compare": Compare.LO}),
        (Op.SETP, Type.S32, {"compare": Compare.NAN}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_ptx_does_not_have_is_refused(
    alu: Alu, op: Op, type_: Type, options: dict[str, int]
) -> None:
    with pytest.raises(Refused):
        alu.run(op, type_, [1], [1], **options)


def test_three_operands_of_min_are_refused(alu: Alu) -> None:
    with pytest.raises(Refused):
        alu.run(Op.MIN, Type.F32, [1], [1], [1])


@pytest.mark.parametrize(
    ("mode", "type_", "old", "b", "c", "new"),
    [
        (Mode.ADD, Type.U32, 0xFFFFFFFF, 2, 0, 1),
        (Mode.ADD, Type.F32, 0x3F800000, 0x3F800000, 0, 0x40000000),
        (Mode.ADD, Type.BF16X2, 0x3F803F80, 0x3F800000, 0, 0x40003F80),
        (Mode.MIN, Type.S32, 5, 0xFFFFFFFF, 0, 0xFFFFFFFF),
        (Mode.MAX, Type.S32, 5, 0xFFFFFFFF, 0, 5),
        (Mode.MIN, Type.F16, 0x3C00, 0xBC00, 0, 0xBC00),
        (Mode.INC, Type.U32, 6, 7, 0, 7),
        (Mode.INC, Type.U32, 7, 7, 0, 0),
        (Mode.DEC, Type.U32, 0, 7, 0, 7),
        (Mode.DEC, Type.U32, 9, 7, 0, 7),
        (Mode.CAS, Type.B16, 0x1234, 0x1234, 9, 9),
        (Mode.CAS, Type.B64, 1 << 40, 1, 9, 1 << 40),
        (Mode.EXCH, Type.B64, 3, 1 << 60, 0, 1 << 60),
        (Mode.XOR, Type.B32, 5, 3, 0, 6),
    ],
)
def test_atomics(alu: Alu, mode: Mode, type_: Type, old: int, b: int, c: int, new: int) -> None:
    words = (ctypes.c_uint64(value) for value in (old, b, c))
    assert alu.library.atomic_apply(int(mode), int(type_), *words) == new
