"""Conversions against numpy, ml_dtypes and exact rounding; the small formats exhaustively."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tests.sim.support.alu import Alu
from tests.sim.support.forms.pools import pool
from tests.sim.support.rounding import BF16, F16, F32, F64, NUMBER, TF32
from warpsmith.sim.isa import Flag, Op, Round, Type

Values = npt.NDArray[np.uint64]

HALVES = {Type.F16: np.float16, Type.BF16: ml_dtypes.bfloat16}
EIGHTS = {Type.E4M3X2: ml_dtypes.float8_e4m3fn, Type.E5M2X2: ml_dtypes.float8_e5m2}
FORMATS = {Type.F16: F16, Type.BF16: BF16, Type.F32: F32, Type.F64: F64}
MODES = (Round.RN, Round.RZ, Round.RM, Round.RP)
WHOLE = {Round.RNI: np.rint, Round.RZI: np.trunc, Round.RMI: np.floor, Round.RPI: np.ceil}


def floats(bits: Values) -> npt.NDArray[np.float32]:
    return bits.astype(np.uint32).view(np.float32)


def ties(dtype: type[np.generic]) -> npt.NDArray[np.float32]:
    """All numbers of a half format, what lies halfway between them, and each one's neighbours."""
    with np.errstate(invalid="ignore"):
        every = np.arange(0x8000, dtype=np.uint16).view(dtype).astype(np.float64)
    every = every[np.isfinite(every)]
    middle = ((every[1:] + every[:-1]) / 2).astype(np.float32)
    parts = [every.astype(np.float32), middle]
    parts += [np.nextafter(middle, np.float32(limit)) for limit in (0, np.inf)]
    beyond = np.array([65519, 65520, 65536, 3.39e38, np.inf, 1e-45], np.float32)
    return np.concatenate([*parts, beyond])


@pytest.mark.parametrize("type_", HALVES, ids=lambda t: t.name)
def test_every_half_becomes_the_float_it_is(alu: Alu, type_: Type) -> None:
    bits = np.arange(1 << 16, dtype=np.uint64)
    with np.errstate(invalid="ignore"):
        wanted = bits.astype(np.uint16).view(HALVES[type_]).astype(np.float32)
    found = floats(alu.run(Op.CVT, Type.F32, bits, type2=type_).d)
    assert np.array_equal(found, wanted, equal_nan=True)
    assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("type_", HALVES, ids=lambda t: t.name)
def test_floats_are_rounded_to_halves(alu: Alu, type_: Type, packed: bool) -> None:
    values = ties(HALVES[type_])
    values = np.concatenate([values, -values])
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = values.astype(HALVES[type_]).view(np.uint16).astype(np.uint64)
    bits = values.view(np.uint32)
    if packed:
        pair = {Type.F16: Type.F16X2, Type.BF16: Type.BF16X2}[type_]
        found = alu.run(Op.CVT, pair, bits, bits[::-1], type2=Type.F32, round_=Round.RN).d
        assert (found >> np.uint64(16) == wanted).all()
        assert (found & np.uint64(0xFFFF) == wanted[::-1]).all()
    else:
        found = alu.run(Op.CVT, type_, bits, type2=Type.F32, round_=Round.RN).d
        assert (found == wanted).all()


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
@pytest.mark.parametrize(
    ("to", "from_"),
    [
        *((half, source) for half in HALVES for source in (Type.F32, Type.F64)),
        *((Type.F32, Type.F64), (Type.BF16, Type.F16), (Type.F16, Type.BF16)),
    ],
    ids=lambda t: t.name,
)
def test_narrower_floats_in_every_mode(alu: Alu, to: Type, from_: Type, mode: Round) -> None:
    bits = pool(from_.name.lower(), 0)[::4]
    found = alu.run(Op.CVT, to, bits, type2=from_, round_=mode).d.tolist()
    source, target = FORMATS[from_], FORMATS[to]
    for value, result in zip(bits.tolist(), found, strict=True):
        if source.kind(value) == NUMBER:
            negative = bool(value & source.sign)
            assert result == target.round(source.value(value), mode, negative), hex(value)
        else:
            assert target.kind(result) == source.kind(value)


@pytest.mark.parametrize("type_", EIGHTS, ids=lambda t: t.name)
def test_every_eight_bit_float_becomes_a_half(alu: Alu, type_: Type) -> None:
    bits = np.arange(1 << 16, dtype=np.uint64)
    found = alu.run(Op.CVT, Type.F16X2, bits, type2=type_, round_=Round.RN).d.astype(np.uint32)
    for shift in (0, 8):
        parts = (bits.astype(np.uint32) >> shift & 0xFF).astype(np.uint8)
        wanted = parts.view(EIGHTS[type_]).astype(np.float16)
        half = (found >> 2 * shift & 0xFFFF).astype(np.uint16).view(np.float16)
        assert np.array_equal(half, wanted, equal_nan=True)


@pytest.mark.parametrize("type_", EIGHTS, ids=lambda t: t.name)
def test_halves_and_floats_are_rounded_to_eight_bits(alu: Alu, type_: Type) -> None:
    bits = np.arange(1 << 16, dtype=np.uint64)
    halves = bits.astype(np.uint16).view(np.float16)
    largest = float(ml_dtypes.finfo(EIGHTS[type_]).max)
    with np.errstate(invalid="ignore"):
        exact = halves.astype(np.float32)
        wanted = np.clip(exact, -largest, largest).astype(EIGHTS[type_]).view(np.uint8)
    wanted = np.where(np.isnan(exact), np.uint8(0x7F), wanted)  # the canonical NaN
    flags = Flag.SATFINITE
    pairs = alu.run(Op.CVT, type_, bits, type2=Type.F16X2, round_=Round.RN, flags=flags).d
    assert (pairs & np.uint64(0xFF) == wanted).all()
    assert (pairs >> np.uint64(8) == wanted[0]).all()
    row = exact.view(np.uint32)
    two = alu.run(Op.CVT, type_, row, row[::-1], type2=Type.F32, round_=Round.RN, flags=flags).d
    assert (two >> np.uint64(8) == wanted).all()
    assert (two & np.uint64(0xFF) == wanted[::-1]).all()


@pytest.mark.parametrize("mode", [Round.RNA, Round.RN, Round.RZ], ids=lambda m: m.name)
def test_tf32(alu: Alu, mode: Round) -> None:
    bits = pool("f32", 0)[::2]
    found = alu.run(Op.CVT, Type.TF32, bits, type2=Type.F32, round_=mode).d.tolist()
    for value, result in zip(bits.tolist(), found, strict=True):
        assert result & 0x1FFF == 0
        if F32.kind(value) == NUMBER:
            wanted = TF32.round(F32.value(value), mode, bool(value & F32.sign))
            assert result == wanted << 13, hex(value)


@pytest.mark.few(8)
@pytest.mark.parametrize("mode", WHOLE, ids=lambda m: m.name)
@pytest.mark.parametrize("from_", FORMATS, ids=lambda t: t.name)
def test_floats_saturate_to_integers(alu: Alu, from_: Type, mode: Round) -> None:
    bits = pool(from_.name.lower(), 0)
    format_ = FORMATS[from_]
    rounded = []
    for value in bits.tolist():
        if format_.kind(value) == NUMBER:
            exact = np.float64(format_.value(value))
            rounded.append(int(WHOLE[mode](exact)))
        else:
            rounded.append(-(10**30) if value & format_.sign else 10**30)
    for to in (Type.U8, Type.S8, Type.U16, Type.S16, Type.U32, Type.S32, Type.U64, Type.S64):
        width = int(to.name[1:])
        low, high = (
            (0, 2**width - 1) if to.name[0] == "U" else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
        )
        found = alu.run(Op.CVT, to, bits, type2=from_, round_=mode).d.tolist()
        for value, exact, result in zip(bits.tolist(), rounded, found, strict=True):
            if format_.kind(value) != "nan":
                assert result == min(max(exact, low), high) & (2**width - 1)
            else:  # the GPU's, beside PTX's 0
                assert result == (0 if width < 64 and from_ is not Type.F64 else 1 << (width - 1))


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
@pytest.mark.parametrize("from_", [Type.U32, Type.S32, Type.U64, Type.S64], ids=lambda t: t.name)
def test_integers_are_rounded_to_floats(alu: Alu, from_: Type, mode: Round) -> None:
    width = int(from_.name[1:])
    bits = pool(from_.name.lower(), 0)[::3]
    for to, format_ in FORMATS.items():
        found = alu.run(Op.CVT, to, bits, type2=from_, round_=mode).d.tolist()
        for value, result in zip(bits.tolist(), found, strict=True):
            negative = from_.name[0] == "S" and value >> (width - 1)
            exact = Fraction(value - (1 << width) if negative else value)
            assert result == format_.round(exact, mode)


def test_integers_are_cut_clamped_and_extended(alu: Alu) -> None:
    values = [0, 1, 127, 128, 255, 256, 0x7FFFFFFF, 0x80000000, 0xFFFFFF80, 0xFFFFFFFF]
    cut = alu.run(Op.CVT, Type.S8, values, type2=Type.S32, vector=4).d
    assert [int(v) for v in cut] == [
        *(0, 1, 127, 0xFFFFFF80, 0xFFFFFFFF, 0, 0xFFFFFFFF, 0, 0xFFFFFF80, 0xFFFFFFFF)
    ]
    clamped = alu.run(Op.CVT, Type.U8, values, type2=Type.S32, flags=Flag.SAT).d
    assert clamped.tolist() == [0, 1, 127, 128, 255, 255, 255, 0, 0, 0]
    wide = alu.run(Op.CVT, Type.S64, values, type2=Type.S32).d
    assert wide.tolist()[-3:] == [0xFFFFFFFF80000000, 0xFFFFFFFFFFFFFF80, 0xFFFFFFFFFFFFFFFF]


def test_cvt_pack(alu: Alu) -> None:
    a, b, c = 300, (-5) & 0xFFFFFFFF, 0xDEAD1234
    eight = alu.run(Op.CVT_PACK, Type.U8, [a], [b], [c], type2=Type.S32, flags=Flag.SAT).d[0]
    sixteen = alu.run(Op.CVT_PACK, Type.S16, [a], [b], type2=Type.S32, flags=Flag.SAT).d[0]
    assert eight == 0x1234FF00
    assert sixteen == 300 << 16 | 0xFFFB
