"""Integer and floating-point arithmetic."""

from __future__ import annotations

from warpsmith.sim.isa import Flag, Op
from warpsmith.sim.ptx.decode.form import Row, row

_HALF = "f16|f16x2"
_BRAIN = "bf16|bf16x2"


def _sums(head: str, op: Op, carry: Op) -> tuple[Row, ...]:
    """`add` and `sub`, and their carry chains."""
    return (
        row(head, op, "type=$int|u16x2|s16x2", "d s s"),
        row(head, op, "sat type=s32", "d s s"),
        row(head, op, "round=$rnd? ftz? sat? type=f32", "d s s"),
        row(head, op, "round=$rnd? ftz? type=f32x2", "d s s"),
        row(head, op, "round=$rnd? type=f64", "d s s"),
        row(head, op, f"round=rn? ftz? sat? type={_HALF}", "d s s"),
        row(head, op, f"round=rn? type={_BRAIN}", "d s s"),
        row(head, carry, "cc type=$int3264", "d s s", flags=Flag.CC),
        row(f"{head}c", carry, "cc type=$int3264", "d s s", flags=Flag.CC | Flag.CARRY),
        row(f"{head}c", carry, "type=$int3264", "d s s", flags=Flag.CARRY),
    )


def _extremes(head: str, op: Op) -> tuple[Row, ...]:
    """`min` and `max`."""
    return (
        row(head, op, "type=$int|u16x2|s16x2", "d s s"),
        row(head, op, "relu type=s16x2|s32", "d s s"),
        row(head, op, "ftz? NaN? xorsign abs type=f32", "d s s"),
        row(head, op, "ftz? NaN? type=f32", "d s s"),
        row(head, op, "ftz? NaN? abs type=f32", "d s s s", flags=Flag.ABS),
        row(head, op, "ftz? NaN? type=f32", "d s s s"),
        row(head, op, "type=f64", "d s s"),
        row(head, op, f"ftz? NaN? xorsign abs type={_HALF}", "d s s"),
        row(head, op, f"ftz? NaN? type={_HALF}", "d s s"),
        row(head, op, f"NaN? xorsign abs type={_BRAIN}", "d s s"),
        row(head, op, f"NaN? type={_BRAIN}", "d s s"),
    )


def _approximate(head: str, op: Op) -> Row:
    return row(head, op, "approx ftz? type=f32", "d s")


ROWS: tuple[Row, ...] = (
    *_sums("add", Op.ADD, Op.ADDC),
    *_sums("sub", Op.SUB, Op.SUBC),
    row("mul", Op.MUL, "mode=lo|hi type=$int", "d s s"),
    row("mul", Op.MUL, "mode=wide type=u16|s16|u32|s32", "d:wide s s"),
    row("mul", Op.MUL, "round=$rnd? ftz? sat? type=f32", "d s s"),
    row("mul", Op.MUL, "round=$rnd? ftz? type=f32x2", "d s s"),
    row("mul", Op.MUL, "round=$rnd? type=f64", "d s s"),
    row("mul", Op.MUL, f"round=rn? ftz? sat? type={_HALF}", "d s s"),
    row("mul", Op.MUL, f"round=rn? type={_BRAIN}", "d s s"),
    row("mad", Op.MAD, "mode=lo|hi type=$int", "d s s s"),
    row("mad", Op.MAD, "mode=hi sat type=s32", "d s s s"),
    row("mad", Op.MAD, "mode=wide type=u16|s16|u32|s32", "d:wide s s s:wide"),
    row("mad", Op.MADC, "mode=lo|hi cc type=$int3264", "d s s s", flags=Flag.CC),
    row("madc", Op.MADC, "mode=lo|hi type=$int3264", "d s s s", flags=Flag.CARRY),
    row("madc", Op.MADC, "mode=lo|hi cc type=$int3264", "d s s s", flags=Flag.CC | Flag.CARRY),
    row("mad", Op.FMA, "round=$rnd ftz? sat? type=f32", "d s s s"),
    row("mad", Op.FMA, "round=$rnd type=f64", "d s s s"),
    row("fma", Op.FMA, "round=$rnd ftz? sat? type=f32", "d s s s"),
    row("fma", Op.FMA, "round=$rnd ftz? type=f32x2", "d s s s"),
    row("fma", Op.FMA, "round=$rnd type=f64", "d s s s"),
    row("fma", Op.FMA, f"round=rn ftz? sat? type={_HALF}", "d s s s"),
    row("fma", Op.FMA, f"round=rn ftz? relu type={_HALF}", "d s s s"),
    row("fma", Op.FMA, f"round=rn relu? type={_BRAIN}", "d s s s"),
    row("div", Op.DIV, "type=$int", "d s s"),
    row("div", Op.DIV, "approx ftz? type=f32", "d s s"),
    row("div", Op.DIV, "full ftz? type=f32", "d s s"),
    row("div", Op.DIV, "round=$rnd ftz? type=f32", "d s s"),
    row("div", Op.DIV, "round=$rnd type=f64", "d s s"),
    row("rem", Op.REM, "type=$int", "d s s"),
    row("abs", Op.ABS, "type=s16|s32|s64|f64", "d s"),
    row("abs", Op.ABS, f"ftz? type=f32|{_HALF}", "d s"),
    row("abs", Op.ABS, f"type={_BRAIN}", "d s"),
    row("neg", Op.NEG, "type=s16|s32|s64|f64", "d s"),
    row("neg", Op.NEG, f"ftz? type=f32|{_HALF}", "d s"),
    row("neg", Op.NEG, f"type={_BRAIN}", "d s"),
    *_extremes("min", Op.MIN),
    *_extremes("max", Op.MAX),
    row("sad", Op.SAD, "type=$int", "d s s s"),
    row("mul24", Op.MUL24, "mode=lo|hi type=$int32", "d s s"),
    row("mad24", Op.MAD24, "mode=lo|hi type=$int32", "d s s s"),
    row("mad24", Op.MAD24, "mode=hi sat type=s32", "d s s s"),
    row("rcp", Op.RCP, "approx ftz? type=f32", "d s"),
    row("rcp", Op.RCP, "round=$rnd ftz? type=f32", "d s"),
    row("rcp", Op.RCP, "round=$rnd type=f64", "d s"),
    row("rcp", Op.RCP, "approx ftz type=f64", "d s"),
    row("sqrt", Op.SQRT, "approx ftz? type=f32", "d s"),
    row("sqrt", Op.SQRT, "round=$rnd ftz? type=f32", "d s"),
    row("sqrt", Op.SQRT, "round=$rnd type=f64", "d s"),
    row("rsqrt", Op.RSQRT, "approx ftz? type=f32|f64", "d s"),
    _approximate("sin", Op.SIN),
    _approximate("cos", Op.COS),
    _approximate("lg2", Op.LG2),
    _approximate("ex2", Op.EX2),
    row("ex2", Op.EX2, f"approx ftz? type={_HALF}", "d s"),
    row("ex2", Op.EX2, f"approx ftz type={_BRAIN}", "d s"),
    row("tanh", Op.TANH, f"approx type=f32|{_HALF}|{_BRAIN}", "d s"),
    row(
        "testp",
        Op.TESTP,
        "mode=finite|infinite|number|notanumber|normal|subnormal type=f32|f64",
        "d:pred s",
    ),
    row("copysign", Op.COPYSIGN, "type=f32|f64", "d s s"),
    row("dp4a", Op.DP4A, "type=u32|s32 type2=u32|s32", "d s s:2 s:b32"),
    row("dp2a", Op.DP2A, "mode=lo|hi type=u32|s32 type2=u32|s32", "d s s:2 s:b32"),
)
