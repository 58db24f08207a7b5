"""Where variables lie and what is in them."""

import struct

import pytest

from tests.sim.support.ptx_body import HEADER
from warpsmith.errors import SimulationError
from warpsmith.sim.isa import Space, Window
from warpsmith.sim.program import Program
from warpsmith.sim.ptx import read


def kernel(module: str, body: str = "", parameters: str = "") -> Program:
    return read(
        f"{HEADER}{module}\n.entry k({parameters}) {{ .reg .b32 %r<9>; .reg .b64 %d<9>; {body} }}"
    )


def initial(declaration: str) -> bytes:
    return kernel(declaration).variables[-1].initial


@pytest.mark.parametrize(
    ("declaration", "content"),
    [
        (".global .u32 x[3] = {1, 2};", struct.pack("<3I", 1, 2, 0)),
        (".const .f32 x[2] = {0f3F800000, -2.5};", struct.pack("<2f", 1, -2.5)),
        (".global .f64 x = 0d4000000000000000;", struct.pack("<d", 2)),
        (".global .s16 x[2][2] = {{-1}, {2, 3}};", struct.pack("<4h", -1, 0, 2, 3)),
        ('.global .b8 x[8] = "a\\tb\\x41";', b"a\tbA\0\0\0\0"),
        ('.global .b8 x[] = "abc";', b"abc\0"),
        (".global .b8 x[] = {1, 2, 3};", bytes([1, 2, 3])),
        (".global .v2 .u16 x = {1, 2};", struct.pack("<2H", 1, 2)),
    ],
)
def test_initial_values(declaration: str, content: bytes) -> None:
    assert initial(declaration) == content


def test_addresses_as_initial_values() -> None:
    module = int(Window.MODULE)
    first = ".global .align 8 .b8 a[8];\n"
    assert initial(first + ".global .u64 p = a+4;") == struct.pack("<Q", module + 4)
    assert initial(first + ".global .u64 p[2] = {generic(a), 7};") == struct.pack("<2Q", module, 7)
    masked = ".global .b8 p[2] = {0xFF(a), 0xFF0000000000(a)};"
    assert initial(first + masked) == bytes([module & 255, module >> 40 & 255])


def test_each_space_has_its_addresses() -> None:
    program = kernel(
        ".global .b8 a; .global .align 16 .b8 b[4]; .const .u32 c;\n"
        ".shared .b8 unused[64]; .shared .b8 s; .extern .shared .align 128 .b8 dyn[];",
        ".shared .align 32 .b8 t[8]; .local .u64 depot[2];\n"
        "mov.u32 %r1, s; mov.u32 %r2, t; mov.u32 %r3, dyn; mov.u64 %d1, depot;",
    )
    assert {v.name: v.address for v in program.variables} == {
        "a": Window.MODULE,
        "b": Window.MODULE + 16,
        "c": Window.CONST,
        "s": Window.SHARED_START,
        "t": Window.SHARED_START + 32,
    }
    assert (program.global_bytes, program.const_bytes, program.local_bytes) == (20, 4, 16)
    assert (program.shared_bytes, program.dynamic_start) == (40, Window.SHARED_START + 128)
    values = [i.operands[1].value for i in program.instructions[:4]]
    assert values == [Window.SHARED_START, Window.SHARED_START + 32, Window.SHARED_START + 128, 0]
    assert [v.space for v in program.variables[-2:]] == [Space.SHARED] * 2


def test_shared_variables_of_other_kernels_take_no_room() -> None:
    text = HEADER + (
        ".shared .b8 one[64]; .shared .b8 two[32];\n"
        ".entry a() { .reg .b32 %r; mov.u32 %r, one; }\n"
        ".entry b() { .reg .b32 %r; mov.u32 %r, two; }\n"
    )
    assert (read(text, "a").shared_bytes, read(text, "b").shared_bytes) == (64, 32)


def test_locals_of_scopes_that_follow_each_other_share_their_room() -> None:
    body = "{ .local .b8 x[24]; } { .local .b8 y[8]; { .local .u32 z; } }"
    assert kernel("", body).local_bytes == 24


def test_parameters() -> None:
    program = kernel("", "", ".param .u8 a, .param .u64 .ptr .global .align 16 b, .param .b8 c[3]")
    found = [(p.name, p.offset, p.size, p.align, p.is_array) for p in program.parameters]
    assert found == [("a", 0, 1, 1, False), ("b", 8, 8, 8, False), ("c", 16, 3, 1, True)]


@pytest.mark.parametrize(
    ("module", "body", "said"),
    [
        (".global .u32 x = {1, 2};", "", "line 4: `x` has more initial values than elements"),
        (".global .u64 p = nothing;", "", "line 4: `p`: unknown name `nothing`"),
        (".extern .global .u32 x;", "mov.u64 %d1, x;", "declared here and defined elsewhere"),
        (".global .b8 x[9999999999];", "", "larger than the memory there is"),
        ("", ".local .b8 x[9999999];", "more than 524288 bytes of local memory a thread"),
        (".global .align 3 .b8 x;", "", "expected a power of two"),
        (".global .pred x;", "", ".pred is not for memory"),
    ],
)
def test_refusals(module: str, body: str, said: str) -> None:
    with pytest.raises(SimulationError) as caught:
        kernel(module, body)
    assert said in caught.value.message
