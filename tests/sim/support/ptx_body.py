"""Small PTX texts around the lines that a test is about."""

import pytest

from warpsmith.errors import SimulationError
from warpsmith.sim.isa import Op
from warpsmith.sim.program import Instruction, Program
from warpsmith.sim.ptx import read

HEADER = ".version 8.8\n.target sm_90a\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .b64 %d<20>; .reg .b128 %q<4>; "
    ".reg .f32 %f<140>; .reg .f64 %fd<9>;"
)
MODULE = (
    ".shared .align 16 .b8 sm[1024]; .global .align 16 .b8 gl[64]; .const .align 16 .b8 co[64];"
)


def program(body: str, *, module: str = MODULE) -> Program:
    """A kernel with the body, whose first line is line 8, in a file that says so."""
    text = (
        f"{HEADER}{module}\n"
        ".visible .entry k(.param .u64 p0, .param .align 64 .b8 map[128]) {\n"
        f"{REGISTERS}\n"
        ".local .align 16 .b8 lo[64];\n"
        f"{body}\nEND: ret;\n}}\n"
    )
    return read(text)


def one(line: str) -> Instruction:
    """The first instruction that a line of PTX becomes."""
    return program(line).instructions[0]


def ops(body: str) -> list[Op]:
    return [instruction.op for instruction in program(body).instructions[:-1]]


def refusal(body: str, *, module: str = MODULE) -> str:
    """What is said of a body that is refused."""
    with pytest.raises(SimulationError) as caught:
        program(body, module=module)
    return caught.value.message
