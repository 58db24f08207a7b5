"""Logic, shifts, bit fields, comparison and selection."""

from __future__ import annotations

from warpsmith.sim.isa import Flag, Op
from warpsmith.sim.ptx.decode.form import Row, row, rows

_ANY = "pred|b16|b32|b64"
_COMPARED = "b16|b32|b64|u16|u32|u64|s16|s32|s64|f64"
_SET = f"type=u32|s32|f32|f16|bf16|u16|s16|f16x2|bf16x2 type2={_COMPARED}|f32|f16|bf16|f16x2|bf16x2"

ROWS: tuple[Row, ...] = (
    *(
        row(head, op, f"type={_ANY}", "d s s")
        for head, op in (("and", Op.AND), ("or", Op.OR), ("xor", Op.XOR))
    ),
    row("not", Op.NOT, f"type={_ANY}", "d s"),
    row("cnot", Op.CNOT, "type=$bits", "d s"),
    row("lop3", Op.LOP3, "type=b32", "d s s s n"),
    row(
        *("lop3", Op.LOP3, "mode=and|or type=b32", "d|d:pred s s s n s:pred"),
        flags=Flag.PREDICATE,
    ),
    row("shl", Op.SHL, "type=$bits", "d s s:u32"),
    row("shr", Op.SHR, "type=b16|b32|b64|u16|u32|u64|s16|s32|s64", "d s s:u32"),
    row("shf", Op.SHF, "mode=l|r wrap type=b32", "d s s s:u32"),
    row("shf", Op.SHF, "mode=l|r clamp type=b32", "d s s s:u32"),
    row("popc", Op.POPC, "type=b32|b64", "d:u32 s"),
    row("clz", Op.CLZ, "type=b32|b64", "d:u32 s"),
    row("brev", Op.BREV, "type=b32|b64", "d s"),
    row("bfind", Op.BFIND, "shiftamt? type=$int3264", "d:u32 s"),
    row("fns", Op.FNS, "type=b32", "d s s s"),
    row("bfe", Op.BFE, "type=$int3264", "d s s:u32 s:u32"),
    row("bfi", Op.BFI, "type=b32|b64", "d s s s:u32 s:u32"),
    row("szext", Op.SZEXT, "wrap type=$int32", "d s s:u32"),
    row("szext", Op.SZEXT, "clamp type=$int32", "d s s:u32"),
    row("bmsk", Op.BMSK, "wrap type=b32", "d s s"),
    row("bmsk", Op.BMSK, "clamp type=b32", "d s s"),
    row("prmt", Op.PRMT, "type=b32", "d s s s"),
    row("prmt", Op.PRMT, "type=b32 mode=f4e|b4e|rc8|ecl|ecr|rc16", "d s s s"),
    *rows(
        *("set", Op.SET),
        (f"compare=$compare ftz? {_SET}", "d s:2 s:2"),
        (f"compare=$compare combine=$combine ftz? {_SET}", "d s:2 s:2 s:pred"),
    ),
    *(
        row("setp", Op.SETP, f"{suffixes} type={types}", f"{out} s s{last}", flags=flags)
        for out, flags in (("d:pred", Flag.NONE), ("d:pred|d:pred", Flag.PREDICATE))
        for combined, last in (("", ""), (" combine=$combine", " s:pred"))
        for types, ftz in ((f"{_COMPARED}|bf16|bf16x2", ""), ("f32|f16|f16x2", " ftz?"))
        for suffixes in (f"compare=$compare{combined}{ftz}",)
    ),
    row("selp", Op.SELP, "type=$scalar", "d s s s:pred"),
    row("slct", Op.SLCT, "type=$scalar type2=s32", "d s s s:2"),
    row("slct", Op.SLCT, "ftz? type=$scalar type2=f32", "d s s s:2"),
)
