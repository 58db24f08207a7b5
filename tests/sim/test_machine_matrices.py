"""`ldmatrix` and `stmatrix` by the manual's figures, with NumPy alone, of rows in any order."""

from typing import Any

import numpy as np
import pytest

from tests.sim.support.machine import found, run

ROWS = np.random.default_rng(8).permutation(64)[:32]
"""The row of 16 bytes that each lane names."""
FILL = """mul.lo.u32 %r1, %tid, 4; add.u32 %r1, %r1, sm; mul.wide.u32 %d0, %tid, 4;
add.u64 %d1, %x, %d0; ld.global.u32 %r0, [%d1]; st.shared.u32 [%r1], %r0;
ld.global.u32 %r0, [%d1+512]; st.shared.u32 [%r1+512], %r0; bar.sync 0;"""
"""1024 bytes of x, by 128 threads."""
ROW = """mul.wide.u32 %d2, %lane, 4; add.u64 %d2, %x, %d2; ld.global.u32 %r2, [%d2+2048];
mul.lo.u32 %r2, %r2, 16; add.u32 %r2, %r2, sm;"""


def memory() -> np.ndarray:
    """512 numbers of 16 bits as words, and behind them the rows."""
    numbers = np.arange(512, dtype=np.uint16).view(np.uint32)
    return np.concatenate([numbers, np.zeros(256, np.uint32), ROWS.astype(np.uint32)])


def parts(count: int, transposed: bool) -> np.ndarray:
    """What lanes hold of each matrix: [lane, matrix, 2], as places in memory."""
    places = ROWS.reshape(4, 8)[:count, :, None] * 8 + np.arange(8)
    turned = places.swapaxes(1, 2) if transposed else places
    return turned.reshape(count, 32, 2).swapaxes(0, 1)


def ran(body: str, **options: Any) -> np.ndarray:
    report = run(body, threads=128, x=memory(), **options)
    assert report.verdict == "clean", str(report)
    return np.asarray(report.arrays["out"]).astype(np.uint32)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_lanes_load_their_parts_of_rows_that_lanes_name(count: int, transposed: bool) -> None:
    kind = f"x{count}{'.trans' * transposed}.shared.b16"
    registers = ", ".join(f"%r{10 + number}" for number in range(count))
    stores = " ".join(f"st.global.u32 [%o+{512 * i}], %r{10 + i};" for i in range(count))
    load = f"ldmatrix.sync.aligned.m8n8.{kind} {{{registers}}}, [%r2];"
    got = ran(f"{FILL} {ROW} {load} {stores}")[: 128 * count].reshape(count, 4, 32)
    wanted = parts(count, transposed).astype(np.uint16).view(np.uint32)[..., 0].T
    np.testing.assert_array_equal(got, np.repeat(wanted[:, None], 4, axis=1))


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_lanes_store_their_parts_to_rows_that_lanes_name(count: int, transposed: bool) -> None:
    """The first warp stores; register i of a lane is `1000 + 2 * lane + 64 * i` and the next."""
    kind = f"x{count}{'.trans' * transposed}.shared.b16"
    registers = ", ".join(f"%r{10 + number}" for number in range(count))
    made = " ".join(
        f"add.u32 %r{10 + i}, %lane, {500 + 32 * i}; mul.lo.u32 %r{10 + i}, %r{10 + i}, 131074;"
        f"add.u32 %r{10 + i}, %r{10 + i}, 65536;"
        for i in range(count)
    )
    body = f"""{FILL} {ROW} {made} setp.ne.u32 %p0, %warp, 0; @%p0 bra NEXT;
    stmatrix.sync.aligned.m8n8.{kind} [%r2], {{{registers}}};
    NEXT: bar.sync 0; ld.shared.u32 %r0, [%r1]; st.global.u32 [%o], %r0;
    ld.shared.u32 %r0, [%r1+512]; st.global.u32 [%o+512], %r0;"""
    got = ran(body)[:256].view(np.uint16)
    wanted = np.arange(512, dtype=np.uint16)
    numbers = np.arange(32)[:, None, None] * 2 + np.arange(count)[:, None] * 64 + np.arange(2)
    wanted[parts(count, transposed)] = 1000 + numbers
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    "damage", [("bar.sync 0;", ""), ("add.u32 %r2, %r2, sm", "mov.u32 %r2, 1028")]
)
def test_rows_are_ordered_and_aligned(damage: tuple[str, str]) -> None:
    load = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r2];"
    body = f"{FILL} {ROW} {load} st.global.u32 [%o], %r10;"
    ran(body)
    assert found(body.replace(*damage), threads=128, x=memory())


@pytest.mark.parametrize("part", [0, 1])
def test_what_a_lane_lacks_is_its_own_elements_of_a_row(part: int) -> None:
    """Lane 0 has no value to store: the others' of the same row are there all the same."""
    body = f"""{FILL} {ROW} setp.ne.u32 %p0, %lane, 0; @%p0 mov.u32 %r10, 7;
    setp.ne.u32 %p1, %warp, 0; @%p1 bra NEXT;
    stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {{%r10}};
    NEXT: bar.sync 0; ld.shared.u32 %r0, [sm+{16 * ROWS[0] + 4 * part}]; st.global.u32 [%o], %r0;"""
    report = run(body, threads=128, x=memory())
    assert (report.verdict == "clean") is (part == 1), str(report)
    assert part == 1 or "uninitialized" in str(report)
