"""An instruction of PTX with its record: what the arithmetic is compared with the GPU by.

In the PTX of a form, `D` and `Q` are destinations, `A` to `F` sources, each followed by the width
of its register (`p` for a predicate).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from warpsmith.sim.isa import Flag, Mode, Op, Round, Type

Fields = dict[str, int]

LETTER_OF = re.compile(r"\b([ABCEF])(?:16|32|64|p)\b")  # the sources of a text


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One instruction: its text, the record's fields, and the pool of each source.

    `constants` are sources that the text holds as numbers. `ulps` is None where the result is
    exact, else how far from the GPU's it may lie. `first` is an instruction that runs before on A
    and B and sets the carry; the form itself then takes C, E (and F), and Q is the carry it leaves.
    """

    text: str
    op: Op
    type: Type
    pools: tuple[str, ...]
    fields: Fields = field(default_factory=dict)
    constants: tuple[int, ...] = ()
    ulps: int | None = None
    first: Form | None = None
    atomic: bool = False

    @property
    def name(self) -> str:
        """What tells this form from all others."""
        return self.text if self.first is None else f"{self.first.text} {self.text}"

    def __str__(self) -> str:
        return self.name


WIDTH = {
    **dict.fromkeys(("pred",), "p"),
    **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16", "e4m3x2", "e5m2x2"), "16"),
    **dict.fromkeys(("b32", "u32", "s32", "f32", "f16x2", "bf16x2", "u16x2", "s16x2"), "32"),
    **dict.fromkeys(("tf32", "b8", "u8", "s8"), "32"),
    **dict.fromkeys(("b64", "u64", "s64", "f64"), "64"),
}
ROUNDS = {"": Round.NONE, **{f".{r.name.lower()}": r for r in Round if r is not Round.NONE}}
MODIFIERS = {
    ".ftz": Flag.FTZ,
    ".sat": Flag.SAT,
    ".approx": Flag.APPROX,
    ".full": Flag.FULL,
    ".relu": Flag.RELU,
    ".NaN": Flag.NAN,
    ".xorsign.abs": Flag.XORSIGN,
    ".cc": Flag.CC,
    ".wrap": Flag.WRAP,
    ".clamp": Flag.NONE,
    ".shiftamt": Flag.SHIFTAMT,
    ".satfinite": Flag.SATFINITE,
}
EXACT_ROUNDS = (".rn", ".rz", ".rm", ".rp")
INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
HALVES = ("f16", "f16x2", "bf16", "bf16x2")


def simple(
    op: str, type_: str, sources: int, *modifiers: str, mode: str = "", **options: object
) -> Form:
    """`op.modifiers.type D, A, ...`, all registers of one width; `options` override fields."""
    fields: Fields = {"flags": 0}
    for modifier in modifiers:
        if modifier in MODIFIERS:
            fields["flags"] |= MODIFIERS[modifier]
        else:
            fields["round_"] = ROUNDS[modifier]
    if mode:
        fields["mode"] = Mode[mode.upper()]
    width = WIDTH[type_]
    registers = ", ".join(f"{letter}{width}" for letter in "DABC"[: sources + 1])
    middle = f".{mode}" if mode else ""
    text = f"{op}{middle}{''.join(modifiers)}.{type_} {registers};"
    defaults = {
        "text": text,
        "op": Op[op.upper()],
        "type": Type[type_.upper()] if type_ != "pred" else Type.PRED,
        "pools": (type_,) * sources,
        "fields": fields,
    }
    return Form(**{**defaults, **options})
