"""cvt and cvt.pack."""

from collections.abc import Iterator
from itertools import product

from tests.sim.support.forms.form import EXACT_ROUNDS, INTEGERS, WIDTH, Form, simple
from warpsmith.sim.isa import Flag, Type


def convert(to: str, from_: str, *modifiers: str, **options: object) -> Form:
    """`cvt.modifiers.to.from`."""
    form = simple("cvt", to, 1, *modifiers)
    fields = {**form.fields, "type2": Type[from_.upper()]}
    if to in ("s8", "u8"):
        fields["vector"] = 4
    text = f"cvt{''.join(modifiers)}.{to}.{from_} D{WIDTH[to]}, A{WIDTH[from_]};"
    defaults = {"text": text, "fields": fields, "pools": (from_,)}
    return simple("cvt", to, 1, *modifiers, **{**defaults, **options})


EXACT = "rn rz rm rp"
WHOLE = "- rni rzi rmi rpi"
# Roundings and modifiers that go together; `-` for none.
FLOAT_CONVERSIONS = {
    ("f16", "f16"): ((WHOLE, "- sat"),),
    ("f16", "bf16"): ((f"- {EXACT}", "-"),),
    ("f16", "f32"): ((EXACT, "- ftz sat ftz.sat"), ("rn rz", "relu satfinite")),
    ("f16", "f64"): ((EXACT, "- sat"),),
    ("bf16", "f16"): ((f"- {EXACT}", "-"),),
    ("bf16", "bf16"): ((WHOLE, "-"),),
    ("bf16", "f32"): ((EXACT, "- ftz"), ("rn rz", "relu satfinite")),
    ("bf16", "f64"): ((EXACT, "-"),),
    ("f32", "f16"): (("-", "- ftz sat ftz.sat"),),
    ("f32", "bf16"): ((f"- {EXACT}", "- ftz"),),
    ("f32", "f32"): ((WHOLE, "- ftz sat ftz.sat"),),
    ("f32", "f64"): ((EXACT, "- ftz sat ftz.sat"),),
    ("f64", "f16"): (("-", "- sat"),),
    ("f64", "bf16"): ((f"- {EXACT}", "-"),),
    ("f64", "f32"): (("-", "- ftz sat ftz.sat"),),
    ("f64", "f64"): ((WHOLE, "- sat"),),
}


def limits(type_: str) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    width = int(type_[1:])
    if type_[0] == "u":
        return 0, (1 << width) - 1
    return -(1 << (width - 1)), (1 << (width - 1)) - 1


def saturates(to: str, from_: str) -> bool:
    """Whether some number of one integer type is out of the range of the other."""
    return limits(from_)[0] < limits(to)[0] or limits(from_)[1] > limits(to)[1]


def conversions() -> Iterator[Form]:
    """cvt and cvt.pack."""
    whole = ("u8", "s8", *INTEGERS)
    real = ("f16", "bf16", "f32", "f64")
    to_whole = (".rni", ".rzi", ".rmi", ".rpi")
    for to, from_ in product(whole, whole):
        yield convert(to, from_)
        if saturates(to, from_):
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
        if to == "bf16" and from_ in ("u8", "s8"):
            continue
        for rounding in EXACT_ROUNDS:
            yield convert(to, from_, rounding)
        if to != "bf16":
            yield convert(to, from_, ".rn", ".sat")
    for to, from_ in product(whole, real):
        if from_ == "bf16" and to in ("u8", "s8"):
            continue
        for rounding in to_whole:
            yield convert(to, from_, rounding)
        if from_ == "f32":
            yield convert(to, from_, ".rzi", ".ftz")
            yield convert(to, from_, ".rpi", ".ftz")
        if from_ != "bf16":
            yield convert(to, from_, ".rni", ".sat")
    for (to, from_), groups in FLOAT_CONVERSIONS.items():
        for roundings, extras in groups:
            for rounding, extra in product(roundings.split(), extras.split()):
                modifiers = [f".{name}" for name in f"{rounding}.{extra}".split(".") if name != "-"]
                yield convert(to, from_, *modifiers)
    for modifiers in (
        *((".rna",), (".rna", ".satfinite")),
        *((".rn",), (".rn", ".relu"), (".rz",), (".rz", ".relu")),
    ):
        yield convert("tf32", "f32", *modifiers)


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
