"""Registers of a kernel's roles, derived from what the code of each needs.

nvFuser shares registers by a formula over thread counts. Here each role is compiled alone, with as
many registers as a thread can have; what ptxas then uses is what it needs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from warpsmith.codegen.cuda import cuda_text
from warpsmith.codegen.roles import Bundle, branches_of, bundles
from warpsmith.errors import CompileError, ScheduleError, SpillWarning
from warpsmith.ir import integers
from warpsmith.ir.scalar import Symbol
from warpsmith.kernel.kernel import Budgets, Kernel, Launch
from warpsmith.protocol.registers import GROUP_THREADS, Allotment, Block, check, rebalance
from warpsmith.runtime.nvrtc import serialized
from warpsmith.runtime.source import Binary, Source
from warpsmith.runtime.turns import given_up
from warpsmith.targets.family import WARP
from warpsmith.targets.target import Target
from warpsmith.values import dataclass

Compile = Callable[[Source], Binary]
"""Compiles one kernel, or finds it in a cache; called from several threads at once."""

_MOST_COMPILERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A kernel whose roles have their registers.

    Attributes:
        note: what was decided and why, in one line; empty where there is nothing to decide.
    """

    kernel: Kernel
    note: str = ""


def settle_registers(
    kernel: Kernel, compile_: Compile, target: Target, *, text: str = ""
) -> Settled:
    """Give the roles of a kernel, of this CUDA if it is known, the registers that `kernel.budgets`
    wishes for.

    Where they are to be derived, the kernel is first compiled as it is. If it fits what the launch
    gives every thread, budgets could gain nothing and there are none. Else the code of each warp
    group's roles is compiled alone, all at the same time.

    Raises:
        ScheduleError: WS0230 to WS0234 for budgets that the hardware does not have, WS0235 for a
            role that is none, WS0236 for two budgets in one warp group, WS0237 for budgets in a
            block whose threads only the launch knows.
    """
    parts = warp_groups(kernel)
    if not parts:
        return Settled(kernel=kernel)
    block = _block(kernel, parts, target)
    if kernel.budgets is None:
        _check_as_they_are(block, parts)
        return Settled(kernel=kernel)
    given = _given(kernel.budgets, parts)
    if block is None:
        if any(given):
            raise _unknown_threads(parts)
        return Settled(kernel=kernel, note="as launched: threads are not known before the launch")
    plain = _with_registers(kernel, parts, (None,) * len(parts))
    starved = False
    if not any(given):
        text = text if plain is kernel and text else cuda_text(plain, target)
        reason, starved = _why_no_budgets(plain, text, block, compile_, target)
        if reason:
            return Settled(kernel=plain, note=reason)
    needs = (0,) * len(parts) if all(given) else role_registers(plain, compile_, target)
    wanted = needs
    if starved and max(needs) <= block.entry:  # what none needs alone, some need beside the others
        wanted = tuple(block.entry + 1 if need == max(needs) else need for need in needs)
    budgets = rebalance(block, wanted, given)
    settled = _with_registers(kernel, parts, budgets)
    return Settled(kernel=settled, note=_in_words(block, needs, given, budgets))


def role_registers(kernel: Kernel, compile_: Compile, target: Target) -> tuple[int, ...]:
    """Registers of a thread that the roles of each warp group need, compiled without the others."""
    parts = warp_groups(kernel)
    sources = [_alone(kernel, parts, number, target) for number in range(len(parts))]
    with given_up(), ThreadPoolExecutor(min(len(sources), _MOST_COMPILERS)) as pool:
        return tuple(binary.registers for binary in pool.map(compile_, sources))


def warn_of_spills(
    kernel: Kernel, binary: Binary, compile_: Compile, target: Target, harmless: int = 0
) -> None:
    """Warn, with SpillWarning, where a kernel with roles keeps registers in memory.

    Names the roles that need more registers than they have; where it is not known what they need,
    they are compiled alone.

    Args:
        harmless: bytes that are let pass, where a scheduler chose what threads have.
    """
    parts = warp_groups(kernel)
    if not parts or binary.spill_bytes <= harmless:
        return
    block = _block(kernel, parts, target)
    entry = binary.registers if block is None else block.entry
    each = zip(parts, role_registers(kernel, compile_, target), strict=True)
    short = [
        f"{_allotment(part)} needs {need} registers and has {part.registers or entry}"
        for part, need in each
        if need > (part.registers or entry)
    ]
    reason = "; ".join(short) or "no role alone needs more registers than it has"
    remedy = (
        "warp_specialize=False may be faster; please report it."
        if harmless
        else "Give such a role smaller tiles or more warp groups, or the others fewer registers."
    )
    warnings.warn(
        f"kernel `{kernel.name}` spills {binary.spill_bytes} bytes a thread: {reason}. {remedy}",
        SpillWarning,
        stacklevel=3,
    )


# --- what a kernel's roles are -----------------------------------------------------------------


def warp_groups(kernel: Kernel) -> tuple[Bundle, ...]:
    """The warp groups of a kernel's roles, by who shares them; none without roles."""
    threads = integers.constant(integers.mul(*kernel.launch.block))
    return bundles(branches_of(kernel), None if threads is None else -(-threads // WARP))


def _block(kernel: Kernel, parts: tuple[Bundle, ...], target: Target) -> Block | None:
    """What the warp groups have, where their threads are known."""
    threads = integers.constant(integers.mul(*kernel.launch.block))
    if threads is None:
        return None
    before = parts[-1].start * WARP
    last = replace(_allotment(parts[-1]), threads=threads - before)
    allotments = (*map(_allotment, parts[:-1]), last)
    blocks = kernel.launch.blocks_per_sm
    return Block(allotments=allotments, limits=target.family.limits, blocks_per_sm=blocks)


def _allotment(part: Bundle) -> Allotment:
    names = tuple(branch.agent.name for branch in part.branches)
    return Allotment(roles=names, threads=((part.end or part.start) - part.start) * WARP)


def _given(wish: Budgets, parts: tuple[Bundle, ...]) -> tuple[int | None, ...]:
    """The budget of each part that the wish names."""
    named = dict(wish.roles)
    known = [branch.agent.name for part in parts for branch in part.branches]
    for name in named:
        if name not in known:
            raise ScheduleError(
                f"registers are given for `{name}`, which is no role of this kernel",
                code="WS0235",
                remedy=f"its roles are {', '.join(known)}",
            )
    result: list[int | None] = []
    for part in parts:
        moves = any(branch.agent.kind.moves for branch in part.branches)
        numbers = [named[b.agent.name] for b in part.branches if b.agent.name in named]
        if wish.pair is not None and not numbers:
            numbers = [wish.pair[0] if moves else wish.pair[1]]
        if len(set(numbers)) > 1:
            raise ScheduleError(
                f"{_allotment(part)} are given {' and '.join(map(str, numbers))} registers, and "
                "share a warp group, whose warps change their registers together",
                code="WS0236",
                remedy=f"give all of them {max(numbers)}",
            )
        result.append(numbers[0] if numbers else None)
    return tuple(result)


def _check_as_they_are(block: Block | None, parts: tuple[Bundle, ...]) -> None:
    budgets = tuple(part.registers for part in parts)
    if block is not None:
        check(block, budgets)
    elif any(budgets):
        raise _unknown_threads(parts)


def _unknown_threads(parts: tuple[Bundle, ...]) -> ScheduleError:
    return ScheduleError(
        f"registers are given, and only the launch knows the threads of {_allotment(parts[-1])}",
        code="WS0237",
        remedy="split its loops by constants, or use registers='off'",
    )


# --- other kernels of the same roles -----------------------------------------------------------


def _with_registers(
    kernel: Kernel, parts: tuple[Bundle, ...], budgets: tuple[int | None, ...]
) -> Kernel:
    """The kernel with a budget for each part, and the launch bound that `setmaxnreg` needs; itself
    where it is that kernel.
    """
    numbers = {
        branch.agent.name: budget
        for part, budget in zip(parts, budgets, strict=True)
        for branch in part.branches
    }
    made = kernel.map_branches(
        lambda b: (
            b
            if b.agent.registers == numbers[b.agent.name]
            else replace(b, agent=replace(b.agent, registers=numbers[b.agent.name]))
        )
    )
    launch = kernel.launch
    if any(budgets):
        launch = replace(launch, blocks_per_sm=max(launch.blocks_per_sm, 1))
    return made if launch is kernel.launch else replace(made, launch=launch)


def _alone(kernel: Kernel, parts: tuple[Bundle, ...], number: int, target: Target) -> Source:
    """One part's code, in a launch that bounds no registers.

    A launch whose threads are not known has no bound. One of 128 threads would have one, but then
    the compiler knows that there are no other warps, and drops their code.
    """
    kept = parts[number].branches
    made = kernel.map_branches(
        lambda b: replace(
            b, agent=replace(b.agent, registers=None), body=b.body if b in kept else ()
        )
    )
    block = (Symbol("threads", low=1), integers.ONE, integers.ONE)
    launch = Launch(kernel.launch.grid, block, cluster=kernel.launch.cluster)
    name = "alone"  # one for all, so that equal code is compiled once
    alone = replace(made, name=name, notes=(), launch=launch)
    return Source(text=cuda_text(alone, target), entry=name, arch=target.family.arch)


def _why_no_budgets(
    plain: Kernel, text: str, block: Block, compile_: Compile, target: Target
) -> tuple[str, bool]:
    """Why budgets could gain nothing, empty where they may; and whether it spills, or products are
    serialized, without.
    """
    entry = block.entry
    if block.threads % GROUP_THREADS:
        return f"as launched: {block.threads} threads are no whole warp groups", False
    if entry == block.limits.thread_registers:
        return f"as launched: every thread has {entry} registers, and none can use more", False
    try:
        binary = compile_(Source(text=text, entry=plain.name, arch=target.family.arch))
    except CompileError:  # some instructions cannot do with so few
        return "", True
    starved = binary.spill_bytes > 0 or serialized(binary.log)
    if binary.registers >= entry or starved:
        return "", starved
    return f"as launched: every thread has {entry} registers, and {binary.registers} suffice", False


def _in_words(
    block: Block,
    needs: tuple[int, ...],
    given: tuple[int | None, ...],
    budgets: tuple[int | None, ...],
) -> str:
    entry = block.entry
    lines = []
    for part, need, wish, budget in zip(block.allotments, needs, given, budgets, strict=True):
        reason = "as said" if wish is not None else f"needs {need}"
        lines.append(f"{part} {entry if budget is None else budget} ({reason})")
    return f"{', '.join(lines)}; {entry} at entry"
