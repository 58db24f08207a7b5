"""Types of elements that no C++ type of their size holds: floats of 16 and of 8 bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warpsmith.codegen.prelude.piece import Piece, filled, laid

_FLOAT16 = {
    "bfloat16": {
        "NAME": "ws_bfloat16",
        "PTX": "bf16",
        # One instruction also for the upper half of a register, which a shift would move down.
        "WIDEN": 'unsigned wide; asm("mov.b32 %0, {%1, %2};" : "=r"(wide) '
        ': "h"((unsigned short)0), "h"(bits)); return __uint_as_float(wide);',
    },
    "half": {
        "NAME": "ws_half",
        "PTX": "f16",
        "WIDEN": 'float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits)); return x;',
    },
}
_FLOAT8 = {
    "float8_e4m3fn": {"NAME": "ws_float8_e4m3fn", "PTX": "e4m3x2", "BEYOND": ""},
    "float8_e5m2": {
        "NAME": "ws_float8_e5m2",
        "PTX": "e5m2x2",
        # The instruction gives the largest number for what is nearer to infinity.
        "BEYOND": "\n        if (fabsf(x) >= 61440.0f) bits = (bits & 0x80u) | 0x7cu;",
    },
}


def types(piece: Piece) -> Iterator[Piece]:
    """A type for each set of words."""
    for name, words in (_FLOAT16 if piece.name == "float16" else _FLOAT8).items():
        yield Piece(name=name, text=filled(piece.text, words))


def extremes(piece: Piece) -> Iterator[Piece]:
    """One piece of the larger and the smaller of each type of 16 bits."""
    said, _, function = piece.text.strip().partition("\n")
    made = [
        filled(function, {**words, "EXTREME": extreme})
        for words in _FLOAT16.values()
        for extreme in ("max", "min")
    ]
    yield replace(piece, text=laid("\n".join((said, *made))))
