"""Instructions of a whole warp: shuffles, votes, matches, reductions, elections."""

from collections.abc import Callable

import pytest

from tests.sim.support.machine import STORE, clean, found, values

SHUFFLES = [
    (mode, operand, clamp)
    for mode in ("up", "down", "bfly", "idx")
    for operand in (0, 1, 5, 16, 31)
    for clamp in (0x00, 0x1F, 0x1807, 0x181F, 0x1000, 0x100F, 0x0007)
]


def shuffled(mode: str, lane: int, operand: int, clamp: int) -> tuple[int, bool]:
    """PTX's own text of shfl: the lane that is read, and whether it is in range."""
    bval, cval, mask = operand & 31, clamp & 31, clamp >> 8 & 31
    max_lane = (lane & mask) | (cval & ~mask & 31)
    min_lane = lane & mask
    if mode == "up":
        j, inside = lane - bval, lane - bval >= max_lane
    elif mode == "down":
        j, inside = lane + bval, lane + bval <= max_lane
    elif mode == "bfly":
        j, inside = lane ^ bval, lane ^ bval <= max_lane
    else:
        j = min_lane | (bval & ~mask & 31)
        inside = j <= max_lane
    return (j if inside else lane), inside


@pytest.mark.few(70)
@pytest.mark.parametrize(("mode", "operand", "clamp"), SHUFFLES)
def test_shuffle(mode: str, operand: int, clamp: int) -> None:
    body = f"""
    add.u32 %r1, %lane, 100;
    shfl.sync.{mode}.b32 %r0|%p0, %r1, {operand}, {clamp}, 0xffffffff;
    selp.u32 %r2, 1000, 0, %p0; add.u32 %r0, %r0, %r2;
    """
    expected = []
    for lane in range(32):
        source, inside = shuffled(mode, lane, operand, clamp)
        expected.append(100 + source + (1000 if inside else 0))
    assert values(body + STORE, count=1) == expected


def test_shuffle_by_a_lane_of_its_own() -> None:
    body = "sub.u32 %r1, 31, %lane; shfl.sync.idx.b32 %r0, %lane, %r1, 31, 0xffffffff;"
    assert values(body + STORE) == [31 - lane for lane in range(32)]


def test_shuffle_from_a_lane_that_does_not_take_part_is_undefined() -> None:
    body = """
    setp.lt.u32 %p0, %lane, 16; @!%p0 bra DONE;
    shfl.sync.down.b32 %r0, %lane, 8, 31, 0x0000ffff;
    """
    assert "uninitialized" in found(body + STORE)


def test_undefined_value_travels_with_its_lane() -> None:
    half = "setp.lt.u32 %p0, %lane, 16; @%p0 mov.u32 %r1, 5;"
    body = f"{half} shfl.sync.bfly.b32 %r0, %r1, 1, 31, 0xffffffff; @%p0 {STORE}"
    clean(body)
    body = f"{half} shfl.sync.bfly.b32 %r0, %r1, 16, 31, 0xffffffff; @%p0 {STORE}"
    assert found(body) == {"uninitialized"}


VOTES: dict[str, Callable[[list[bool]], int]] = {
    "all": lambda yes: all(yes),
    "any": lambda yes: any(yes),
    "uni": lambda yes: len(set(yes)) == 1,
}


@pytest.mark.parametrize("threshold", [0, 7, 16, 32])
@pytest.mark.parametrize("mode", VOTES)
def test_vote(mode: str, threshold: int) -> None:
    body = f"""
    setp.lt.u32 %p0, %lane, {threshold};
    vote.sync.{mode}.pred %p1, %p0, 0xffffffff;
    selp.u32 %r0, 1, 0, %p1;
    """
    expected = VOTES[mode]([lane < threshold for lane in range(32)])
    assert values(body + STORE, count=1) == [int(expected)] * 32


def test_ballot_of_some_members() -> None:
    body = """
    and.b32 %r1, %lane, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra EVEN;
    mov.u32 %r0, 3; bra END;
    EVEN: setp.gt.u32 %p0, %lane, 9;
    vote.sync.ballot.b32 %r0, !%p0, 0x55555555;
    END:
    """
    ballot = sum(1 << lane for lane in range(0, 10, 2))
    assert values(body + STORE) == [3 if lane % 2 else ballot for lane in range(32)]


def test_match() -> None:
    body = "shr.u32 %r1, %lane, 3; match.any.sync.b32 %r0, %r1, 0xffffffff;"
    assert values(body + STORE) == [0xFF << lane // 8 * 8 for lane in range(32)]
    body = """
    match.all.sync.b32 %r1|%p0, %lane, 0xffffffff;
    match.all.sync.b32 %r2|%p1, 7, 0xffffffff;
    selp.u32 %r3, 1, 0, %p0; selp.u32 %r4, 2, 0, %p1; add.u32 %r0, %r3, %r4;
    setp.ne.u32 %p2, %r1, 0; @%p2 trap; setp.ne.u32 %p2, %r2, 0xffffffff; @%p2 trap;
    """
    assert values(body + STORE) == [2] * 32
    body = "mov.b64 %d0, {%lane, 0}; match.any.sync.b64 %r0, %d0, 0xffffffff;"
    assert values(body + STORE) == [1 << lane for lane in range(32)]


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ("add.u32", sum(range(32)) - 8 * 32 & 0xFFFFFFFF),
        ("add.s32", sum(range(32)) - 8 * 32 & 0xFFFFFFFF),
        ("min.u32", 0),
        ("max.u32", 0xFFFFFFFF),
        ("min.s32", 0xFFFFFFF8),
        ("max.s32", 23),
        ("and.b32", 0),
        ("or.b32", 0xFFFFFFFF),
        ("xor.b32", 0),
    ],
)
def test_reduction_of_a_warp(operation: str, result: int) -> None:
    body = f"sub.u32 %r1, %lane, 8; redux.sync.{operation} %r0, %r1, 0xffffffff;"
    assert values(body + STORE, count=1) == [result] * 32


def test_reduction_of_some_lanes() -> None:
    body = """
    setp.lt.u32 %p0, %lane, 4; mov.u32 %r0, 0; @!%p0 bra END;
    redux.sync.add.u32 %r0, %lane, 0xf;
    END:
    """
    assert values(body + STORE) == [6] * 4 + [0] * 28


def test_election_has_one_winner_that_all_know() -> None:
    body = """
    elect.sync %r1|%p0, 0xffffffff;
    selp.u32 %r2, 1, 0, %p0;
    redux.sync.add.u32 %r3, %r2, 0xffffffff;
    setp.eq.u32 %p1, %r1, %lane; selp.u32 %r4, 1, 0, %p1;
    setp.ne.u32 %p2, %r4, %r2; @%p2 trap;
    mov.u32 %r0, %r3;
    """
    assert values(body + STORE) == [1] * 32


def test_undefined_vote_is_found() -> None:
    assert found("vote.sync.any.pred %p0, %p1, 0xffffffff;") == {"uninitialized"}
    assert found("redux.sync.add.u32 %r0, %r1, 0xffffffff;") == {"uninitialized"}
    assert found("match.any.sync.b32 %r0, %r1, 0xffffffff;") == {"uninitialized"}
