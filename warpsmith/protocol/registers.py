"""Registers of roles: what a launch gives every thread, and which budgets `setmaxnreg` may set.

A block is launched with equal registers for all its threads. Then each warp group gives some back
to the block's pool (`setmaxnreg.dec`) or takes some (`setmaxnreg.inc`, which waits until the pool
has them). ptxas compiles budgets that no pool can ever grant without a word, and the kernel hangs,
so the arithmetic is here.

Facts (PTX ISA on `setmaxnreg`; counts at entry as NVRTC 13 reports them for bounds of 96 to 2048
threads): budgets are multiples of 8; all warps of a warp group execute the same instruction; a
kernel that takes more for some role enters with all that its launch bound allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpsmith.errors import ScheduleError
from warpsmith.targets.family import BUDGETS, WARP, WARP_GROUP, Limits
from warpsmith.values import dataclass

GROUP_THREADS = WARP_GROUP * WARP
"""Threads of a warp group, which change their registers together."""

LEAST, MOST, STEP = BUDGETS.start, BUDGETS[-1], BUDGETS.step
"""Registers of a thread that `setmaxnreg` sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allotment:
    """Warp groups that have one budget, and the roles that their warps run.

    Attributes:
        roles: their names; several where they share a warp group.
        threads: of these warp groups, idle ones included.
    """

    roles: tuple[str, ...]
    threads: int

    def __str__(self) -> str:
        names = ", ".join(f"`{name}`" for name in self.roles)
        return f"role {names}" if len(self.roles) == 1 else f"roles {names}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The warp groups of a block, and what a launch gives them.

    Attributes:
        allotments: all of them, in order.
        limits: of the target.
        blocks_per_sm: blocks that must fit on a multiprocessor at once; 0 counts as 1.
    """

    allotments: tuple[Allotment, ...]
    limits: Limits
    blocks_per_sm: int = 1

    @property
    def threads(self) -> int:
        return sum(each.threads for each in self.allotments)

    @property
    def entry(self) -> int:
        """Registers of a thread at entry. Raises ScheduleError as `entry_registers` does."""
        return entry_registers(self.threads, self.limits, self.blocks_per_sm)

    @property
    def pool(self) -> int:
        """Registers that the block was launched with, 32 bits each, which its warp groups share.

        What the multiprocessor has beyond belongs to nobody: 384 threads of 168 leave 1024.
        """
        return self.limits.allotted(self.entry) * (-(-self.threads // WARP) * WARP)

    def total(self, budgets: Sequence[int | None]) -> int:
        """Registers of all threads; None stands for what the launch gives."""
        return sum(
            each.threads * self.limits.allotted(self.entry if budget is None else budget)
            for each, budget in zip(self.allotments, budgets, strict=True)
        )


def entry_registers(threads: int, limits: Limits, blocks_per_sm: int = 1) -> int:
    """Registers of every thread of a launch that takes as many as it may.

    Args:
        threads: of a block.
        limits: of the target.
        blocks_per_sm: blocks that must fit on a multiprocessor at once; 0 counts as 1.

    Raises:
        ScheduleError: WS0230 where so many threads do not fit on a multiprocessor.
    """
    blocks = max(blocks_per_sm, 1)
    warps = -(-threads // WARP) * blocks
    if not 0 < threads <= limits.block_threads or warps > limits.sm_warps:
        raise ScheduleError(
            f"{blocks} block{'s' if blocks > 1 else ''} of {threads} threads on a multiprocessor: "
            f"a block has 1 to {limits.block_threads} threads, and a multiprocessor "
            f"{limits.sm_warps} warps",
            code="WS0230",
            remedy="use fewer roles, smaller ones, or fewer blocks_per_sm",
        )
    return limits.entry_registers(warps)


def rebalance(
    block: Block, needs: Sequence[int], given: Sequence[int | None] = ()
) -> tuple[int | None, ...]:
    """A budget for each allotment, None where it keeps what the launch gives.

    Budgets that were given stay. If the others need no more than the launch gives everyone, and
    that fits, they keep it. Else each first gets the least that is legal; then the one that has
    least and needs more gets more, until none needs any or the pool is empty. What is left goes to
    those that need more than the launch gives, in even steps.

    Args:
        needs: registers of a thread that the code of each allotment needs, as ptxas counts them.
        given: budgets that are not to be changed; None, or nothing at all, leaves them open.

    Raises:
        ScheduleError: as `check` does. Where budgets are open and none was given, it does not.
    """
    limits = block.limits
    fixed = tuple(given) or (None,) * len(block.allotments)
    whole = not any(each.threads % GROUP_THREADS for each in block.allotments)
    if not whole and not any(fixed):
        return fixed
    open_ = [place for place, budget in enumerate(fixed) if budget is None]
    lowest = [LEAST if budget is None else budget for budget in fixed]
    check(block, lowest)
    entry = block.entry
    budgets = fixed
    if any(needs[place] > entry for place in open_) or block.total(fixed) > block.pool:
        wanted = [min(max(limits.allotted(need), LEAST), MOST) for need in needs]
        enough = _raised(block, lowest, {place: wanted[place] for place in open_})
        hungry = [place for place in open_ if needs[place] > entry]
        budgets = tuple(_raised(block, enough, dict.fromkeys(hungry, MOST)))
        check(block, budgets)
    return tuple(None if budget == entry else budget for budget in budgets)


def _raised(block: Block, budgets: Sequence[int], limits: Mapping[int, int]) -> list[int]:
    """Budgets raised step by step, the lowest first, up to limits by place or the pool's end."""
    result = list(budgets)
    left = block.pool - block.total(result)
    costs = [STEP * each.threads for each in block.allotments]
    while able := [p for p, limit in limits.items() if result[p] < limit and costs[p] <= left]:
        place = min(able, key=lambda p: result[p])
        result[place] += STEP
        left -= costs[place]
    return result


def check(block: Block, budgets: Sequence[int | None]) -> None:
    """Refuse budgets that `setmaxnreg` cannot set, or that the pool can never grant.

    Args:
        budgets: of each allotment; None keeps what the launch gives.

    Raises:
        ScheduleError: WS0231 out of range, WS0232 no multiple of 8, WS0233 for a part of a warp
            group, WS0234 where all together are more than the block has, WS0230 for a block that
            is too large.
    """
    if all(budget is None for budget in budgets):
        return
    for allotment, budget in zip(block.allotments, budgets, strict=True):
        if budget is not None:
            check_budget(str(allotment), budget)
        if allotment.threads % GROUP_THREADS:
            raise ScheduleError(
                f"{allotment}: {allotment.threads} threads are no multiple of {GROUP_THREADS}, and "
                "the four warps of a warp group change their registers together",
                code="WS0233",
                remedy=f"use {_whole_groups(allotment.threads)} threads, or registers='off'",
            )
    total, pool, entry = block.total(budgets), block.pool, block.entry
    if total > pool:
        each = ", ".join(
            f"{allotment} {allotment.threads} x "
            f"{block.limits.allotted(entry if budget is None else budget)}"
            for allotment, budget in zip(block.allotments, budgets, strict=True)
        )
        raise ScheduleError(
            f"registers of the roles cannot fit: {each} are {total}, and a block of "
            f"{block.threads} threads has {pool}, {entry} a thread",
            code="WS0234",
            remedy=_remedy(block, budgets),
        )


def check_budget(whose: str, budget: int) -> None:
    """Refuse a number that no `setmaxnreg` takes: ScheduleError WS0231 or WS0232."""
    if not LEAST <= budget <= MOST:
        raise ScheduleError(
            f"{budget} registers for {whose}: setmaxnreg takes {LEAST} to {MOST}",
            code="WS0231",
            remedy=f"use {LEAST if budget < LEAST else MOST}, or let them be derived",
        )
    if budget % STEP:
        raise ScheduleError(
            f"{budget} registers for {whose}: setmaxnreg takes multiples of {STEP}",
            code="WS0232",
            remedy=f"use {budget // STEP * STEP} or {-(-budget // STEP) * STEP}",
        )


def change(budget: int | None, entry: int) -> str:
    """The instruction that leads from the count at entry to a budget: `dec`, `inc`, or none.

    ptxas takes a `dec` to more, or an `inc` to less, without a word; what it does is undefined.
    """
    if budget is None or budget == entry:
        return ""
    return "dec" if budget < entry else "inc"


def _whole_groups(threads: int) -> str:
    below = threads // GROUP_THREADS * GROUP_THREADS
    return f"{below} or {below + GROUP_THREADS}" if below else str(GROUP_THREADS)


def _remedy(block: Block, budgets: Sequence[int | None]) -> str:
    """What the greediest allotment can have if the others keep theirs, where that is legal."""
    numbers = [block.entry if budget is None else budget for budget in budgets]
    greediest = max(range(len(numbers)), key=lambda place: numbers[place])
    allotment = block.allotments[greediest]
    excess = block.total(budgets) - block.pool
    fitting = (numbers[greediest] - -(-excess // allotment.threads)) // STEP * STEP
    if fitting < LEAST:
        return "give each role less, or let budgets be derived"
    return f"give {allotment} {fitting} or fewer, or the others less"
