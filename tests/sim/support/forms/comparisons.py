"""Comparison and selection."""

from collections.abc import Iterator
from itertools import product

from tests.sim.support.forms.form import HALVES, INTEGERS, MODIFIERS, WIDTH, Form, simple
from warpsmith.sim.isa import Combine, Compare, Type

SIGNED_COMPARES = ("eq", "ne", "lt", "le", "gt", "ge")
UNSIGNED_COMPARES = (*SIGNED_COMPARES, "lo", "ls", "hi", "hs")
FLOAT_COMPARES = (*SIGNED_COMPARES, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


def compares_of(type_: str) -> tuple[str, ...]:
    """The comparisons of a type."""
    if type_.startswith(("f", "bf")):
        return FLOAT_COMPARES
    kinds = {"b": ("eq", "ne"), "s": SIGNED_COMPARES, "u": UNSIGNED_COMPARES}
    return kinds[type_[0]]


def set_results(type_: str) -> tuple[str, ...]:
    """The types that set gives for sources of a type."""
    if type_ in ("f16", "bf16"):
        return (type_, "u16", "s16", "u32", "s32")
    if type_ in ("f16x2", "bf16x2"):
        return (type_, "u32", "s32")
    return ("u32", "s32", "f32", "f16", "bf16")


def comparisons() -> Iterator[Form]:
    """setp, set, selp and slct."""
    types = ("b16", "b32", "b64", *INTEGERS, "f32", "f64", *HALVES)
    for type_ in types:
        width = WIDTH[type_]
        both = "Dp" if type_ in ("f16", "bf16") else "Dp|Qp"
        for compare in compares_of(type_):
            for ftz in ("", ".ftz") if type_ in ("f32", "f16", "f16x2") else ("",):
                fields = {"compare": Compare[compare.upper()], "flags": MODIFIERS.get(ftz, 0)}
                text = f"setp.{compare}{ftz}.{type_} {both}, A{width}, B{width};"
                yield simple("setp", type_, 2, text=text, fields=fields)
        for combine in ("and", "or", "xor"):
            fields = {"compare": Compare.NE, "combine": Combine[combine.upper()]}
            text = f"setp.ne.{combine}.{type_} {both}, A{width}, B{width}, Cp;"
            yield simple("setp", type_, 2, text=text, fields=fields, pools=(type_, type_, "pred"))
        compare = "ne" if type_ in ("b16", "b32", "b64") else "gt"
        flushes = ("", ".ftz") if type_ in ("f32", "f16", "f16x2") else ("",)
        for result, combine, ftz in product(set_results(type_), ("", ".xor"), flushes):
            if ftz and result == "bf16":
                continue
            fields = {
                "compare": Compare[compare.upper()],
                "combine": Combine.XOR if combine else 0,
                "flags": MODIFIERS.get(ftz, 0),
                "type2": Type[type_.upper()],
            }
            registers = f"D{WIDTH[result]}, A{width}, B{width}{', Cp' if combine else ''}"
            text = f"set.{compare}{combine}{ftz}.{result}.{type_} {registers};"
            pools = (type_, type_, *(("pred",) if combine else ()))
            yield simple("set", result, 2, text=text, fields=fields, pools=pools)
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
