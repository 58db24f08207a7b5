"""Integer arithmetic, carries and bits."""

from collections.abc import Iterator
from itertools import product

from tests.sim.support.forms.form import INTEGERS, MODIFIERS, WIDTH, Form, simple
from warpsmith.sim.isa import Flag, Mode, Op, Type


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
