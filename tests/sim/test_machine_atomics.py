"""Atomic operations: each kind, each width, and who sees what."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.sim.support.machine import STORE, found, run, values
from tests.sim.test_machine_memory import ADDRESS

ATOMS: dict[str, Callable[[int, int], int]] = {
    "add.u32": lambda old, b: old + b & 0xFFFFFFFF,
    "min.u32": min,
    "max.u32": max,
    "and.b32": lambda old, b: old & b,
    "or.b32": lambda old, b: old | b,
    "xor.b32": lambda old, b: old ^ b,
    "exch.b32": lambda old, b: b,
    "inc.u32": lambda old, b: 0 if old >= b else old + 1,
    "dec.u32": lambda old, b: b if old == 0 or old > b else old - 1,
}


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("operation", ATOMS)
def test_atomic_of_each_kind(operation: str, space: str) -> None:
    """Each lane on a word of its own: old value and new one."""
    body = f"""
    {ADDRESS} add.u64 %d1, %x, %d0;
    mad.lo.u32 %r2, %lane, 3, 1; mov.u32 %r3, 40;
    st.shared.u32 [%r1], %r2; st.global.u32 [%d1], %r2;
    atom.{space}.{operation} %r4, [{"%d1" if space == "global" else "%r1"}], %r3;
    ld.{space}.u32 %r5, [{"%d1" if space == "global" else "%r1"}];
    mad.lo.u32 %r0, %r4, 1000, %r5;
    """
    expected = [(3 * i + 1) * 1000 + ATOMS[operation](3 * i + 1, 40) for i in range(32)]
    assert values(body + STORE, count=1) == [value & 0xFFFFFFFF for value in expected]


def test_signed_and_wide_atomics() -> None:
    body = """
    st.shared.u64 [sm], -5; st.shared.u32 [sm+8], -5;
    bar.warp.sync -1;
    setp.ne.u32 %p0, %lane, 0; mov.u32 %r0, 0; @%p0 bra END;
    atom.shared.max.s64 %d1, [sm], 3; atom.shared.min.s32 %r1, [sm+8], 3;
    atom.shared.add.u64 %d2, [sm], 4294967296; ld.shared.u64 %d3, [sm]; ld.shared.s32 %r2, [sm+8];
    setp.eq.s64 %p1, %d2, 3; setp.eq.and.s64 %p1, %d3, 4294967299, %p1;
    setp.eq.and.s32 %p1, %r2, -5, %p1; setp.eq.and.s64 %p1, %d1, -5, %p1;
    selp.u32 %r0, 1, 2, %p1;
    END:
    """
    body = body.replace(
        "st.shared.u64 [sm], -5; st.shared.u32 [sm+8], -5;",
        """
    setp.eq.u32 %p3, %lane, 0; @%p3 st.shared.u64 [sm], -5; @%p3 st.shared.u32 [sm+8], -5;""",
    )
    assert values(body + STORE) == [1] + [0] * 31


def test_atomics_of_floats_and_halves() -> None:
    body = """
    setp.eq.u32 %p3, %lane, 0; mov.f32 %f1, 0f3F800000; mov.b32 %r1, 0x3c003c00; mov.b32 %r2, 0;
    mov.b32 %r6, 0x3f803f80; mov.f64 %e1, 0d3FF0000000000000; mov.u64 %d5, 0;
    @%p3 st.shared.u32 [sm], %r2; @%p3 st.shared.u32 [sm+4], %r2; @%p3 st.shared.u32 [sm+8], %r2;
    @%p3 st.shared.u64 [sm+16], %d5;
    bar.warp.sync -1;
    red.shared.add.f32 [sm], %f1;
    red.shared.add.noftz.f16x2 [sm+4], %r1;
    red.shared.add.noftz.bf16x2 [sm+8], %r6;
    red.shared.add.f64 [sm+16], %e1;
    bar.warp.sync -1;
    ld.shared.f32 %f2, [sm]; cvt.rzi.u32.f32 %r0, %f2;
    ld.shared.u32 %r3, [sm+4]; setp.ne.u32 %p1, %r3, 0x50005000; @%p1 trap;
    ld.shared.u32 %r3, [sm+8]; setp.ne.u32 %p1, %r3, 0x42004200; @%p1 trap;
    ld.shared.f64 %e2, [sm+16]; cvt.rzi.u32.f64 %r4, %e2; setp.ne.u32 %p1, %r4, 32; @%p1 trap;
    """
    assert values(body + STORE) == [32] * 32


def test_compare_and_swap_of_16_to_128_bits() -> None:
    body = """
    setp.ne.u32 %p0, %lane, 0; mov.u32 %r0, 0; @%p0 bra END;
    mov.u64 %d0, 7; mov.u64 %d1, 9; st.shared.v2.u64 [sm], {%d0, %d1};
    mov.b16 %h0, 7; mov.b16 %h1, 70;
    atom.shared.cas.b16 %h2, [sm], %h0, %h1;
    atom.shared.cas.b32 %r1, [sm], 70, 700;
    atom.shared.cas.b64 %d2, [sm], 700, 7000;
    mov.u64 %d3, 7000; mov.u64 %d4, 1; mov.u64 %d5, 2;
    mov.b128 %q0, {%d3, %d1}; mov.b128 %q1, {%d4, %d5};
    atom.shared.cas.b128 %q2, [sm], %q0, %q1;
    ld.shared.v2.u64 {%d6, %d7}, [sm];
    mov.b128 {%d8, %d9}, %q2;
    setp.eq.u64 %p1, %d6, 1; setp.eq.and.u64 %p1, %d7, 2, %p1; setp.eq.and.u64 %p1, %d8, 7000, %p1;
    setp.eq.and.u64 %p1, %d9, 9, %p1; setp.eq.and.u64 %p1, %d2, 700, %p1;
    selp.u32 %r0, 1, 2, %p1;
    END:
    """
    assert values(body + STORE) == [1] + [0] * 31


def test_exchange_of_128_bits() -> None:
    body = """
    setp.ne.u32 %p0, %lane, 0; mov.u32 %r0, 0; @%p0 bra END;
    mov.u64 %d0, 7; mov.u64 %d1, 9; st.shared.v2.u64 [sm], {%d0, %d1};
    mov.b128 %q0, {%d1, %d0};
    atom.shared.exch.b128 %q1, [sm], %q0;
    atom.shared.cas.b128 %q2, [sm], %q1, %q1;
    mov.b128 {%d2, %d3}, %q1; mov.b128 {%d4, %d5}, %q2;
    ld.shared.v2.u64 {%d6, %d7}, [sm];
    setp.eq.u64 %p1, %d2, 7; setp.eq.and.u64 %p1, %d3, 9, %p1; setp.eq.and.u64 %p1, %d4, 9, %p1;
    setp.eq.and.u64 %p1, %d6, 9, %p1; setp.eq.and.u64 %p1, %d7, 7, %p1;
    selp.u32 %r0, 1, 2, %p1;
    END:
    """
    assert values(body + STORE) == [1] + [0] * 31


def test_every_lane_counts_once() -> None:
    body = "red.global.add.u32 [%out], 1;"
    report = run(body, threads=96, grid=5)
    assert report.verdict == "clean", str(report)
    assert report.arrays["out"][0] == 480


def test_old_values_of_a_counter_are_all_different() -> None:
    body = """
    atom.global.add.u32 %r1, [%x], 1; mul.wide.u32 %d0, %r1, 4; add.u64 %d0, %out, %d0;
    add.u32 %r2, %r1, 1; st.global.u32 [%d0], %r2;
    """
    report = run(body, threads=64, grid=2, x=[0])
    assert report.verdict == "clean", str(report)
    assert (report.arrays["out"][:128] == np.arange(1, 129)).all()


def test_atomic_on_undefined_bytes() -> None:
    assert "uninitialized" in found("atom.shared.add.u32 %r0, [sm], 1;")


def test_atomic_vector() -> None:
    body = """
    mov.f32 %f0, 0f3F800000; mov.f32 %f1, 0f40000000;
    red.global.v2.f32.add [%out], {%f0, %f1};
    """
    report = run(body, dtype="float32")
    assert report.verdict == "clean", str(report)
    assert report.arrays["out"][:2].tolist() == [32.0, 64.0]
