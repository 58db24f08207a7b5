"""The prelude's pieces compile, and become the instructions that they promise."""

import re

import pytest

from warpsmith.codegen.prelude import PIECES, LoadHint, StoreHint, prelude_text
from warpsmith.errors import InternalError
from warpsmith.layouts.descriptors import descriptor
from warpsmith.layouts.layout import Layout
from warpsmith.layouts.memory import MemoryLayout
from warpsmith.layouts.swizzle import HARDWARE
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.sass import disassemble
from warpsmith.runtime.source import Binary, Source


def compiled(pieces: list[str], arguments: str, body: str) -> Binary:
    """A kernel `kernel` with the pieces before it."""
    text = (
        f'{prelude_text(pieces)}\nextern "C" __global__ void kernel({arguments}) {{\n{body}\n}}\n'
    )
    return compile_source(Source(text=text, entry="kernel", arch="sm_90a"))


def test_pieces_come_once_after_what_they_need_and_in_one_order() -> None:
    text = prelude_text(["grid_reduce", "block_reduce"])
    assert text.count("ws_block_reduce(") == 1
    assert text.index("struct ws_welford ") < text.index("ws_warp_reduce(")
    assert text.index("ws_block_reduce(") < text.index("ws_grid_reduce(")
    assert text == prelude_text({"block_reduce", "grid_reduce", "warp_reduce"})
    assert prelude_text(()) == ""


def test_an_unknown_piece_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="'nothing'"):
        prelude_text(["nothing"])


def test_all_names_have_the_prefix_and_no_header_is_included() -> None:
    text = prelude_text(PIECES)
    assert "#include" not in text
    # Members of structures are indented; what is not has to have the prefix.
    functions = re.findall(r"^__device__ __forceinline__ .*?(\w+)\(", text, re.MULTILINE)
    assert len(functions) > 20
    assert all(name.startswith("ws_") for name in functions)
    structures = re.findall(r"struct (?:alignas\(.*\) )?(\w+)", text)
    assert len(structures) > 10
    assert all(name.startswith("ws_") for name in structures)
    assert not re.search(r"#\s*define", text)


@pytest.mark.few(13)
@pytest.mark.parametrize("name", PIECES)
def test_a_piece_compiles_alone(name: str) -> None:
    assert "warning" not in compiled([name], "", "").log


def test_all_pieces_compile_together() -> None:
    """A kernel may need any of them at once: no two define one name."""
    assert "warning" not in compiled(PIECES, "", "").log


def test_a_vector_of_16_bytes_is_one_load_and_one_store() -> None:
    body = "\n".join(
        f"ws_store<float, 4>(out + 4 * {hint.value}, ws_load<float, 4, {hint.value}>(in));"
        for hint in LoadHint
    )
    sass = disassemble(compiled(["vector"], "const float* in, float* out", body).cubin)
    loads = {
        LoadHint.DEFAULT: "LDG.E.128",
        LoadHint.NC: "LDG.E.128.CONSTANT",
        LoadHint.NO_ALLOCATE: "LDG.E.NA.128",
        LoadHint.NC_NO_ALLOCATE: "LDG.E.NA.128.CONSTANT",
        LoadHint.EVICT_FIRST: "LDG.E.EF.128",
        LoadHint.EVICT_LAST: "LDG.E.128",  # its policy is an operand
        LoadHint.NC_LASTING: "LDG.E.128.CONSTANT",
    }
    assert sorted(re.findall(r"LDG\S*", sass)) == sorted(loads[hint] for hint in LoadHint)
    assert re.findall(r"STG\S*", sass) == ["STG.E.128"] * len(LoadHint)


def test_a_streaming_store_is_evicted_first() -> None:
    body = f"ws_store<float, 4, {StoreHint.STREAMING}>(out, ws_load<float, 4>(in));"
    sass = disassemble(compiled(["vector"], "const float* in, float* out", body).cubin)
    assert re.findall(r"STG\S* ", sass) == ["STG.E.EF.128 "]


@pytest.mark.parametrize(
    ("ctype", "count", "widths"),
    [
        ("bool", 1, ["u8"]),
        ("bool", 16, ["v4.b32"]),
        ("ws_bfloat16", 1, ["b16"]),
        ("ws_bfloat16", 2, ["b32"]),
        ("ws_bfloat16", 4, ["v2.b32"]),
        ("ws_bfloat16", 8, ["v4.b32"]),
        ("double", 1, ["v2.b32"]),
        ("float", 8, ["v4.b32", "v4.b32"]),
    ],
)
def test_a_vector_of_any_size_takes_the_fewest_accesses(
    ctype: str, count: int, widths: list[str]
) -> None:
    body = f"ws_store<{ctype}, {count}>(out, ws_load<{ctype}, {count}>(in));"
    arguments = f"const {ctype}* in, {ctype}* out"
    ptx = compiled(["vector", "bfloat16"], arguments, body).ptx
    assert re.findall(r"ld\.global\.(\S+) ", ptx) == widths
    assert re.findall(r"st\.global\.(\S+) ", ptx) == widths


def test_a_double_becomes_a_16_bit_float_in_one_rounding() -> None:
    binary = compiled(
        ["bfloat16", "half"],
        "const double* in, ws_bfloat16* b, ws_half* h",
        "*b = ws_bfloat16(*in); *h = ws_half(*in);",
    )
    assert "cvt.rn.bf16.f64" in binary.ptx
    assert "cvt.rn.f16.f64" in binary.ptx
    assert "f32.f64" not in binary.ptx


def test_both_halves_of_a_register_widen_in_one_instruction() -> None:
    body = (
        "const ws_vec<ws_bfloat16, 8> v = ws_load<ws_bfloat16, 8>(in);\n"
        "for (int k = 0; k < 8; ++k) out[k] = (float)v[k];"
    )
    binary = compiled(["vector", "bfloat16"], "const ws_bfloat16* in, float* out", body)
    moves = re.findall(r"PRMT|SHF\.L|IMAD\.U32|IMAD\.SHL|LOP3", disassemble(binary.cubin))
    assert len(moves) <= 8


@pytest.mark.parametrize("row", [32, 64, 128])
def test_descriptors_in_cuda_are_those_of_layouts(row: int) -> None:
    """The words that `ws_matrix` puts together, for rows that follow each other."""
    text = PIECES["matrix"].text
    for term in (
        "Row == 128 ? 1 : Row == 64 ? 2 : 3",
        "eight_rows = 8 * Row / 16",
        "(ws_address(buffer) & 0x3ffff) >> 4",
        "(ws_matrix_start(buffer) | 1u << 16) + units",
        "(unsigned long long)(swizzle << 30 | eight_rows) << 32 | low",
    ):
        assert term in text
    swizzle, eight_rows = {128: 1, 64: 2, 32: 3}[row], 8 * row // 16
    low = (4096 >> 4 | 1 << 16) + 2
    tile = MemoryLayout(Layout.strided((64, 16), (row // 2, 1)), 2, HARDWARE[row])
    found = descriptor(tile)
    assert found is not None
    assert found.bits(4096 + 32) == (swizzle << 30 | eight_rows) << 32 | low


def test_drawn_bits_stand_beside_bits_of_floats() -> None:
    """Pieces are known by their names, and so is what they define: two called alike lost one."""
    text = prelude_text(["bits", "float_bits"])
    assert "struct ws_bits {" in text
    assert "int ws_float_bits(float x)" in text
