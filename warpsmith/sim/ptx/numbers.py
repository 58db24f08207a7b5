"""Constants as the bits that a register would hold, and the widths of types."""

from __future__ import annotations

import struct

from warpsmith.sim.isa import Type
from warpsmith.sim.ptx.refusal import Refusal
from warpsmith.sim.ptx.syntax import Literal, Real

WIDTH: dict[Type, int] = {
    Type.NONE: 64,
    Type.PRED: 1,
    **dict.fromkeys((Type.B8, Type.U8, Type.S8), 8),
    **dict.fromkeys((Type.B16, Type.U16, Type.S16, Type.F16, Type.BF16), 16),
    **dict.fromkeys((Type.E4M3X2, Type.E5M2X2), 16),
    **dict.fromkeys((Type.B32, Type.U32, Type.S32, Type.F32, Type.TF32), 32),
    **dict.fromkeys((Type.F16X2, Type.BF16X2, Type.U16X2, Type.S16X2), 32),
    **dict.fromkeys((Type.U8X4, Type.S8X4), 32),
    **dict.fromkeys((Type.B64, Type.U64, Type.S64, Type.F64, Type.F32X2), 64),
    Type.B128: 128,
    **dict.fromkeys((Type.E4M3, Type.E5M2), 8),
}
"""Bits of a value of each type."""

SIGNED = frozenset((Type.S8, Type.S16, Type.S32, Type.S64))


def constant(value: Literal | Real, type_: Type) -> int:
    """The bits of a constant in a place of a type, at 64 bits as a signed number.

    Floats become the bits of the type; in an untyped place they keep their own width.
    """
    name = type_.name.lower()
    if WIDTH[type_] > 64:
        raise Refusal(f"a constant cannot stand where a .{name} is expected")
    if isinstance(value, Literal):
        if type_ in (Type.F32, Type.F64):
            raise Refusal(
                f"{value.value} is an integer where a .{name} is expected; write `{value.value}.0`"
            )
        return cut(value.value, WIDTH[type_])
    if type_ is Type.F64 and value.width == 32:
        return cut(_double(struct.unpack("<f", struct.pack("<I", value.bits))[0]), 64)
    if type_ is Type.F32 and value.width == 64:
        return _single(struct.unpack("<d", struct.pack("<Q", value.bits))[0])
    if type_ in (Type.U32, Type.S32, Type.U64, Type.S64) or WIDTH[type_] != value.width:
        raise Refusal(
            f"a floating-point constant of {value.width} bits cannot stand where a .{name} "
            "is expected"
        )
    return cut(value.bits, value.width)


def cut(value: int, width: int) -> int:
    """The low bits of an integer; all 64 of them as a signed number."""
    if width == 1:
        return int(bool(value))
    if width < 64:
        return value & ((1 << width) - 1)
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _double(value: float) -> int:
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return bits


def _single(value: float) -> int:
    try:
        bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        bits = 0x7F800000 if value > 0 else 0xFF800000
    return bits
