"""Arithmetic, bits and conversions: records against the catalogue of forms, and refusals."""

from collections.abc import Callable, Iterator

import pytest

from tests.sim.support.forms.every import FAMILIES
from tests.sim.support.forms.form import Form
from tests.sim.support.forms.kernels import HEADER, kernel
from tests.sim.support.ptx_body import one, refusal
from warpsmith.sim.isa import Flag, Kind, Mode, Op, Type
from warpsmith.sim.ptx import read


def differences(form: Form) -> Iterator[str]:
    """Fields in which no instruction of the form's kernel is as the form says."""
    program = read(HEADER + kernel(form, "k"))
    op = Op.FMA if form.text.startswith("mad.r") else form.op
    found = [i for i in program.instructions if i.op is op and i.does.type is form.type]
    if not found:
        yield f"{form.text}: no {op.name} of {form.type.name}"
    wanted = {name.rstrip("_"): value for name, value in form.fields.items()}
    for name, value in wanted.items():
        got = {getattr(i.does, name) for i in found}
        if name == "flags":
            got |= {flags & ~Flag.PREDICATE for flags in got}
        if found and value not in got:
            yield f"{form.text}: {name} is {got}, not {value!r}"


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_records_are_those_of_the_catalogue(family: Callable[[], Iterator[Form]]) -> None:
    assert not [line for form in family() for line in differences(form)]


def test_a_fused_multiply_add_is_one_operation_under_both_names() -> None:
    assert one("mad.rn.f32 %f1, %f2, %f3, %f4;").op is Op.FMA
    assert one("fma.rn.f32 %f1, %f2, %f3, %f4;").op is Op.FMA


def test_wide_products_take_registers_of_twice_the_width() -> None:
    assert one("mul.wide.u16 %r1, %h1, %h2;").does.mode is Mode.WIDE
    assert "`%h1` is a .b16 register; .u32 is expected" in refusal("mul.wide.u16 %h1, %h1, 2;")


def test_suffixes_may_stand_in_another_order() -> None:
    assert one("add.ftz.rn.f32 %f1, %f2, %f3;").does.flags == Flag.FTZ


def test_lop3_with_a_predicate() -> None:
    found = one("lop3.or.b32 _|%p1, %r1, %r2, %r3, 0x80, !%p2;")
    assert (found.does.flags, found.does.mode) == (Flag.PREDICATE, Mode.OR)
    assert [o.kind for o in found.operands[:2]] == [Kind.SINK, Kind.REGISTER]
    assert found.operands[5].value == 0x80
    assert found.operands[6].negated


def test_conversion_into_a_wider_register_says_its_bytes() -> None:
    assert one("cvt.s8.s32 %r1, %r2;").does.vector == 4
    assert one("cvt.s8.s32 %h1, %r2;").does.vector == 2
    assert one("cvt.s32.s8 %r1, %h2;").does.vector == 1


def test_moves_of_128_bits_are_two_moves() -> None:
    assert one("mov.b128 %q1, {%d1, %d2};").does.type is Type.B64
    assert one("mov.b128 %q1, {%r1, %r2, %r3, %r4};").op is Op.PACK


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("foo.u32 %r1, %r2;", "line 8: unknown instruction `foo.u32`"),
        ("add.u31 %r1, %r2, %r3;", "`add` takes one of "),
        ("add.u32 %r1, %r2;", "`add.u32` takes operands `d, a, a`; got `a, a`"),
        ("add.f32 %f1, %f2, 1;", "1 is an integer where a .f32 is expected; write `1.0`"),
        ("add.u32 %r1, %r2, %p1;", "`%p1` is a .pred register; .u32 is expected here"),
        ("mov.b32 %r1, 1.0;", "a floating-point constant of 64 bits cannot stand"),
        ("mov.b64 {%r1, %r2, %r3}, %d1;", "takes 2 or 4 parts"),
        ("fma.rn.oob.f16 %h1, %h1, %h1, %h1;", "`fma.rn.oob.f16` is not supported"),
        ("add.u32 5, %r1, %r2;", "expected a register to write, got `5`"),
        ("add.u32 %r1, %r2, nowhere;", "line 8: unknown name `nowhere`"),
        ("add.u32 %r1, %r2, !%r3;", "only a predicate can be complemented"),
        ("add.u32 %r1, %r2, _;", "`_` stands only for something that is written"),
    ],
)
def test_refusals_name_the_line_the_word_and_what_was_expected(line: str, said: str) -> None:
    assert said in refusal(line)
