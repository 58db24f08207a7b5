"""Calls put in place of themselves."""

import pytest

from tests.sim.support.ptx_body import HEADER
from warpsmith.errors import SimulationError
from warpsmith.sim.isa import Kind, Op, Space, Type
from warpsmith.sim.program import Program
from warpsmith.sim.ptx import read

TWICE = """
.func (.param .b32 out) twice(.param .b32 in)
{
.reg .b32 %r<3>;
.local .b32 spare[4];
ld.param.b32 %r1, [in];
setp.eq.u32 %p, %r1, 0;
@%p bra done;
add.u32 %r2, %r1, %r1;
st.param.b32 [out], %r2;
ret;
done:
st.param.b32 [out], 0;
ret;
}
""".replace("setp", ".reg .pred %p; setp")
PRINT = ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
CALL = """
{
.param .b32 param0;
.param .b32 retval0;
st.param.b32 [param0], %r1;
call.uni (retval0), twice, (param0);
ld.param.b32 %r2, [retval0];
}
"""


def kernel(functions: str, body: str) -> Program:
    registers = ".reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<9>;"
    return read(f"{HEADER}{functions}.entry k()\n{{\n{registers}\n{body}\nret;\n}}\n")


def refusal(functions: str, body: str) -> str:
    with pytest.raises(SimulationError) as caught:
        kernel(functions, body)
    return caught.value.message


def test_a_call_is_its_body_and_returns_are_branches() -> None:
    found = kernel(TWICE, "mov.u32 %r1, 3;" + CALL).instructions
    assert [i.op for i in found] == [
        *(Op.MOV, Op.ST, Op.LD, Op.SETP, Op.BRA, Op.ADD, Op.ST, Op.BRA, Op.ST, Op.BRA),
        *(Op.LD, Op.EXIT),
    ]
    assert [i.target for i in found if i.op is Op.BRA] == [8, 10, 10]
    assert found[4].reconverge == 10
    assert {i.does.space for i in found if i.op in (Op.LD, Op.ST)} == {Space.LOCAL}
    assert found[1].operands[0].value == found[2].operands[1].value == 0
    assert found[6].operands[0].value == found[10].operands[1].value == 4


def test_two_calls_share_nothing_but_local_memory() -> None:
    program = kernel(TWICE, "mov.u32 %r1, 3;" + CALL + CALL)
    assert [i.op for i in program.instructions].count(Op.ADD) == 2
    assert program.local_bytes == 8 + 16


def test_a_guarded_call_is_jumped_over() -> None:
    body = "setp.eq.u32 %p1, 1, 1; @!%p1 call (%r1), twice, (5);"
    found = kernel(TWICE, body).instructions
    assert found[1].op is Op.BRA
    assert found[1].guard is not None
    assert not found[1].guard.negated
    assert found[1].target == len(found) - 1


def test_registers_and_constants_pass_through_memory_and_through_registers() -> None:
    found = kernel(TWICE, "call (%r1), twice, (5);").instructions
    assert (found[0].op, found[0].operands[1].value) == (Op.ST, 5)
    assert (found[-2].op, found[-2].operands[0].kind) == (Op.LD, Kind.REGISTER)
    plain = ".func (.reg .u32 out) inc(.reg .u32 in) { add.u32 out, in, 1; ret; }\n"
    found = kernel(plain, "call (%r1), inc, (%r2);").instructions
    assert [i.op for i in found] == [Op.MOV, Op.ADD, Op.BRA, Op.MOV, Op.EXIT]


def test_an_exit_within_a_call_ends_the_kernel() -> None:
    found = kernel(".func stop() { exit; }\n", "call stop;").instructions
    assert [i.op for i in found] == [Op.EXIT, Op.EXIT]


def test_parameters_of_a_function_lie_in_local_memory_when_their_address_is_taken() -> None:
    text = (
        ".func f(.param .align 8 .b8 s[16])\n"
        "{ .reg .b64 %a; mov.b64 %a, s; ld.param.b32 _, [%a]; }\n"
    )
    found = kernel(text, "{ .param .align 8 .b8 p[16]; call f, (p); }").instructions
    assert found[1].does.space is Space.LOCAL


def test_printf_and_assert() -> None:
    message = '.global .align 1 .b8 $str[4] = {104, 105, 10, 0};\n.global .b8 file[] = "k.cu";\n'
    program = kernel(
        PRINT + message,
        "{ .param .b64 a; .param .b64 b; .param .b32 r; mov.u64 %d1, $str;\n"
        "cvta.global.u64 %d2, %d1; st.param.b64 [a], %d2; st.param.b64 [b], 0;\n"
        "call.uni (r), vprintf, (a, b); ld.param.b32 %r1, [r]; }",
    )
    found = program.instructions
    assert [i.op for i in found[4:9]] == [Op.LD, Op.LD, Op.PRINTF, Op.ST, Op.LD]
    assert found[6].operands[1:] == (found[4].operands[0], found[5].operands[0])
    assert [v.initial for v in program.variables] == [b"hi\n\0", b"k.cu\0"]
    types = ("b64", "b64", "b32", "b64", "b64")
    formal = ", ".join(f".param .{t} p{i}" for i, t in enumerate(types))
    declared = f".extern .func __assertfail({formal}) .noreturn;\n"
    found = kernel(declared, "call __assertfail, (%d1, %d2, 7, %d3, 1);").instructions
    assert (found[0].op, len(found[0].operands)) == (Op.ASSERT, 5)
    assert found[0].does.type is Type.NONE


LOOP = ".func a();\n.func b() { call a; }\n.func a() { call b; }\n"


@pytest.mark.parametrize(
    ("functions", "body", "said"),
    [
        (LOOP, "call a;", "`a` calls itself (a -> b -> a); recursion is not supported"),
        ("", "call %d1, (%r1), proto;", "indirect call"),
        ("", "call nowhere;", "unknown function `nowhere`"),
        (".extern .func malloc();\n", "call malloc;", "`malloc` has no body in this text"),
        (TWICE, "call twice, (5);", "`twice` has 1 results, the call gives 0"),
        (TWICE, "call (%r1), twice, (%d1);", "a call passes a register of type .b32 here"),
        (TWICE, "mov.u64 %d1, twice;", "addresses of functions are not supported"),
    ],
)
def test_refusals(functions: str, body: str, said: str) -> None:
    assert said in refusal(functions, body)


def test_a_refusal_within_a_function_names_its_own_line() -> None:
    assert refusal(".func f() {\nfoo;\n}\n", "call f;").startswith("line 5: unknown instruction")


def test_functions_that_are_not_called_may_hold_anything_that_parses() -> None:
    assert kernel(".func f() { foo.bar %x, [y]; }\n", "").registers == 0


def test_a_function_under_another_name() -> None:
    text = ".func stop();\n.func halt() { trap; }\n.alias stop, halt;\n"
    assert [i.op for i in kernel(text, "call stop;").instructions] == [Op.TRAP, Op.EXIT]
