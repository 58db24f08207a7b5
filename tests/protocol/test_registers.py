"""The arithmetic of register budgets: what is at entry, what is legal, and what is derived."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.errors import ScheduleError
from warpsmith.protocol.registers import (
    GROUP_THREADS,
    LEAST,
    MOST,
    Allotment,
    Block,
    change,
    check,
    entry_registers,
    rebalance,
)
from warpsmith.targets.hopper import SM90A

LIMITS = SM90A.limits


def block(*groups: int, blocks_per_sm: int = 1) -> Block:
    """Allotments of so many warp groups each: `load`, then `compute0`, `compute1`, and so on."""
    names = ["load", *(f"compute{number}" for number in range(len(groups) - 1))]
    allotments = tuple(
        Allotment(roles=(name,), threads=count * GROUP_THREADS)
        for name, count in zip(names, groups, strict=True)
    )
    return Block(allotments=allotments, blocks_per_sm=blocks_per_sm, limits=LIMITS)


# What NVRTC 13 reports for kernels that need more; tests/runtime/test_nvrtc.py compiles some.
@pytest.mark.parametrize(
    ("threads", "blocks", "registers"),
    [
        (128, 1, 255),
        (256, 1, 255),
        (256, 0, 255),
        (256, 2, 128),
        (288, 1, 168),
        (384, 1, 168),
        (512, 1, 128),
        (544, 1, 96),
        (640, 1, 96),
        (768, 1, 80),
        (1024, 1, 64),
        (1024, 2, 32),
        (160, 2, 168),
        (96, 3, 168),
        (352, 2, 80),
        (128, 4, 128),
    ],
)
def test_registers_at_entry(threads: int, blocks: int, registers: int) -> None:
    assert entry_registers(threads, LIMITS, blocks) == registers


@pytest.mark.parametrize(("threads", "blocks"), [(1025, 1), (0, 1), (1024, 3), (544, 4)])
def test_blocks_that_do_not_fit_are_refused(threads: int, blocks: int) -> None:
    with pytest.raises(ScheduleError, match=rf"WS0230\] {blocks} block.* of {threads} threads"):
        entry_registers(threads, LIMITS, blocks)


@pytest.mark.parametrize(
    ("groups", "budgets"),
    [
        ((1, 2), (24, 240)),
        ((1, 2), (40, 232)),
        ((1, 2), (88, 208)),
        ((1, 3), (32, 160)),
        ((1, 3), (56, 152)),
        ((1, 2), (None, None)),
        ((1, 1, 1), (24, 248, 232)),
        ((1, 1), (64, 192)),
    ],
)
def test_splits_known_to_work_are_legal(
    groups: tuple[int, ...], budgets: tuple[int | None, ...]
) -> None:
    check(block(*groups), budgets)


@pytest.mark.parametrize(
    ("budgets", "code", "words"),
    [
        ((16, 240), "WS0231", r"16 registers for role `load`: setmaxnreg takes 24 to 248; use 24"),
        ((24, 256), "WS0231", r"256 registers for role `compute0`.* 24 to 248; use 248"),
        ((25, 240), "WS0232", r"25 registers for role `load`.*multiples of 8; use 24 or 32"),
        (
            (24, 248),
            "WS0234",
            r"cannot fit: role `load` 128 x 24, role `compute0` 256 x 248 are 66560, and a block "
            r"of 384 threads has 64512, 168 a thread; give role `compute0` 240 or fewer",
        ),
        ((None, 176), "WS0234", r"role `load` 128 x 168, role `compute0` 256 x 176 .*0` 168 or"),
        # 65536 in all, as many as the multiprocessor has, but 1024 more than the launch took.
        ((32, 240), "WS0234", r"are 65536, .* has 64512"),
    ],
)
def test_what_is_illegal_is_refused(budgets: tuple[int | None, int], code: str, words: str) -> None:
    with pytest.raises(ScheduleError, match=words) as caught:
        check(block(1, 2), budgets)
    assert caught.value.code == code


def test_two_blocks_share_the_multiprocessor() -> None:
    check(block(1, 1, blocks_per_sm=2), (24, 232))
    with pytest.raises(ScheduleError, match="has 32768, 128 a thread"):
        check(block(1, 1, blocks_per_sm=2), (24, 240))


def test_parts_of_warp_groups_are_refused() -> None:
    part = Block(
        allotments=(
            Allotment(roles=("a", "b"), threads=128),
            Allotment(roles=("compute",), threads=160),
        ),
        limits=LIMITS,
    )
    with pytest.raises(ScheduleError, match=r"WS0233\] role `compute`: 160 threads .* 128 or 256"):
        check(part, (24, 240))
    assert rebalance(part, (30, 250)) == (None, None)
    with pytest.raises(ScheduleError, match="WS0233"):
        rebalance(part, (30, 250), given=(24, None))


def test_the_remedy_is_legal_where_it_names_a_number() -> None:
    with pytest.raises(ScheduleError, match="give role `load` 64 or fewer"):
        check(block(1, 7), (248, None))
    check(block(1, 7), (64, None))
    with pytest.raises(ScheduleError, match="give each role less, or let budgets be derived"):
        check(block(1, 7), (248, 96))


def test_change_says_how_to_get_there() -> None:
    assert [change(b, 168) for b in (24, 168, 240, None)] == ["dec", "", "inc", ""]


@pytest.mark.parametrize(
    ("groups", "needs", "budgets"),
    [
        ((1, 2), (20, 168), (None, None)),
        ((1, 2), (20, 169), (24, 240)),
        ((1, 2), (33, 200), (40, 232)),
        # Both more than there is: the loading role's whole need, and what is left.
        ((1, 2), (90, 255), (96, 200)),
        ((1, 3), (28, 150), (32, 160)),
        ((1, 1, 1), (20, 200, 100), (24, 248, 104)),
        ((1, 1, 1), (20, 255, 230), (24, 248, 232)),
        ((1, 1), (200, 255), (None, None)),
        # One keeps what the launch gives, since it needs just that.
        ((1, 1, 1), (24, 161, 200), (24, None, 248)),
    ],
)
def test_derived_budgets(
    groups: tuple[int, ...], needs: tuple[int, ...], budgets: tuple[int | None, ...]
) -> None:
    assert rebalance(block(*groups), needs) == budgets


def test_given_budgets_stay() -> None:
    assert rebalance(block(1, 2), (20, 200), given=(56, None)) == (56, 224)
    assert rebalance(block(1, 2), (20, 100), given=(56, None)) == (56, None)
    assert rebalance(block(1, 2), (20, 100), given=(None, 240)) == (24, 240)
    with pytest.raises(ScheduleError, match="cannot fit"):
        rebalance(block(1, 2), (20, 100), given=(None, 248))


BLOCKS = st.builds(
    lambda groups, blocks: (groups, min(blocks, 16 // sum(groups))),
    st.lists(st.integers(1, 3), min_size=1, max_size=5).filter(lambda g: sum(g) <= 8),
    st.integers(0, 4),
)
NEEDS = st.lists(st.integers(8, 255), min_size=5, max_size=5)


@given(BLOCKS, NEEDS)
def test_derived_budgets_are_legal_and_lose_nothing(
    shape: tuple[list[int], int], needs: list[int]
) -> None:
    groups, blocks_per_sm = shape
    of = block(*groups, blocks_per_sm=blocks_per_sm)
    needs = needs[: len(groups)]
    budgets = rebalance(of, needs)
    check(of, budgets)
    entry = of.entry
    numbers = [entry if budget is None else budget for budget in budgets]
    if max(needs) <= entry:
        assert set(budgets) == {None}
        return
    left = of.pool - sum(
        each.threads * -(-number // 8) * 8
        for each, number in zip(of.allotments, numbers, strict=True)
    )
    assert left >= 0
    for number, need, each in zip(numbers, needs, of.allotments, strict=True):
        assert number % 8 == 0 or number == entry
        assert LEAST <= number <= MOST or number == entry
        if number < min(need, MOST):  # short only where not one more step fits
            assert left < 8 * each.threads
            # and nobody went ahead of it, but with what is too little for its own next step
            ahead = number + 8 + 8 * (each.threads // GROUP_THREADS)
            assert all(n <= ahead for n in numbers)


@given(BLOCKS, NEEDS, st.data())
def test_with_given_budgets_the_result_is_legal_or_refused(
    shape: tuple[list[int], int], needs: list[int], data: st.DataObject
) -> None:
    groups, blocks_per_sm = shape
    of = block(*groups, blocks_per_sm=blocks_per_sm)
    fixed = [
        data.draw(st.none() | st.integers(LEAST // 8, MOST // 8).map(lambda n: n * 8))
        for _ in groups
    ]
    least = [LEAST if budget is None else budget for budget in fixed]
    if of.total(least) > of.pool:
        with pytest.raises(ScheduleError, match="WS0234"):
            rebalance(of, needs[: len(groups)], given=fixed)
        return
    budgets = rebalance(of, needs[: len(groups)], given=fixed)
    check(of, budgets)
    for got, wished in zip(budgets, fixed, strict=True):
        assert wished is None or wished == (of.entry if got is None else got)
