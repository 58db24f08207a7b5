"""Agents of the roles of a fusion: their kinds, their warps, their named barriers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, MemoryType
from warpsmith.ir.exprs import Pointwise
from warpsmith.ir.fusion import Registers
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import Operation
from warpsmith.kernel.agents import Agent, Branch, Kind
from warpsmith.kernel.kernel import Budgets
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.products import Multiply, MultiplyByWarp
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.traversal import walk
from warpsmith.lower.threads import Threads
from warpsmith.targets.family import WARP, WARP_GROUP, Limits

FEW_PIECES = 4 * WARP
"""Of a tile that the TMA unit does not copy, for one warp: such as a number for each row of a
product's tile. A warp group for these would take registers that whoever multiplies needs."""


def kind_of(operations: Sequence[Operation], body: Sequence[Statement]) -> Kind:
    """What an agent does that runs these operations, which became this body."""
    if any(isinstance(statement, Multiply | MultiplyByWarp) for statement in walk(tuple(body))):
        return Kind.MULTIPLY
    if not all(isinstance(op, Pointwise) and op.op == "set" for op in operations):
        return Kind.COMPUTE
    made = [output for op in operations for output in op.outputs]
    fills = any(tensor.memory is MemoryType.shared for tensor in made)
    return Kind.COPY if fills else Kind.STORE


def agent_of(
    name: str, operations: Sequence[Operation], threads: Threads, body: Sequence[Statement]
) -> Agent:
    """The agent that runs the operations of a role, not yet placed among the others."""
    kind = kind_of(operations, body)
    x, y, z = (threads.extents.get(axis, integers.ONE) for axis in BLOCK_TYPES)
    if not all(op.outputs[0].copied_by.is_tma for op in operations):
        return Agent(name, 0, (x, y, z), threads.groups_along, kind=kind)
    tiles = [tile for tile in walk(tuple(body)) if isinstance(tile, TileCopy)]
    left = [_pieces(tile) for tile in tiles if not tile.how.is_tma]
    if not left:
        return Agent(name, 0, (x, y, z), elected=True, kind=kind)
    few = all(number is not None and number <= FEW_PIECES for number in left)
    x = integers.index((1 if few else WARP_GROUP) * WARP)
    return Agent(name, 0, (x, y, z), kind=kind)


def _pieces(tile: TileCopy) -> int | None:
    """Copies of single threads that a tile is, where it is known."""
    elements = integers.constant(tile.elements)
    return None if elements is None else elements * tile.memory.dtype.size // tile.width


def block_of(agents: Iterable[Agent]) -> tuple[Expr, Expr, Expr]:
    """Threads of the block along x, y, z: all lie along x."""
    end: Expr = integers.ZERO
    for agent in agents:
        if agent.elected or agent.first_warp % WARP_GROUP:  # those of a warp group begun by one
            groups = agent.first_warp // WARP_GROUP + 1
            end = integers.index(groups * WARP_GROUP * WARP)
        else:
            end = integers.add(agent.first_warp * WARP, agent.threads)
    return end, integers.ONE, integers.ONE


def budgets_of(registers: Registers) -> Budgets | None:
    """What is wished of the roles' registers; None leaves them what the launch gives."""
    if registers == "off":
        return None
    if registers == "auto":
        return Budgets()
    if isinstance(registers, Mapping):
        return Budgets(roles=tuple(registers.items()))
    return Budgets(pair=registers)


def laid_out(found: Sequence[Branch], limits: Limits) -> tuple[Statement, ...]:
    """Elected threads first, a warp each, then agents of many threads, with their named barriers.

    Those of few warps that only move have idle ones of the warp group that elected threads begin,
    which needs as few registers.

    Raises:
        ScheduleError: WS0253 where threads cannot be laid out, WS0254 where named barriers run out.
    """
    elected = [branch for branch in found if branch.agent.elected]
    many = sorted(
        (branch for branch in found if not branch.agent.elected),
        key=lambda branch: not _is_whole(branch.agent),
    )
    placed: list[Branch] = []
    for warp, branch in enumerate(elected):
        placed.append(replace(branch, agent=replace(branch.agent, first_warp=warp)))
    first, barrier, begun = len(elected), 1, -len(elected) % WARP_GROUP
    few = next((branch for branch in many if _few_warps(branch.agent) in range(1, begun + 1)), None)
    if few is not None:
        placed.append(
            replace(few, agent=replace(few.agent, first_warp=len(elected), barrier=barrier))
        )
        barrier += 1
        many.remove(few)
    first += begun
    for position, branch in enumerate(many):
        agent = replace(branch.agent, first_warp=first, barrier=barrier)
        _check_groups(agent)
        placed.append(replace(branch, agent=agent))
        threads = integers.constant(agent.threads)
        if position < len(many) - 1:
            if threads is None or threads % WARP:
                raise ScheduleError(
                    f"role `{agent.name}` has {agent.threads!r} threads, and so has "
                    f"`{many[-1].agent.name}`: of several roles of many threads only one may have "
                    "other than whole warps, known when the kernel is compiled",
                    code="WS0253",
                    remedy=f"bind a multiple of {WARP} iterations to the block",
                )
            warps = threads // WARP
            first += WARP_GROUP * -(-warps // WARP_GROUP)
        if _meets_as_a_whole(branch):
            agent = replace(agent, common=barrier + agent.groups)
            placed[-1] = replace(branch, agent=agent)
        barrier = agent.barriers.stop
    if barrier > limits.named_barriers:
        groups = ", ".join(f"`{b.agent.name}` {b.agent.groups}" for b in many)
        raise ScheduleError(
            f"the groups of roles ({groups}) need {barrier - 1} named barriers, and a block has "
            f"{limits.named_barriers - 1} besides its own",
            code="WS0254",
            remedy="use fewer groups or roles",
        )
    return tuple(placed)


def _few_warps(agent: Agent) -> int:
    """Warps of an agent that only moves, without groups that take turns; 0 of others."""
    threads = integers.constant(agent.threads) if agent.kind.moves and agent.groups == 1 else None
    return 0 if threads is None or threads % WARP else threads // WARP


def _meets_as_a_whole(branch: Branch) -> bool:
    """Whether something is reduced across the groups of an agent."""
    along = branch.agent.groups_along
    reduces = (s for s in walk(branch.body) if isinstance(s, Reduce))
    return branch.agent.groups > 1 and any(along in reduce.block_axes for reduce in reduces)


def _is_whole(agent: Agent) -> bool:
    """Whether the agent's threads are whole warps, as many as is known."""
    threads = integers.constant(agent.threads)
    return threads is not None and threads % WARP == 0


def _check_groups(agent: Agent) -> None:
    threads = integers.constant(agent.group_threads)
    if agent.groups > 1 and (threads is None or threads % WARP):
        raise ScheduleError(
            f"{agent.groups} groups of role `{agent.name}` take turns, each of "
            f"{agent.group_threads!r} threads, which are not whole warps",
            code="WS0253",
            remedy=f"bind a multiple of {WARP} iterations to the other axes of the block",
        )
