"""Matrix products: shapes, types and numbers of registers."""

import pytest

from tests.sim.support.ptx_body import one, refusal
from warpsmith.sim.isa import Flag, Op, Type

WGMMA = "wgmma.mma_async.sync.aligned"


def registers(letter: str, count: int) -> str:
    return "{" + ", ".join(f"%{letter}{i + 1}" for i in range(count)) + "}"


@pytest.mark.parametrize(
    ("shape", "types", "groups"),
    [
        ("m16n8k16", "f32.bf16.bf16.f32", (4, 4, 2, 4)),
        ("m16n8k8", "f32.f16.f16.f32", (4, 2, 1, 4)),
        ("m16n8k16", "f16.f16.f16.f16", (2, 4, 2, 2)),
        ("m16n8k8", "f32.tf32.tf32.f32", (4, 4, 2, 4)),
        ("m16n8k4", "f32.tf32.tf32.f32", (4, 2, 1, 4)),
        ("m8n8k4", "f64.f64.f64.f64", (2, 1, 1, 2)),
        ("m16n8k16", "f64.f64.f64.f64", (4, 8, 4, 4)),
        ("m16n8k32", "f32.e4m3.e5m2.f32", (4, 4, 2, 4)),
        ("m16n8k32", "s32.u8.s8.s32", (4, 4, 2, 4)),
        ("m8n8k16", "s32.s8.s8.s32", (2, 1, 1, 2)),
    ],
)
def test_registers_of_each_operand(shape: str, types: str, groups: tuple[int, ...]) -> None:
    out, first, second, _ = types.split(".")
    letters = ["fd" if out == "f64" else "f" if out == "f32" else "r"] * 4
    letters[1:3] = ["fd" if out == "f64" else "r"] * 2
    arguments = ", ".join(registers(x, n) for x, n in zip(letters, groups, strict=True))
    found = one(f"mma.sync.aligned.{shape}.row.col.{types} {arguments};")
    assert (found.op, found.groups) == (Op.MMA, groups)
    assert (found.does.type, found.does.type2) == (Type[out.upper()], Type[first.upper()])
    assert found.does.vector == (1 if first == second else Type[second.upper()])


def test_wgmma_from_shared_memory() -> None:
    found = one(f"{WGMMA}.m64n16k16.f32.bf16.bf16 {registers('f', 8)}, %d1, %d2, %p1, 1, -1, 0, 1;")
    assert (found.does.shape, found.groups) == ((64, 16, 16), (8, 1, 1, 1, 1, 1, 1, 1))
    assert [o.value for o in found.operands[-4:]] == [1, -1, 0, 1]
    assert not found.does.flags & Flag.A_REGISTERS


def test_wgmma_with_a_in_registers_has_both_transpositions() -> None:
    line = f"{registers('f', 4)}, {registers('r', 4)}, %d2, 1, 1, 1, 1;"
    found = one(f"{WGMMA}.m64n8k16.f32.f16.f16 {line}")
    assert found.does.flags & Flag.A_REGISTERS
    assert found.groups == (4, 4, 1, 1, 1, 1, 1, 1)
    assert [o.value for o in found.operands[-2:]] == [0, 1]


def test_wgmma_of_integers_gets_scales() -> None:
    found = one(f"{WGMMA}.m64n8k32.s32.s8.s8.satfinite {registers('r', 4)}, %d1, %d2, %p1;")
    assert [o.value for o in found.operands[-2:]] == [1, 1]
    assert found.does.flags & Flag.SATFINITE


@pytest.mark.parametrize("n", [8, 128, 256])
def test_accumulators_of_wgmma(n: int) -> None:
    types = "f32.tf32.tf32"
    found = one(f"{WGMMA}.m64n{n}k8.{types} {registers('f', n // 2)}, %d1, %d2, 0, 1, 1;")
    assert found.groups[0] == n // 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32 {%f1}, {%r1}, {%r1}, {%f1};",
            "A is bf16 and B f16",
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f16 {%f1}, {%r1}, {%r1}, {%f1};",
            "C and D have different types",
        ),
        (
            "mma.sync.aligned.m16n8k4.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r1}, {%f1};",
            "shapes for f16 are m16n8k8, m16n8k16",
        ),
        (
            f"{WGMMA}.m64n8k16.f32.bf16.bf16 {{%f1}}, %d1, %d2, %p1, 1, 1, 0, 0;",
            "takes 4 elements, got 1 in braces",
        ),
        (f"{WGMMA}.m64n8k16.f32.tf32.tf32 {{%f1}}, %d1, %d2, %p1, 1, 1;", "k of tf32 is 8"),
        ("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f1};", "sparse"),
        ("wmma.load.a.sync.aligned {%r1}, [%d1];", "use `mma.sync` or `wgmma`"),
    ],
)
def test_refusals(line: str, said: str) -> None:
    assert said in refusal(line)
