"""Matrix products: `mma.sync` and `wgmma`, with the registers that each shape takes."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.sim.isa import Flag, Op, Type
from warpsmith.sim.ptx.decode.form import Form, Role, Row, row, rows
from warpsmith.sim.ptx.refusal import Refusal

_PRODUCTS: dict[Type, int] = {
    Type.F16: 16,
    Type.BF16: 16,
    Type.TF32: 32,
    Type.F64: 64,
    Type.E4M3: 8,
    Type.E5M2: 8,
    Type.S8: 8,
    Type.U8: 8,
    Type.F32: 32,
    Type.S32: 32,
}
"""Bits of an element of each type of operand."""

# (m, n, k) of `mma.sync` by type of A and B: PTX ISA, "Matrix multiply-accumulate operation".
_MMA_SHAPES: dict[Type, tuple[tuple[int, int, int], ...]] = {
    Type.F16: ((16, 8, 8), (16, 8, 16)),
    Type.BF16: ((16, 8, 8), (16, 8, 16)),
    Type.TF32: ((16, 8, 4), (16, 8, 8)),
    Type.F64: ((8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)),
    Type.E4M3: ((16, 8, 16), (16, 8, 32)),
    Type.E5M2: ((16, 8, 16), (16, 8, 32)),
    Type.S8: ((8, 8, 16), (16, 8, 16), (16, 8, 32)),
    Type.U8: ((8, 8, 16), (16, 8, 16), (16, 8, 32)),
}
_SUMS: dict[Type, tuple[Type, ...]] = {
    Type.F16: (Type.F16, Type.F32),
    Type.BF16: (Type.F32,),
    Type.TF32: (Type.F32,),
    Type.F64: (Type.F64,),
    Type.E4M3: (Type.F16, Type.F32),
    Type.E5M2: (Type.F16, Type.F32),
    Type.S8: (Type.S32,),
    Type.U8: (Type.S32,),
}
"""Types of D and C that a product of each type of A and B can have."""

_WGMMA_DEPTH = {Type.TF32: 8, Type.F16: 16, Type.BF16: 16} | dict.fromkeys(
    (Type.E4M3, Type.E5M2, Type.S8, Type.U8), 32
)
_SHAPES = "|".join(
    sorted({f"m{m}n{n}k{k}" for shapes in _MMA_SHAPES.values() for m, n, k in shapes})
)
_WIDE = "|".join(f"m64n{n}k{k}" for n in range(8, 257, 8) for k in (8, 16, 32))
_INPUTS = "f16|bf16|tf32|f64|e4m3|e5m2|s8|u8"
_OUT = "f16|f32|f64|s32"
_MMA = f"sync aligned shape={_SHAPES} row col"
_TYPES = f"type={_OUT} type2={_INPUTS} type2b={_INPUTS} typec={_OUT}"
_HALVES = "f16|bf16"
_SMALL = "tf32|e4m3|e5m2"


def _wgmma(types: str, out: str, scales: str, by_registers: str, by_memory: str) -> list[Row]:
    kinds = f"type={out} type2={types} type2b={types}"
    begin = f"mma_async sync aligned shape={_WIDE} {kinds}{scales}"
    return [
        row(
            *("wgmma", Op.WGMMA, begin, f"{{d*}} {{s*:2}} s:b64 s:pred{by_registers}"),
            flags=Flag.A_REGISTERS,
        ),
        row("wgmma", Op.WGMMA, begin, f"{{d*}} s:b64 s:b64 s:pred{by_memory}"),
    ]


ROWS: tuple[Row, ...] = (
    *rows(
        *("mma", Op.MMA),
        (f"{_MMA} satfinite? {_TYPES}", "{d*} {s*:2} {s*:2} {s*}"),
        (f"{_MMA} kind::f8f6f4 {_TYPES}", "{d*} {s*:2} {s*:2} {s*}"),
    ),
    *_wgmma(_HALVES, "f16|f32", "", " n n n", " n n n n"),
    *_wgmma(_SMALL, "f16|f32", "", " n n", " n n"),
    *_wgmma("s8|u8", "s32", " satfinite?", "", ""),
    row("wgmma", Op.WGMMA_FENCE, "fence sync aligned", ""),
    row("wgmma", Op.WGMMA_COMMIT, "commit_group sync aligned", ""),
    row("wgmma", Op.WGMMA_WAIT, "wait_group sync aligned", "n"),
)


def checked(form: Form, mnemonic: str) -> Form:
    """The form with the lengths of its vectors of registers; other instructions as they are.

    Raises Refusal for a product whose types and shape do not go together.
    """
    if form.op not in (Op.MMA, Op.WGMMA):
        return form
    words = mnemonic.split(".")
    m, n, k = form.shape
    spelled = form.type2.name.lower()
    at = next(i for i, word in enumerate(words) if word.startswith("m") and word[1:2].isdigit())
    types = [word for word in words[at + 1 :] if word not in ("row", "col", "satfinite")]
    other = Type[types[2].upper()]
    if other is not form.type2:
        if _PRODUCTS[other] != 8 or _SUMS[other] != _SUMS[form.type2]:
            raise Refusal(
                f"`{mnemonic}`: A is {spelled} and B {types[2]}, which do not go together"
            )
        form = replace(form, vector=int(other))
    if form.type not in _SUMS[form.type2]:
        sums = ", ".join(t.name.lower() for t in _SUMS[form.type2])
        raise Refusal(f"`{mnemonic}`: products of {spelled} are summed in {sums}")
    if form.op is Op.MMA:
        if types[3] != types[0]:
            raise Refusal(f"`{mnemonic}` is not supported: C and D have different types")
        if form.shape not in _MMA_SHAPES[form.type2]:
            shapes = ", ".join(f"m{m}n{n}k{k}" for m, n, k in _MMA_SHAPES[form.type2])
            raise Refusal(f"`{mnemonic}`: shapes for {spelled} are {shapes}")
        bits = (_PRODUCTS[form.type], *[_PRODUCTS[form.type2]] * 2, _PRODUCTS[form.type])
        lengths = [
            elements * size // 32 // (64 if size == 64 else 32)
            for elements, size in zip((m * n, m * k, n * k, m * n), bits, strict=True)
        ]
    else:
        if k != _WGMMA_DEPTH[form.type2]:
            raise Refusal(f"`{mnemonic}`: k of {spelled} is {_WGMMA_DEPTH[form.type2]}")
        lengths = [m * n * _PRODUCTS[form.type] // 128 // 32, 4]
    roles = list(form.roles)
    for index, length in enumerate(lengths):
        role = roles[index][0]
        if role.length:
            roles[index] = (_register(role, length),)
    return replace(form, roles=tuple(roles))


def _register(role: Role, length: int) -> Role:
    """Halves and smaller elements travel packed in 32-bit registers."""
    type_ = role.type if role.type in (Type.F32, Type.F64, Type.S32) else Type.B32
    return replace(role, type=type_, length=length)
