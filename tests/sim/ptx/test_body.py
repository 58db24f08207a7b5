"""The inside of a function: scopes, labels, places, and words that do not fit."""

import pytest

from tests.sim.support.ptx_body import HEADER, one, program, refusal
from warpsmith.errors import SimulationError
from warpsmith.sim.isa import Op
from warpsmith.sim.program import Place
from warpsmith.sim.ptx import read


def test_inner_scopes_have_registers_of_their_own() -> None:
    found = program(
        "mov.u32 %r1, 1;\n"
        "{ mov.u32 %r2, %r1; .reg .b32 %r<3>; mov.u32 %r1, 2; }\n"
        "{ .reg .pred %r1; setp.eq.u32 %r1, 1, 2; @%r1 exit; }\n"
        "st.shared.u32 [sm], %r1; st.shared.u32 [sm], %r2;"
    ).instructions
    outer = found[0].operands[0]
    assert found[1].operands[1] == outer
    assert found[2].operands[0] != outer
    assert found[5].operands[1] == outer


def test_labels_of_inner_scopes_shadow_and_outer_ones_can_be_reached() -> None:
    found = program("A: { A: bra A; bra B; } bra A; B: exit;").instructions
    assert [i.target for i in found[:3]] == [0, 3, 0]


def test_registers_of_a_range_have_numbers_below_its_length() -> None:
    assert "unknown name `%r40`" in refusal("mov.u32 %r40, 1;")
    assert "unknown name `%r01`" in refusal("mov.u32 %r01, 1;")
    assert one(".reg .b32 %x1<4>; mov.u32 %x13, 1;").op is Op.MOV


def test_the_end_of_the_body_is_an_exit() -> None:
    found = read(HEADER + ".entry k() { .reg .pred %p; @%p exit; }").instructions
    assert [i.op for i in found] == [Op.EXIT, Op.EXIT]
    found = read(HEADER + ".entry k() { A: bra A; }").instructions
    assert found[0].target == 0


def test_places_and_texts() -> None:
    found = read(
        HEADER + '.file 1 "/src/kernel.cu", 0, 0\n.file 2 "other.cuh"\n.entry k() {\n'
        ".reg .b32 %r<3>;\n.loc 1 17 3 // a comment\nmov.b32\t%r1, /* why */ 5;\n"
        ".loc 2 30 1, function_name $L__info_string0, inlined_at 1 18 5\n"
        "{ add.s32 \t%r1,\n %r1, 1; }\nret;\n}\n.section .debug_str { $L__info_string0: .b8 1 }\n"
    ).instructions
    assert found[0].place == Place(line=9, file="/src/kernel.cu", source_line=17)
    assert found[0].text == "mov.b32 %r1 , 5 ;"
    assert found[1].place == Place(
        line=11, file="other.cuh", source_line=30, caller="/src/kernel.cu:18"
    )
    assert found[1].text == "add.s32 %r1, %r1, 1;"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("mov.u32 %r1 1;", "line 8: expected `,` or `;`, got `1`"),
        ("mov.u32 %r1, ;", "line 8: expected an operand, got `;`"),
        ("\nmov.u32 %r1, [%r2;", "line 9: expected `]`, got `;`"),
        ("A: exit; A: exit;", "line 8: label `A` stands twice in one scope"),
        ("bra nowhere;", "line 8: unknown name `nowhere`"),
        (".weird 3;", "line 8: expected an instruction, or a directive among"),
        (".reg .b31 %x;", "line 8: registers of type `.b31` are not supported"),
        ("mov.u32 %r1, 5 / 0;", "line 8: expected a divisor that is not zero"),
        ("mov.u32 %r1, 09;", "line 8: expected an operand, got `09`"),
        ("mov.u32 %r1, é;", "line 8: character that PTX lacks at `é;`"),
        ('.pragma "open;', "line 8: unfinished string"),
        ("/* open", "line 8: unfinished comment"),
        ("{" * 120, "expected at most 100 nested scopes"),
        ("mov.u32 %r1, " + "(" * 50, "expected at most 20 nested operators"),
    ],
)
def test_refusals(body: str, said: str) -> None:
    assert said in refusal(body)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the PTX has no kernel"),
        (".version 8.8 .target sm_90a .address_size 32", "an address size of 64, got `32`"),
        (".version eight", "line 1: expected a version such as `8.7`, got `eight`"),
        (".entry k( {", "expected `.param`, `.reg` or `)`, got `{`"),
        (".entry k() .maxntid -1 { }", "a number from 0 to"),
        (".entry k() { exit;", "expected `}` at the end of a function, got the end of the text"),
        (".entry k(.param .b8 big[40000]) { }", "takes 40000 bytes of parameters"),
    ],
)
def test_texts_that_are_no_module(text: str, said: str) -> None:
    with pytest.raises(SimulationError) as caught:
        read(text)
    assert said in caught.value.message
    assert caught.value.code == "WS0800"
