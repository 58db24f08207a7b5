"""Every form of an arithmetic instruction that ptxas takes for sm_90a, as PTX and as record.

In the PTX of a form, `D` and `Q` are destinations, `A` to `F` sources, each followed by the width
of its register (`p` for a predicate).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from warpsmith.sim.isa import Combine, Compare, Flag, Mode, Op, Round, Type

type Fields = dict[str, int]


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


def integers() -> Iterator[Form]:
    """Integer arithmetic."""
    for type_ in INTEGERS:
        for op in ("add", "sub", "div", "rem", "min", "max"):
            yield simple(op, type_, 2)
        yield simple("sad", type_, 3)
        for mode in ("lo", "hi"):
            yield simple("mul", type_, 2, mode=mode)
            yield simple("mad", type_, 3, mode=mode)
        if type_.startswith("s"):
            yield simple("abs", type_, 1)
            yield simple("neg", type_, 1)
        if not type_.endswith("64"):
            wide = {"16": "32", "32": "64"}[type_[1:]]
            narrow = type_[1:]
            yield simple(
                "mul",
                type_,
                2,
                mode="wide",
                text=f"mul.wide.{type_} D{wide}, A{narrow}, B{narrow};",
            )
            text = f"mad.wide.{type_} D{wide}, A{narrow}, B{narrow}, C{wide};"
            yield simple("mad", type_, 3, mode="wide", text=text, pools=(type_, type_, f"u{wide}"))
    yield simple("add", "s32", 2, ".sat")
    yield simple("sub", "s32", 2, ".sat")
    yield simple(
        "mad",
        "s32",
        3,
        mode="hi",
        text="mad.hi.sat.s32 D32, A32, B32, C32;",
        fields={"mode": Mode.HI, "flags": Flag.SAT},
    )
    for type_ in ("u16x2", "s16x2"):
        for op in ("add", "min", "max"):
            yield simple(op, type_, 2)
    for type_, op in product(("s32", "s16x2"), ("min", "max")):
        yield simple(op, type_, 2, ".relu")
    for type_, mode in product(("u32", "s32"), ("lo", "hi")):
        yield simple("mul24", type_, 2, mode=mode)
        yield simple("mad24", type_, 3, mode=mode)
    yield simple(
        "mad24",
        "s32",
        3,
        mode="hi",
        text="mad24.hi.sat.s32 D32, A32, B32, C32;",
        fields={"mode": Mode.HI, "flags": Flag.SAT},
    )
    for first, second in product(("u32", "s32"), repeat=2):
        fields = {"type2": Type[second.upper()]}
        yield simple(
            "dp4a", first, 3, text=f"dp4a.{first}.{second} D32, A32, B32, C32;", fields=fields
        )
        for mode in ("lo", "hi"):
            text = f"dp2a.{mode}.{first}.{second} D32, A32, B32, C32;"
            yield simple("dp2a", first, 3, text=text, fields={**fields, "mode": Mode[mode.upper()]})


def carries() -> Iterator[Form]:
    """A carry made by one instruction, used by a second, which leaves another."""
    for type_ in ("u32", "s32", "u64", "s64"):
        width = WIDTH[type_]
        makers = [simple("add", type_, 2, ".cc"), simple("sub", type_, 2, ".cc")]
        for maker in makers:
            for op in ("addc", "subc"):
                yield Form(
                    text=f"{op}.cc.{type_} D{width}, C{width}, E{width};",
                    op=Op[op.upper()],
                    type=Type[type_.upper()],
                    pools=(type_,) * 4,
                    fields={"flags": Flag.CC | Flag.CARRY},
                    first=maker,
                )
            for mode in ("lo", "hi"):
                yield Form(
                    text=f"madc.{mode}.cc.{type_} D{width}, A{width}, C{width}, E{width};",
                    op=Op.MADC,
                    type=Type[type_.upper()],
                    pools=(type_,) * 4,
                    fields={"flags": Flag.CC | Flag.CARRY, "mode": Mode[mode.upper()]},
                    first=maker,
                )


def bits() -> Iterator[Form]:
    """Logic, shifts, fields."""
    for type_ in ("pred", "b16", "b32", "b64"):
        for op in ("and", "or", "xor"):
            yield simple(op, type_, 2)
        yield simple("not", type_, 1)
        if type_ != "pred":
            yield simple("cnot", type_, 1)
            width = WIDTH[type_]
            pools = (type_, "shift")
            yield simple("shl", type_, 2, text=f"shl.{type_} D{width}, A{width}, B32;", pools=pools)
            for kind in "bus":
                name = f"{kind}{width}"
                yield simple(
                    "shr", name, 2, text=f"shr.{name} D{width}, A{width}, B32;", pools=pools
                )
    for table in (0x96, 0xE8, 0xCA, 0x1B, 0x01, 0x7F, 0xAC):
        pools = ("b32",) * 3
        yield simple(
            "lop3",
            "b32",
            3,
            text=f"lop3.b32 D32, A32, B32, C32, {table};",
            constants=(table,),
            pools=pools,
        )
    for mode in ("and", "or"):
        yield simple(
            "lop3",
            "b32",
            3,
            text=f"lop3.{mode}.b32 D32|Qp, A32, B32, C32, 128, Fp;",
            constants=(128,),
            pools=("b32", "b32", "b32", "pred"),
            fields={"mode": Mode[mode.upper()]},
        )
    for side, clamp in product(("l", "r"), (".wrap", ".clamp")):
        fields = {"mode": Mode.LEFT if side == "l" else Mode.RIGHT, "flags": MODIFIERS[clamp]}
        yield simple(
            "shf",
            "b32",
            3,
            text=f"shf.{side}{clamp}.b32 D32, A32, B32, C32;",
            pools=("b32", "b32", "shift"),
            fields=fields,
        )
    for op, width in product(("popc", "clz"), ("32", "64")):
        yield simple(op, f"b{width}", 1, text=f"{op}.b{width} D32, A{width};")
    for width in ("32", "64"):
        yield simple("brev", f"b{width}", 1)
        for kind in "us":
            name = f"{kind}{width}"
            for modifier in ("", ".shiftamt"):
                yield simple(
                    "bfind",
                    name,
                    1,
                    text=f"bfind{modifier}.{name} D32, A{width};",
                    fields={"flags": MODIFIERS.get(modifier, 0)},
                )
            yield simple(
                "bfe",
                name,
                3,
                text=f"bfe.{name} D{width}, A{width}, B32, C32;",
                pools=(name, "shift", "shift"),
            )
        yield simple(
            "bfi",
            f"b{width}",
            4,
            text=f"bfi.b{width} D{width}, A{width}, B{width}, C32, E32;",
            pools=(f"b{width}", f"b{width}", "shift", "shift"),
        )
    yield simple("fns", "b32", 3, pools=("b32", "lane", "offset"))
    for kind, clamp in product("us", (".clamp", ".wrap")):
        yield simple("szext", f"{kind}32", 2, clamp, pools=("b32", "shift"))
    for clamp in (".clamp", ".wrap"):
        yield simple("bmsk", "b32", 2, clamp, pools=("shift", "shift"))
    yield simple("prmt", "b32", 3)
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        yield simple(
            "prmt",
            "b32",
            3,
            text=f"prmt.b32.{mode} D32, A32, B32, C32;",
            fields={"mode": Mode[mode.upper()]},
        )


def floats() -> Iterator[Form]:
    """f32 and f64, exact."""
    limits = ((), (".ftz",), (".sat",), (".ftz", ".sat"))
    for rounding in EXACT_ROUNDS:
        for extra in limits:
            for op in ("add", "sub", "mul"):
                yield simple(op, "f32", 2, rounding, *extra)
            yield simple("fma", "f32", 3, rounding, *extra)
        for extra in limits[:2]:
            yield simple("div", "f32", 2, rounding, *extra)
            yield simple("rcp", "f32", 1, rounding, *extra)
            yield simple("sqrt", "f32", 1, rounding, *extra)
        for op in ("add", "sub", "mul", "div"):
            yield simple(op, "f64", 2, rounding)
        yield simple("fma", "f64", 3, rounding)
        yield simple("mad", "f64", 3, rounding)
        yield simple("rcp", "f64", 1, rounding)
        yield simple("sqrt", "f64", 1, rounding)
    for op, sources in (("abs", 1), ("neg", 1)):
        yield simple(op, "f32", sources)
        yield simple(op, "f32", sources, ".ftz")
        yield simple(op, "f64", sources)
    for op in ("min", "max"):
        yield simple(op, "f64", 2)
        for ftz, nan, sign in product(((), (".ftz",)), ((), (".NaN",)), ((), (".xorsign.abs",))):
            yield simple(op, "f32", 2, *ftz, *nan, *sign)
    for width in ("32", "64"):
        yield simple("copysign", f"f{width}", 2)
        for mode in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            yield simple(
                "testp", f"f{width}", 1, mode=mode, text=f"testp.{mode}.f{width} Dp, A{width};"
            )


def halves() -> Iterator[Form]:
    """f16 and bf16, alone and in pairs."""
    for type_ in HALVES:
        is_f16 = type_.startswith("f")
        for op in ("add", "sub", "mul"):
            for extra in ((), (".ftz",), (".sat",), (".ftz", ".sat")):
                if is_f16 or not extra:
                    yield simple(op, type_, 2, ".rn", *extra)
        for extra in ((), (".ftz",), (".sat",), (".ftz", ".sat"), (".relu",), (".ftz", ".relu")):
            if is_f16 or extra in ((), (".relu",)):
                yield simple("fma", type_, 3, ".rn", *extra)
        for op in ("abs", "neg"):
            yield simple(op, type_, 1)
            if is_f16:
                yield simple(op, type_, 1, ".ftz")
        for op, ftz, nan, sign in product(
            ("min", "max"), ((), (".ftz",)), ((), (".NaN",)), ((), (".xorsign.abs",))
        ):
            if is_f16 or not ftz:
                yield simple(op, type_, 2, *ftz, *nan, *sign)


def approximate() -> Iterator[Form]:
    """Functions that the GPU approximates."""
    for ftz in ((), (".ftz",)):
        for op, ulps in (("rcp", 1), ("sqrt", 3), ("rsqrt", 2), ("ex2", 2)):
            yield simple(op, "f32", 1, ".approx", *ftz, ulps=ulps)
        for op in ("sin", "cos", "lg2"):
            yield simple(op, "f32", 1, ".approx", *ftz, ulps=1 << 40)
        for kind in (".approx", ".full"):
            yield simple("div", "f32", 2, kind, *ftz, ulps=2)
    yield simple("tanh", "f32", 1, ".approx", ulps=1 << 14)
    for type_ in HALVES:
        yield simple("tanh", type_, 1, ".approx", ulps=1)
    for type_ in ("f16", "f16x2"):
        yield simple("ex2", type_, 1, ".approx", ulps=1)
    for type_ in ("bf16", "bf16x2"):
        yield simple("ex2", type_, 1, ".approx", ".ftz", ulps=1)
    yield simple("rcp", "f64", 1, ".approx", ".ftz", ulps=1 << 33)
    yield simple("rsqrt", "f64", 1, ".approx", ".ftz", ulps=1 << 33)
    yield simple("rsqrt", "f64", 1, ".approx", ulps=4)


SIGNED_COMPARES = ("eq", "ne", "lt", "le", "gt", "ge")
UNSIGNED_COMPARES = (*SIGNED_COMPARES, "lo", "ls", "hi", "hs")
FLOAT_COMPARES = (*SIGNED_COMPARES, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


def compares_of(type_: str) -> tuple[str, ...]:
    """The comparisons of a type."""
    if type_.startswith(("f", "bf")):
        return FLOAT_COMPARES
    kinds = {"b": ("eq", "ne"), "s": SIGNED_COMPARES, "u": UNSIGNED_COMPARES}
    return kinds[type_[0]]


def comparisons() -> Iterator[Form]:
    """setp, set, selp and slct."""
    types = ("b16", "b32", "b64", *INTEGERS, "f32", "f64", *HALVES)
    for type_ in types:
        width = WIDTH[type_]
        for compare in compares_of(type_):
            for ftz in ("", ".ftz") if type_ in ("f32", "f16", "f16x2") else ("",):
                fields = {"compare": Compare[compare.upper()], "flags": MODIFIERS.get(ftz, 0)}
                text = f"setp.{compare}{ftz}.{type_} Dp|Qp, A{width}, B{width};"
                yield simple("setp", type_, 2, text=text, fields=fields)
        for combine in ("and", "or", "xor"):
            fields = {"compare": Compare.NE, "combine": Combine[combine.upper()]}
            text = f"setp.ne.{combine}.{type_} Dp|Qp, A{width}, B{width}, Cp;"
            yield simple("setp", type_, 2, text=text, fields=fields, pools=(type_, type_, "pred"))
        results = ("f16", "bf16", "u16", "s16", "u32", "s32", "f32")
        for result in results:
            for ftz, combine in (("", ""), ("", ".xor")):
                compare = "ne" if type_.startswith("b") and type_[1].isdigit() else "gt"
                more = ", Cp" if combine else ""
                fields = {
                    "compare": Compare[compare.upper()],
                    "combine": Combine.XOR if combine else 0,
                    "type2": Type[type_.upper()],
                }
                if type_ in ("f16x2", "bf16x2"):
                    if result not in ("f16", "bf16", "u32", "s32"):
                        continue
                    result_ = result + ("x2" if result.endswith("f16") else "")
                else:
                    result_ = result
                text = f"set.{compare}{combine}{ftz}.{result_}.{type_} D{WIDTH[result_]}, A{width}, B{width}{more};"
                yield simple(
                    "set",
                    result_,
                    2,
                    text=text,
                    fields=fields,
                    pools=(type_, type_, *(("pred",) if combine else ())),
                )
    for type_ in ("b16", "b32", "b64", "u16", "s32", "f32", "f64"):
        width = WIDTH[type_]
        yield simple(
            "selp",
            type_,
            3,
            text=f"selp.{type_} D{width}, A{width}, B{width}, Cp;",
            pools=(type_, type_, "pred"),
        )
        for chooser, ftz in (("s32", ""), ("f32", ""), ("f32", ".ftz")):
            fields = {"type2": Type[chooser.upper()], "flags": MODIFIERS.get(ftz, 0)}
            text = f"slct{ftz}.{type_}.{chooser} D{width}, A{width}, B{width}, C32;"
            yield simple("slct", type_, 3, text=text, fields=fields, pools=(type_, type_, chooser))


def convert(to: str, from_: str, *modifiers: str, **options: object) -> Form:
    """`cvt.modifiers.to.from`."""
    form = simple("cvt", to, 1, *modifiers)
    fields = {**form.fields, "type2": Type[from_.upper()]}
    if to in ("s8", "u8"):
        fields["vector"] = 4
    text = f"cvt{''.join(modifiers)}.{to}.{from_} D{WIDTH[to]}, A{WIDTH[from_]};"
    defaults = {"text": text, "fields": fields, "pools": (from_,)}
    return simple("cvt", to, 1, *modifiers, **{**defaults, **options})


def conversions() -> Iterator[Form]:
    """cvt and cvt.pack."""
    whole = ("u8", "s8", *INTEGERS)
    real = ("f16", "bf16", "f32", "f64")
    to_whole = (".rni", ".rzi", ".rmi", ".rpi")
    for to, from_ in product(whole, whole):
        yield convert(to, from_)
        yield convert(to, from_, ".sat")
    for to, from_ in product(("s8", "s16"), ("s32", "f32")):
        rounding = (".rzi",) if from_ == "f32" else ()
        form = convert(to, from_, *rounding)
        yield convert(
            to,
            from_,
            *rounding,
            text=f"cvt{''.join(rounding)}.{to}.{from_} D64, A32;",
            fields={**form.fields, "vector": 8},
        )
    for to, from_ in product(real, whole):
        for rounding in EXACT_ROUNDS:
            yield convert(to, from_, rounding)
        yield convert(to, from_, ".rn", ".sat")
    for to, from_ in product(whole, real):
        for rounding in to_whole:
            yield convert(to, from_, rounding)
        if from_ == "f32":
            yield convert(to, from_, ".rzi", ".ftz")
            yield convert(to, from_, ".rpi", ".ftz")
        yield convert(to, from_, ".rni", ".sat")
    for to, from_ in product(real, real):
        for rounding in ("", *EXACT_ROUNDS, *to_whole):
            for extra in ((), (".ftz",), (".sat",), (".ftz", ".sat"), (".relu",), (".satfinite",)):
                if ".ftz" in extra and "f32" not in (to, from_):
                    continue
                chosen = [rounding] if rounding else []
                if ".relu" in extra or ".satfinite" in extra:
                    text = f"cvt{rounding}{extra[0]}.{to}.{from_} D{WIDTH[to]}, A{WIDTH[from_]};"
                    yield convert(to, from_, *chosen, *extra, text=text)
                else:
                    yield convert(to, from_, *chosen, *extra)
    for rounding in (".rna", ".rn", ".rz"):
        for extra in ((), (".relu",), (".satfinite",)):
            yield convert("tf32", "f32", rounding, *extra)


def pairs() -> Iterator[Form]:
    """Conversions of packed types."""
    for to in ("f16x2", "bf16x2"):
        for rounding in (".rn", ".rz"):
            for extra in ((), (".relu",), (".satfinite",), (".relu", ".satfinite")):
                text = f"cvt{rounding}{''.join(extra)}.{to}.f32 D32, A32, B32;"
                yield convert(to, "f32", rounding, *extra, text=text, pools=("f32", "f32"))
    for to in ("e4m3x2", "e5m2x2"):
        for extra in ((), (".relu",)):
            text = f"cvt.rn.satfinite{''.join(extra)}.{to}.f32 D16, A32, B32;"
            yield convert(to, "f32", ".rn", ".satfinite", *extra, text=text, pools=("f32", "f32"))
            yield convert(to, "f16x2", ".rn", ".satfinite", *extra)
            yield convert("f16x2", to, ".rn", *extra)
    for to in ("u16", "s16"):
        yield simple(
            "cvt_pack",
            to,
            2,
            text=f"cvt.pack.sat.{to}.s32 D32, A32, B32;",
            pools=("s32", "s32"),
            fields={"type2": Type.S32, "flags": Flag.SAT},
        )
    for to in ("u8", "s8"):
        yield simple(
            "cvt_pack",
            to,
            3,
            text=f"cvt.pack.sat.{to}.s32.b32 D32, A32, B32, C32;",
            pools=("s32", "s32", "b32"),
            fields={"type2": Type.S32, "flags": Flag.SAT},
        )


def atomics() -> Iterator[Form]:
    """atom: A is what lies in memory, D what lies there afterwards."""
    kinds = {
        "add": ("u32", "s32", "u64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2"),
        **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64")),
        **dict.fromkeys(("inc", "dec"), ("u32",)),
        **dict.fromkeys(("and", "or", "xor", "exch", "cas"), ("b32", "b64")),
    }
    for space, (mode, types) in product(("global", "shared"), kinds.items()):
        for type_ in types:
            width = WIDTH[type_]
            noftz = ".noftz" if type_ in HALVES else ""
            third = f", C{width}" if mode == "cas" else ""
            yield Form(
                text=f"atom.{space}.{mode}{noftz}.{type_} O{width}, [%slot], B{width}{third};",
                op=Op.ATOM,
                type=Type[type_.upper()],
                pools=(type_,) * (3 if third else 2),
                fields={"mode": Mode[mode.upper()]},
                atomic=True,
            )


FAMILIES = (
    *(integers, carries, bits, floats, halves, approximate),
    *(comparisons, conversions, pairs, atomics),
)


def all_forms() -> tuple[Form, ...]:
    """Every form, those that ptxas refuses for sm_90a included."""
    return tuple(form for family in FAMILIES for form in family())
