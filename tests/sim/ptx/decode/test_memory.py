"""Loads, stores and atomics."""

import pytest

from tests.sim.support.ptx_body import one, ops, program, refusal
from warpsmith.sim.isa import Flag, Kind, Mode, Op, Scope, Semantics, Space, Type, Window

S, C = Semantics, Scope


@pytest.mark.parametrize(
    ("line", "space", "semantics", "scope", "vector"),
    [
        ("ld.global.u32 %r1, [%d1];", Space.GLOBAL, S.WEAK, C.NONE, 1),
        ("ld.u32 %r1, [%d1];", Space.GENERIC, S.WEAK, C.NONE, 1),
        ("ld.weak.shared::cta.u32 %r1, [%r1];", Space.SHARED, S.WEAK, C.NONE, 1),
        ("ld.shared::cluster.u32 %r1, [%r1];", Space.SHARED_CLUSTER, S.WEAK, C.NONE, 1),
        ("ld.acquire.gpu.global.u32 %r1, [%d1];", Space.GLOBAL, S.ACQUIRE, C.GPU, 1),
        ("ld.global.acquire.gpu.u32 %r1, [%d1];", Space.GLOBAL, S.ACQUIRE, C.GPU, 1),
        ("ld.mmio.relaxed.sys.global.u32 %r1, [%d1];", Space.GLOBAL, S.RELAXED, C.SYS, 1),
        ("ld.volatile.shared.u32 %r1, [%r2];", Space.SHARED, S.RELAXED, C.SYS, 1),
        ("ld.global.nc.v4.u32 {%r1,%r2,%r3,%r4}, [%d1];", Space.GLOBAL, S.WEAK, C.NONE, 4),
        ("ld.global.b32 {%r1}, [%d1];", Space.GLOBAL, S.WEAK, C.NONE, 1),
        ("st.release.cluster.global.u32 [%d1], %r1;", Space.GLOBAL, S.RELEASE, C.CLUSTER, 1),
        ("st.local.v2.b64 [%d1], {%d1,%d2};", Space.LOCAL, S.WEAK, C.NONE, 2),
        ("atom.global.add.u32 %r1, [%d1], 1;", Space.GLOBAL, S.RELAXED, C.GPU, 1),
        ("atom.add.acq_rel.sys.u32 %r1, [%d1], 1;", Space.GENERIC, S.ACQ_REL, C.SYS, 1),
        ("red.release.gpu.global.add.u32 [%d1], %r1;", Space.GLOBAL, S.RELEASE, C.GPU, 1),
        ("red.global.v2.f32.add [%d1], {%f1, %f2};", Space.GLOBAL, S.RELAXED, C.GPU, 2),
    ],
)
def test_space_semantics_scope_and_vector(
    line: str, space: Space, semantics: Semantics, scope: Scope, vector: int
) -> None:
    found = one(line)
    assert (found.does.space, found.does.semantics, found.does.scope, found.does.vector) == (
        space,
        semantics,
        scope,
        vector,
    )


def test_flags_and_hints() -> None:
    found = one("ld.global.nc.L1::no_allocate.L2::cache_hint.L2::128B.u32 %r1, [%d1+8], %d2;")
    assert found.does.flags == Flag.NONCOHERENT
    assert found.groups == (1, 1)
    assert found.operands[1].value == 8
    assert one("ld.volatile.global.u32 %r1, [%d1];").does.flags == Flag.VOLATILE


def test_a_hint_needs_its_policy() -> None:
    assert "takes a cache policy as its last operand" in refusal(
        "ld.L2::cache_hint.u32 %r1, [%d1];"
    )


@pytest.mark.parametrize(
    ("line", "index", "value"),
    [
        ("ld.shared.u32 %r1, [sm+4];", 1, Window.SHARED_START + 4),
        ("ld.u32 %r1, [sm];", 1, Window.SHARED + Window.SHARED_START),
        ("ld.global.u32 %r1, [gl];", 1, Window.MODULE),
        ("ld.const.u32 %r1, [co+-8];", 1, Window.CONST - 8),
        ("ld.local.u32 %r1, [lo];", 1, 0),
        ("ld.param.u64 %d1, [p0];", 1, 0),
        ("ld.param.b8 %h1, [map+3];", 1, 67),
        ("ld.shared.u32 %r1, [16];", 1, 16),
        ("st.shared.u32 [%r1-4], %r1;", 0, -4),
    ],
)
def test_addresses(line: str, index: int, value: int) -> None:
    operand = one(line).operands[index]
    assert (operand.kind, operand.value) == (Kind.ADDRESS, value)


def test_addresses_as_values() -> None:
    assert one("mov.u32 %r1, sm;").operands[1].value == Window.SHARED_START
    assert one("mov.u64 %d1, gl+4;").operands[1].value == Window.MODULE + 4
    assert one("mov.b64 %d1, map;").operands[1].value == 64
    found = one("cvta.to.shared.u64 %d1, %d2;")
    assert (found.op, found.does.space, found.does.flags) == (Op.CVTA, Space.SHARED, Flag.TO)


def test_a_signed_load_into_a_wider_register_is_extended() -> None:
    found = program("@%p1 ld.global.s8 %d3, [%d1];").instructions
    assert [(i.op, i.does.type) for i in found[:2]] == [(Op.LD, Type.S8), (Op.CVT, Type.S64)]
    assert found[1].guard == found[0].guard
    assert ops("ld.global.u8 %r3, [%d1];") == [Op.LD]
    assert ops("ld.global.s32 %r3, [%d1];") == [Op.LD]


def test_a_register_of_128_bits_is_two_operands() -> None:
    found = one("ld.global.b128 %q1, [%d1];")
    low, high = found.operands[:2]
    assert found.groups == (2, 1)
    assert high.index == low.index + 1
    swap = one("atom.global.b128.cas %q1, [%d1], %q2, %q3;")
    assert (swap.does.mode, swap.groups) == (Mode.CAS, (2, 1, 2, 2))


def test_matrix_loads_and_stores() -> None:
    found = one("ldmatrix.sync.aligned.x2.m8n8.trans.shared::cta.b16 {%r1,%r2}, [%r5+16];")
    assert (found.op, found.does.vector, found.does.space) == (Op.LDMATRIX, 2, Space.SHARED)
    assert found.does.flags == Flag.TRANSPOSE | Flag.ALIGNED
    assert one("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r5], {%r1};").op is Op.STMATRIX


def test_remote_stores_and_addresses() -> None:
    found = one(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%r1], {%r2,%r3}, [%r3];"
    )
    assert (found.op, found.groups, found.does.vector) == (Op.ST_ASYNC, (1, 2, 1), 2)
    assert one("mapa.shared::cluster.u32 %r1, sm, %r3;").does.space is Space.SHARED_CLUSTER
    assert one("mapa.u64 %d1, %d2, 1;").does.space is Space.GENERIC
    assert one("createpolicy.fractional.L2::evict_last.b64 %d1, 1.0;").groups == (1,)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ld.shared.u32 %r1, [gl];", "`gl` lies in .global, not in .shared"),
        ("ld.global.u32 %r1, [%p1];", "`%p1` cannot hold an address"),
        ("ld.global.v2.u32 {%r1}, [%d1];", "takes 2 elements, got 1 in braces"),
        ("ld.global.u64 %r1, [%d1];", "`%r1` is a .b32 register; .u64 is expected"),
        ("ld.relaxed.u32 %r1, [%d1];", "`ld.relaxed` takes one of .cluster, .cta, .gpu, .sys"),
        ("mov.u32 %r1, %envreg2;", "special register `%envreg2` is not supported"),
        ("vadd4.u32.u32.u32 %r1, %r1, %r1, %r1;", "video instructions are not simulated"),
        ("tex.2d.v4.f32.f32 {%f1}, [%d1];", "it has no textures"),
        ("multimem.red.add.u32 [%d1], %r1;", "it has one GPU only"),
    ],
)
def test_refusals(line: str, said: str) -> None:
    assert said in refusal(line)
