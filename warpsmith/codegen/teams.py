"""How CUDA text names the threads that run a body, and how they meet."""

from __future__ import annotations

from warpsmith.codegen.values import ValueText
from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, ParallelType
from warpsmith.ir.scalar import Const, Expr
from warpsmith.kernel.agents import Agent
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.products import BY_WARPS
from warpsmith.kernel.rings import ArriveByWarp
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass

BARRIERS = 16
"""Of a block; number 0 is that of all its threads."""


@dataclass(frozen=True, slots=True)
class Team:
    """Threads that run a body together: those of a block, or of one group of a role.

    Attributes:
        thread: number of a thread, x fastest.
        threads: how many there are.
        extents: how many there are along x, y, z.
        dims: the same in C++, as numbers of type `int`.
        meeting: the statement by which they meet.
        place: the prelude's object that says so to reductions; empty for the whole block.
        pieces: of the prelude that these need.
        group, groups: number of this group among those of its role, which reduce apart.
        apart: the axis along which groups are numbered.
        whole: all groups together, where they meet.
    """

    thread: str
    threads: str
    extents: tuple[Expr, Expr, Expr]
    dims: tuple[str, str, str]
    meeting: str
    place: str = ""
    pieces: frozenset[str] = frozenset()
    group: str = ""
    groups: int = 1
    apart: ParallelType | None = None
    whole: Team | None = None

    @property
    def release(self) -> str:
        """What `ws_barrier_release` takes besides the barrier."""
        return f", {self.thread}" if self.pieces else ""


def whole_block(kernel: Kernel, value: ValueText) -> Team:
    """All threads of the kernel's block."""
    x, y, z = (
        value(extent) if isinstance(extent, Const) else f"(int)blockDim.{kind.name[-1]}"
        for kind, extent in zip(BLOCK_TYPES, kernel.launch.block, strict=True)
    )
    extents = kernel.launch.block
    return Team("ws_thread()", "ws_threads()", extents, (x, y, z), "__syncthreads();")


def group_of(agent: Agent, value: ValueText) -> Team:
    """The threads of this thread's group, by the variables of `thread_lines`."""
    if not 0 <= agent.barrier <= BARRIERS - max(1, len(agent.barriers)):
        raise InternalError(
            f"{agent.name} has {agent.groups} groups, whose barriers from {agent.barrier} on are "
            f"not all among the {BARRIERS} of a block"
        )
    x, y, z = (_int(value, extent) for extent in agent.group_block)
    barrier = f"{agent.barrier} + group" if agent.groups > 1 else str(agent.barrier)
    threads = _int(value, integers.mul(agent.group_warps, WARP))
    meets = agent.barrier > 0
    meeting = f"ws_meet({barrier}, {threads});" if meets else ""
    return Team(
        thread="thread",
        threads=_int(value, agent.group_threads),
        extents=agent.group_block,
        dims=(x, y, z),
        meeting="__syncwarp();" if agent.is_warp else meeting,
        place=_place(agent.group_block, barrier, threads) if meets else "",
        pieces=frozenset({"meet"}),
        group="group" if agent.groups > 1 else "",
        groups=agent.groups,
        apart=agent.groups_along,
        whole=_whole_role(agent, value) if agent.common else None,
    )


def _whole_role(agent: Agent, value: ValueText) -> Team:
    """All groups of a role, whose axis is the slowest: the threads along x come first."""
    x, y, z = (_int(value, extent) for extent in agent.block)
    beside = [
        kind
        for kind, extent in zip(BLOCK_TYPES[1:], agent.block[1:], strict=True)
        if extent != integers.ONE and kind is not agent.groups_along
    ]
    if beside or agent.groups_along is BLOCK_TYPES[0]:
        raise InternalError(f"the threads of {agent.name} do not follow each other along x")
    threads = _int(value, agent.threads)
    return Team(
        thread=f"(thread + group * {_int(value, agent.group_threads)})",
        threads=threads,
        extents=agent.block,
        dims=(x, y, z),
        meeting=f"ws_meet({agent.common}, {threads});",
        place=_place(agent.block, str(agent.common), threads),
        pieces=frozenset({"meet"}),
    )


def _place(block: tuple[Expr, ...], barrier: str, threads: str) -> str:
    """What reductions are told of threads that meet at a barrier."""
    places = ", ".join(
        "0" if extent == integers.ONE else f"(int){kind.name}"
        for kind, extent in zip(BLOCK_TYPES, block, strict=True)
    )
    return f"ws_role_group{{{places}, {barrier}, {threads}}}"


def together(team: Team | None, statement: Statement) -> Team:
    """The team that a statement is for; an elected one is none."""
    what = type(statement).__name__
    if team is None:
        raise InternalError(f"{what} is for many threads, and stands in a role of one")
    meets = statement.collective and not isinstance(statement, (ArriveByWarp, *BY_WARPS))
    if meets and not team.meeting:
        raise InternalError(f"{what} stands in a role whose threads have no barrier to meet at")
    return team


def thread_lines(agent: Agent, value: ValueText, kind: str) -> list[str]:
    """Declares `thread`, and `group` where there are several, and block_x, block_y, block_z.

    Args:
        kind: C++ type of indices.
    """
    start = agent.first_warp * WARP
    lines: list[str] = []
    thread = f"threadIdx.x - {start}" if start else "threadIdx.x"
    if agent.groups > 1:
        threads = integers.constant(agent.group_threads)
        if threads is None or threads % WARP:
            raise InternalError(f"groups of {agent.name} are not made of whole warps")
        warp = f"(warp - {agent.first_warp})" if agent.first_warp else "warp"
        lines.append(f"const int group = {warp} / {threads // WARP};")
        thread += f" - group * {threads}"
    lines.append(f"const int thread = {thread};")
    axes = [
        (axis.name, extent)
        for axis, extent in zip(BLOCK_TYPES, agent.group_block, strict=True)
        if extent != integers.ONE
    ]
    below: Expr = integers.ONE
    for number, (name, extent) in enumerate(axes):
        index = "thread"
        if number:
            index = _by_warps(agent, below) or f"(unsigned)thread / {_unsigned(value, below)}"
        if number < len(axes) - 1:
            index = f"(unsigned){index}" if number == 0 else index
            index += f" % {_unsigned(value, extent)}"
        lines.append(f"const {kind} {name} = {index};")
        below = integers.mul(below, extent)
    if agent.groups > 1 and agent.groups_along is not None:
        lines.append(f"const {kind} {agent.groups_along.name} = group;")
    return lines


def _by_warps(agent: Agent, below: Expr) -> str:
    """The quotient of a thread's number by `below`, from its warp's; empty where warps are split.

    ptxas knows that a warp's number is equal in its lanes, and keeps what follows from it, such as
    where an operand of a product lies, in uniform registers.
    """
    threads = integers.constant(below)
    if threads is None or threads % WARP:
        return ""
    parts = ["warp", f"- {agent.first_warp}" if agent.first_warp else ""]
    parts.append(f"- group * {integers.constant(agent.group_warps)}" if agent.groups > 1 else "")
    number = f"(unsigned)({' '.join(filter(None, parts))})"
    return number if threads == WARP else f"{number} / {threads // WARP}u"


def _int(value: ValueText, expr: Expr) -> str:
    return value(expr) if isinstance(expr, Const) else f"(int){value.operand(expr)}"


def _unsigned(value: ValueText, expr: Expr) -> str:
    return f"{value(expr)}u" if isinstance(expr, Const) else f"(unsigned){value.operand(expr)}"
