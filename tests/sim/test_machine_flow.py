"""Divergence and reconvergence: where lanes part, where they meet, and what they compute."""

import pytest

from tests.sim.support.machine import STORE, clean, found, values


def test_lanes_meet_behind_a_branch() -> None:
    body = """
    setp.lt.u32 %p0, %lane, 10;
    mov.u32 %r0, 1;
    @%p0 bra THEN;
    mov.u32 %r0, 2;
    bra MEET;
    THEN: add.u32 %r0, %r0, 10;
    MEET: activemask.b32 %r1;
    setp.ne.u32 %p1, %r1, 0xffffffff;
    @%p1 mov.u32 %r0, 99;
    """
    assert values(body + STORE) == [11] * 10 + [2] * 22


def test_nested_branches() -> None:
    body = """
    and.b32 %r1, %lane, 1; setp.eq.u32 %p0, %r1, 0;
    and.b32 %r1, %lane, 2; setp.eq.u32 %p1, %r1, 0;
    mov.u32 %r0, 0;
    @%p0 bra OUTER;
    @%p1 bra INNER;
    add.u32 %r0, %r0, 1;
    bra INNER_END;
    INNER: add.u32 %r0, %r0, 2;
    INNER_END: activemask.b32 %r2; add.u32 %r0, %r0, 16;
    bra END;
    OUTER: activemask.b32 %r2; add.u32 %r0, %r0, 4;
    END: activemask.b32 %r3; setp.ne.u32 %p2, %r3, 0xffffffff; @%p2 trap;
    popc.b32 %r2, %r2; mad.lo.u32 %r0, %r2, 256, %r0;
    """
    expected = [
        4 + 16 * 256 if lane % 2 == 0 else 16 + (2 if lane & 2 == 0 else 1) + 16 * 256
        for lane in range(32)
    ]
    assert values(body + STORE) == expected


def test_loops_with_different_trip_counts() -> None:
    body = """
    mov.u32 %r0, 0; mov.u32 %r1, 0;
    LOOP: setp.ge.u32 %p0, %r1, %lane;
    @%p0 bra OUT;
    add.u32 %r1, %r1, 1; add.u32 %r0, %r0, %r1;
    bra LOOP;
    OUT: activemask.b32 %r2; setp.ne.u32 %p1, %r2, 0xffffffff; @%p1 trap;
    """
    assert values(body + STORE) == [lane * (lane + 1) // 2 for lane in range(32)]


def test_loop_in_a_loop_with_continue_and_break() -> None:
    body = """
    mov.u32 %r0, 0; mov.u32 %r1, 0;
    OUTER: setp.ge.u32 %p0, %r1, 6; @%p0 bra OUT;
    mov.u32 %r2, 0;
    INNER: setp.gt.u32 %p1, %r2, %lane; @%p1 bra NEXT;
    setp.eq.u32 %p2, %r2, 5; @%p2 bra OUT;
    add.u32 %r2, %r2, 1;
    and.b32 %r3, %r2, 1; setp.eq.u32 %p3, %r3, 0; @%p3 bra INNER;
    add.u32 %r0, %r0, 1;
    bra INNER;
    NEXT: add.u32 %r1, %r1, 1;
    bra OUTER;
    OUT: activemask.b32 %r4; setp.ne.u32 %p4, %r4, 0xffffffff; @%p4 trap;
    """

    def lane_value(lane: int) -> int:
        total = 0
        for _ in range(6):
            j = 0
            while j <= lane:
                if j == 5:
                    return total
                j += 1
                total += j % 2
        return total

    assert values(body + STORE) == [lane_value(lane) for lane in range(32)]


def test_indexed_branch_takes_each_lane_where_it_wants() -> None:
    body = """
    TABLE: .branchtargets A, B, C;
    rem.u32 %r1, %lane, 3;
    brx.idx %r1, TABLE;
    A: mov.u32 %r0, 100; bra MEET;
    B: mov.u32 %r0, 200; bra MEET;
    C: mov.u32 %r0, 300;
    MEET: activemask.b32 %r2; setp.ne.u32 %p1, %r2, 0xffffffff; @%p1 trap;
    """
    assert values(body + STORE) == [100 + lane % 3 * 100 for lane in range(32)]


def test_lanes_that_a_guard_holds_back_go_on_behind_an_indexed_branch() -> None:
    body = """
    TABLE: .branchtargets A, B;
    and.b32 %r1, %lane, 1; setp.ge.u32 %p0, %lane, 16;
    @%p0 brx.idx %r1, TABLE;
    mov.u32 %r0, 50; bra MEET;
    A: mov.u32 %r0, 100; bra MEET;
    B: mov.u32 %r0, 200;
    MEET: activemask.b32 %r2; setp.ne.u32 %p1, %r2, 0xffffffff; @%p1 trap;
    """
    assert values(body + STORE) == [50] * 16 + [100, 200] * 8


def test_indexed_branch_outside_of_its_table() -> None:
    body = "TABLE: .branchtargets A, B; brx.idx %lane, TABLE; A: bra DONE; B: bra DONE;"
    assert found(body) == {"illegal-argument"}


def test_early_exits_leave_the_others_together() -> None:
    body = """
    mov.u32 %r0, 7; st.global.u32 [%o], %r0;
    setp.lt.u32 %p0, %lane, 8;
    @%p0 bra LEAVE;
    setp.ge.u32 %p1, %lane, 24;
    @%p1 exit;
    bra STAY;
    LEAVE: ret;
    STAY: activemask.b32 %r0;
    bar.warp.sync 0x00ffff00;
    """
    assert values(body + STORE) == [7] * 8 + [0x00FFFF00] * 16 + [7] * 8


def test_jump_threaded_branch_meets_again() -> None:
    """The second test of a condition is skipped by those who know its outcome."""
    body = """
    setp.lt.u32 %p0, %lane, 16; mov.u32 %r0, 0;
    @%p0 bra KNOWS_YES;
    add.u32 %r0, %r0, 1;
    bra KNOWS_NO;
    KNOWS_YES: add.u32 %r0, %r0, 2;
    bra YES;
    KNOWS_NO: add.u32 %r0, %r0, 4;
    bra END;
    YES: add.u32 %r0, %r0, 8;
    END: shfl.sync.bfly.b32 %r1, %r0, 16, 31, 0xffffffff;
    mad.lo.u32 %r0, %r1, 100, %r0;
    """
    assert values(body + STORE) == [510] * 16 + [1005] * 16


def test_lanes_that_wait_for_each_other_across_a_branch() -> None:
    """A shuffle in both arms: its two halves meet at one instruction each."""
    body = """
    setp.lt.u32 %p0, %lane, 16;
    @%p0 bra LOW;
    shfl.sync.bfly.b32 %r0, %lane, 1, 31, 0xffff0000;
    bra MEET;
    LOW: shfl.sync.bfly.b32 %r0, %lane, 2, 31, 0x0000ffff;
    MEET:
    """
    assert values(body + STORE) == [lane ^ (2 if lane < 16 else 1) for lane in range(32)]


def test_warp_barriers_of_both_arms_are_one_barrier() -> None:
    clean("""
    setp.lt.u32 %p0, %lane, 16;
    @%p0 bra LOW;
    bar.warp.sync 0xffffffff;
    bra DONE;
    LOW: bar.warp.sync 0xffffffff;
    """)


def test_members_that_never_come() -> None:
    body = """
    setp.lt.u32 %p0, %lane, 16;
    @%p0 bra LOW;
    HIGH: bra HIGH;
    LOW: bar.warp.sync 0xffffffff;
    """
    assert "deadlock" in found(body)


def test_lane_that_is_no_member() -> None:
    assert "illegal-argument" in found("bar.warp.sync 0x0000ffff;")


def test_exited_lanes_do_not_count_at_an_aligned_barrier() -> None:
    clean("setp.lt.u32 %p0, %lane, 16; @!%p0 exit; bar.sync 0;")


def test_aligned_barrier_that_half_a_warp_never_reaches() -> None:
    body = """
    setp.lt.u32 %p0, %lane, 16;
    @%p0 bra LOW;
    bar.sync 1, 32;
    bra DONE;
    LOW: bar.sync 2, 32;
    """
    assert {"divergent", "deadlock"} <= found(body)


@pytest.mark.parametrize("threads", [1, 31, 33, 63])
def test_partial_warps(threads: int) -> None:
    body = "activemask.b32 %r0; popc.b32 %r0, %r0; bar.sync 0;"
    last = threads % 32
    expected = [32] * (threads - last) + [last] * last
    assert values(body + STORE, threads=threads) == expected


def test_guarded_instructions_leave_the_other_lanes_alone() -> None:
    body = """
    mov.u32 %r0, 5; setp.gt.u32 %p0, %lane, 20;
    @%p0 add.u32 %r0, %r0, %lane;
    @!%p0 mul.lo.u32 %r0, %r0, 2;
    """
    assert values(body + STORE) == [10 if lane <= 20 else 5 + lane for lane in range(32)]


def test_branch_back_out_of_a_diverged_loop_with_exits() -> None:
    """Lanes leave by exit from within a loop that others go on with."""
    body = """
    mov.u32 %r0, 0;
    LOOP: add.u32 %r0, %r0, 1;
    st.global.u32 [%o], %r0;
    setp.eq.u32 %p0, %r0, %lane;
    @%p0 exit;
    setp.lt.u32 %p1, %r0, 20;
    @%p1 bra LOOP;
    activemask.b32 %r1; popc.b32 %r0, %r1;
    """
    expected = [lane if 0 < lane <= 20 else 12 for lane in range(32)]
    assert values(body + STORE) == expected
