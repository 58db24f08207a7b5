"""Moves and conversions."""

from __future__ import annotations

from warpsmith.sim.isa import Op
from warpsmith.sim.ptx.decode.form import Row, row, rows

_WHOLE = "u8|u16|u32|u64|s8|s16|s32|s64"
_FLOAT = "f16|bf16|f32|f64"
_MOVED = "pred|b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64"
_TO_WHOLE = "rni|rzi|rmi|rpi"
_TINY = "e4m3x2|e5m2x2"
_WINDOWS = "global|shared|shared::cta|shared::cluster|local|const|param|param::entry"

ROWS: tuple[Row, ...] = (
    row("mov", Op.MOV, f"type={_MOVED}|b128", "d s"),
    row("mov", Op.PACK, "type=b16|b32|b64|b128", "d {s*:none}"),
    row("mov", Op.UNPACK, "type=b16|b32|b64|b128", "{d*:none} s"),
    *rows(
        *("cvt", Op.CVT),
        (f"type={_WHOLE} type2={_WHOLE}", "d s:2"),
        (f"sat type={_WHOLE} type2={_WHOLE}", "d s:2"),
        (f"round={_TO_WHOLE} ftz? sat? type={_WHOLE} type2={_FLOAT}", "d s:2"),
        (f"round=$rnd ftz? sat? type={_FLOAT} type2={_WHOLE}", "d s:2"),
        (f"round=$rnd|{_TO_WHOLE}? ftz? sat? type={_FLOAT} type2={_FLOAT}", "d s:2"),
        loose=True,
    ),
    row("cvt", Op.CVT, "round=rn|rz relu? satfinite? type=f16|bf16 type2=f32", "d s:2"),
    row("cvt", Op.CVT, "round=rn|rz relu? satfinite? type=f16x2|bf16x2 type2=f32", "d s:2 s:2"),
    row("cvt", Op.CVT, "round=rna|rn|rz satfinite? relu? type=tf32 type2=f32", "d:b32 s:2"),
    row("cvt", Op.CVT, "round=rn|rz relu satfinite? type=tf32 type2=f32", "d:b32 s:2"),
    row("cvt", Op.CVT, f"round=rn satfinite relu? type={_TINY} type2=f32", "d s:2 s:2"),
    row("cvt", Op.CVT, f"round=rn satfinite relu? type={_TINY} type2=f16x2", "d s:2"),
    row("cvt", Op.CVT, f"round=rn relu? type=f16x2 type2={_TINY}", "d s:2"),
    row("cvt", Op.CVT_PACK, "pack sat type=u16|s16 type2=s32", "d:b32 s:2 s:2"),
    row("cvt", Op.CVT_PACK, "pack sat type=u8|s8 type2=s32 b32", "d:b32 s:2 s:2 s:b32"),
    row("cvta", Op.CVTA, f"space={_WINDOWS} type=u32|u64", "d s"),
    row("cvta", Op.CVTA, f"to space={_WINDOWS} type=u32|u64", "d s"),
    row("isspacep", Op.ISSPACEP, f"space={_WINDOWS}", "d:pred s:none"),
)
