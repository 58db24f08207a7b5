"""Matrix products in CUDA text: what is wrong is found, and machine code is short."""

import re
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest

from tests.protocol.edits import Change, edited, instead, with_role, without
from tests.support import plain_products as plain
from tests.support.lowered_products import SMALL, check_product, pending, product_kernel
from tests.support.machine_code import machine_lines
from tests.support.role_code import missing_from_ptx
from tests.support.role_parts import single
from tests.support.simulating import reported
from warpsmith.codegen.cuda import cuda_text
from warpsmith.codegen.prelude import prelude_text
from warpsmith.codegen.prelude.products import multiply_piece
from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, Statement, Synchronize
from warpsmith.kernel.products import (
    AwaitProducts,
    CommitProducts,
    FenceProducts,
    MatrixTile,
    Multiply,
    StoreMatrix,
)
from warpsmith.kernel.rings import ArriveByWarp, AwaitCopies, FenceProxy
from warpsmith.kernel.traversal import walk
from warpsmith.layouts.descriptors import packed_rows
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.sass import disassemble
from warpsmith.runtime.source import Binary, Source
from warpsmith.targets.hopper import H200

WHOLE = SMALL | {"tile": (128, 256, 64), "stages": 4}
"""Tiles of two warp groups, as large as there are."""


# --- on the simulator --------------------------------------------------------------------------


def released(later: int) -> Change:
    """Stages are released that come so many behind the one whose products are over."""
    return instead(
        ArriveByWarp,
        lambda s: replace(s, stage=integers.mod(integers.add(s.stage, later), SMALL["stages"])),
    )


WRONG: dict[str, Change] = {
    "no fence": without(FenceProducts),
    "no commit": without(CommitProducts),
    "no wait": without(AwaitProducts, pending=1),
    "a wait for too little": pending(1, 2),
    "no last wait": without(AwaitProducts, pending=0),
    "a last wait for too little": pending(0, 1),
    "releases of stages that are multiplied": released(1),
    "releases of other stages": released(2),
    "no proxy fence": without(FenceProxy),
    "no wait for stores": without(AwaitCopies, bulk=True),
}


def test_a_small_tile_is_clean_and_exact() -> None:
    check_product(product_kernel(**SMALL), 64, 128, 256, schedules=4)


@pytest.mark.parametrize("name", WRONG)
def test_the_simulator_finds_what_is_wrong(name: str) -> None:
    kernel = edited(product_kernel(**SMALL), WRONG[name])
    with pytest.raises(AssertionError, match="findings under 4 schedules"):
        check_product(kernel, 64, 128, 256, schedules=4)


def fenced_before(kind: type[Statement], *, keeps: bool = False, **fields: object) -> Kernel:
    """A product's kernel whose only fence stands before another statement; it `keeps` writes of
    accumulators before it."""
    kernel = product_kernel(**SMALL)
    fence = next(s for s in walk(kernel.body) if isinstance(s, FenceProducts))
    fence = fence if keeps else FenceProducts()
    bare = edited(kernel, without(FenceProducts))
    return edited(bare, instead(kind, lambda s: (fence, s), **fields))


def test_one_fence_a_tile_is_enough() -> None:
    """Products of one shape may follow each other; only threads' accesses must be fenced."""
    along_k = fenced_before(For, keeps=True, symbol="compute_i1")
    check_product(along_k, 64, 128, 256, schedules=4)


def test_one_fence_for_all_tiles_is_too_little() -> None:
    """The products of the second tile overwrite what threads read behind the first."""
    of_tiles = fenced_before(For, symbol="compute_i0")
    with pytest.raises(AssertionError, match="was touched by another instruction and no wgmma"):
        check_product(of_tiles, 64, 128, 256, schedules=4)


def plain_report(body: plain.Body) -> tuple[str, np.ndarray]:
    """The verdict on a kernel without roles, and its result."""
    a, b, d = plain.plain_inputs()
    report = reported(plain.plain_kernel(body), {}, {"A": a, "B": b}, schedules=4)
    return report.verdict, report.arrays["D"].reshape(d.shape)


def test_threads_alone_are_clean_and_exact() -> None:
    verdict, found = plain_report(plain.plain_body())
    assert verdict == "clean"
    np.testing.assert_array_equal(found, plain.plain_inputs()[2])


PLAIN = {
    "proxy fence": FenceProxy(),
    "meeting before": Synchronize("operands are there"),
    "meeting behind": Synchronize("operands were read"),
    "fence": FenceProducts(),
    "commit": CommitProducts(),
    "wait": AwaitProducts(0, (plain.SUMS,)),
    "meeting at the end": Synchronize("the result is there"),
}


@pytest.mark.parametrize("name", PLAIN)
def test_nothing_is_superfluous_among_threads(name: str) -> None:
    assert plain_report(plain.replaced(plain.plain_body(), PLAIN[name]))[0] != "clean"


# --- machine code ------------------------------------------------------------------------------


@cache
def text() -> str:
    kernel = product_kernel(**WHOLE)
    for role, registers in (("load", 24), ("compute", 240)):
        kernel = with_role(kernel, role, partial(replace, registers=registers))
    return cuda_text(kernel, H200)


@cache
def compiled() -> Binary:
    return compile_source(Source(text=text(), entry="k", arch="sm_90a"))


@cache
def machine_code() -> tuple[str, ...]:
    return machine_lines(compiled().cubin)


def steady_loop() -> str:
    """The loop over k: from the wait for a stage to the branch back behind the products."""
    code = machine_code()
    products = [place for place, line in enumerate(code) if "HGMMA" in line]
    start = max(p for p in range(products[0]) if "SYNCS.PHASECHK" in code[p])
    last = next(
        p for p in range(products[-1], len(code)) if "WARPGROUP.DEPBAR.LE gsb0, 0x0" in code[p]
    )
    return "\n".join(code[start:last])


def count(name: str, text: str) -> int:
    return len(re.findall(rf"\b{re.escape(name)}\b", text))


def test_the_whole_tile_needs_the_registers_that_it_is_launched_with() -> None:
    binary = compiled()  # ptxas remarks of serialized products raise CompileError
    assert (binary.registers, binary.spill_bytes, binary.stack_bytes) == (168, 0, 0)
    assert missing_from_ptx(binary.ptx, disassemble(binary.cubin)) == ""


def test_a_step_along_k_is_four_products_and_little_else() -> None:
    loop = steady_loop()
    assert count("HGMMA.64x256x16.F32.BF16", loop) == 4
    assert count("WARPGROUP.ARRIVE", loop) == 1
    assert count("WARPGROUP.DEPBAR.LE gsb0, 0x1", loop) == 1
    assert count("gsb0", loop) == 2, "the last product and the wait"
    # Descriptors are computed by uniform instructions alone.
    assert count("R2UR", loop) == 0
    assert len(loop.splitlines()) < 75


def test_the_epilogue_stays_in_registers() -> None:
    code = "\n".join(machine_code())
    assert count("STSM.16.M88.4", code) == 16
    assert count("F2FP.BF16.F32.PACK_AB", code) == 64
    assert not re.search(r"\b(?:LDL|STL|PRMT)\b", code)


def test_the_compiler_keeps_reads_behind_the_wait_that_names_them() -> None:
    assert "ws_await_products<0>();\n      ws_changed(T2);" in text()
    assert "ws_await_products<1>();\n        if (0 < compute_i1)" in text()


# --- text --------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "ptx"),
    [
        ("multiply_bfloat16_8", "k16.f32.bf16.bf16"),
        ("multiply_half_136", "k16.f32.f16.f16"),
        ("multiply_tf32_72", "k8.f32.tf32.tf32"),
        ("multiply_e4m3_256", "k32.f32.e4m3.e4m3"),
        ("multiply_e4m3_e5m2_64", "k32.f32.e4m3.e5m2"),
        ("multiply_e5m2_e4m3_64", "k32.f32.e5m2.e4m3"),
        ("multiply_e5m2_8", "k32.f32.e5m2.e5m2"),
        ("multiply_int8_96", "k32.s32.s8.s8"),
    ],
)
def test_a_piece_is_made_for_a_type_and_a_width(name: str, ptx: str) -> None:
    text = prelude_text([name])
    columns = int(name.split("_")[-1])
    kind, letter, other = ("int", "r", "I") if "int8" in name else ("float", "f", "[HQ]")
    assert f"m64n{columns}{ptx}" in text
    assert text.count(f'"+{letter}"') == columns // 2
    body = f"ws_fence_products(); {kind} sums[{columns // 2}]; ws_{name}(sums, a, b, false); "
    body += "ws_commit_products(); ws_await_products<0>(); ws_changed(sums); *d = sums[1];"
    head = f'extern "C" __global__ void k(unsigned long long a, unsigned long long b, {kind}* d)'
    source = f"{prelude_text([name, 'products', 'products_int'])}\n{head} {{ {body} }}"
    machine = disassemble(compile_source(Source(text=source, entry="k", arch="sm_90a")).cubin)
    assert re.search(rf"{other}GMMA", machine)


@pytest.mark.parametrize(
    "name",
    [
        *("multiply_float_64", "multiply_half_0", "multiply_half_12", "multiply_half_264"),
        *("multiply_int8_40", "multiply", "multiply_int8_64_ta", "multiply_e4m3_64_tb"),
        *("multiply_half_64_ta_ra", "multiply_half_64_rb"),
    ],
)
def test_no_piece_is_made_for_anything_else(name: str) -> None:
    assert multiply_piece(name) is None
    with pytest.raises(InternalError, match=name):
        prelude_text([name])


def test_descriptors_are_constants_apart_from_the_stage() -> None:
    a = "ws_matrix<128>(T5, block_y * 512 + compute_i2 * 2 + ring0_compute_stage * 1024)"
    b = "ws_matrix<128>(T6, compute_i2 * 2 + ring0_compute_stage * 2048)"
    assert f"ws_multiply_bfloat16_256(T2, {a}, {b}, 0 < (compute_i1 + compute_i2));" in text()


FLOATS, BFLOATS = (
    MatrixTile(b, integers.ZERO, packed_rows(64)) for b in (plain.SUMS, plain.SHARED_A)
)
COUNTS = replace(plain.SUMS, name="counts", dtype=DataType.Int32)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            Multiply(plain.SUMS, integers.ZERO, FLOATS, BFLOATS, 8, integers.TRUE),
            "multiply no sums of float by shared_a of bfloat16 into sums of float",
        ),
        (
            Multiply(COUNTS, integers.ZERO, BFLOATS, BFLOATS, 8, integers.TRUE),
            "multiply no shared_a of bfloat16 by shared_a of bfloat16 into counts of int32",
        ),
        (
            StoreMatrix(plain.SUMS, integers.ZERO, plain.SUMS, integers.ZERO),
            "sums is float, and a matrix of 16 bits not",
        ),
    ],
)
def test_other_types_are_internal_errors(wrong: Statement, words: str) -> None:
    with pytest.raises(InternalError, match=words):
        cuda_text(plain.plain_kernel((wrong,)), H200)


@pytest.mark.parametrize(("swizzle", "alignment"), [(64, 256), (128, 512), (0, 1024), (48, 384)])
def test_operands_start_where_descriptors_can_say(swizzle: int, alignment: int) -> None:
    buffer = replace(plain.SHARED_A, alignment=alignment)
    tile = MatrixTile(buffer, integers.ZERO, packed_rows(swizzle))
    product = Multiply(plain.SUMS, integers.ZERO, tile, tile, 8, integers.TRUE)
    words = f"shared_a starts at a multiple of {alignment} bytes, and is multiplied in rows of"
    with pytest.raises(InternalError, match=words):
        cuda_text(plain.plain_kernel((product,)), H200)


def test_one_thread_does_not_multiply() -> None:
    branch = Branch(single("one", 0), (FenceProducts(),))
    kernel = plain.plain_kernel((branch,))
    with pytest.raises(InternalError, match="FenceProducts is for many threads"):
        cuda_text(kernel, H200)
