"""Roles and rings of a kernel in numbers, for those who read `explain` and docs/roles.md."""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.ir import integers
from warpsmith.ir.scalar import Expr, evaluate
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.pipelines import By, Pipeline, with_contents
from warpsmith.kernel.rings import InitBarriers
from warpsmith.kernel.traversal import walk
from warpsmith.protocol.launched import launch_values
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRow:
    """One role in one launch.

    Attributes:
        kind: what its agent does: `copy`, `multiply`, `compute` or `store`.
        first_warp, last_warp: of the block.
        threads: that run the role's body, of all groups together; 1 in a role of one elected
            thread.
        groups: that take turns and do not meet.
        barriers: ids of the named barriers of its groups, and then of all together; none where
            threads never meet.
        registers: of a thread.
    """

    name: str
    kind: str
    first_warp: int
    last_warp: int
    threads: int
    groups: int
    barriers: tuple[int, ...]
    registers: int

    @property
    def warps(self) -> str:
        """`warp 2` or `warps 4 to 7`."""
        if self.first_warp == self.last_warp:
            return f"warp {self.first_warp}"
        return f"warps {self.first_warp} to {self.last_warp}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RingRow:
    """One ring in one launch.

    Attributes:
        stages: how many there are.
        stage_bytes: of each buffer of one stage, by its name.
        producer, consumers: names of roles; empty in a kernel without roles.
        groups: of the consumer that own stages in turn.
        full, empty: arrivals that end a phase; `empty` is 0 for a stage that is filled once, or
            that is free `around`, where blocks meet when stages come round.
        shared: buffers that blocks of a cluster fill for each other, with how, and how many do.
    """

    name: str
    stages: int
    stage_bytes: tuple[tuple[str, int], ...]
    producer: str
    consumers: tuple[str, ...]
    groups: int
    full: int
    empty: int
    shared: tuple[tuple[str, str, int], ...] = ()
    around: bool = False


def role_rows(kernel: Kernel, values: Mapping[str, int], registers: int) -> tuple[RoleRow, ...]:
    """The roles in the order of their warps; none in a kernel without roles.

    Args:
        values: of sizes and of the launch's other scalars.
        registers: of a thread of a role that has no number of its own.
    """
    known = launch_values(kernel, values, (0, 0, 0))
    roles = [branch.agent for branch in kernel.body if isinstance(branch, Branch)]
    ordered = sorted(roles, key=lambda agent: agent.first_warp)
    return tuple(_role_row(agent, known, registers) for agent in ordered)


def ring_rows(kernel: Kernel, values: Mapping[str, int]) -> tuple[RingRow, ...]:
    """The rings that have barriers of their own, with or without roles."""
    known = launch_values(kernel, values, (0, 0, 0))
    sizes = {buffer.name: buffer.dtype.size for buffer in kernel.shared}
    arrivals = _arrivals(kernel, known)
    return tuple(
        _ring_row(pipeline, sizes, arrivals, known) for pipeline in with_contents(kernel.pipelines)
    )


def order_lines(kernel: Kernel) -> list[str]:
    """`compute_main: 2 groups of compute, one after the other`, for each hand-off of groups."""
    return [
        f"{each.name}: {each.groups.count} groups of {each.producer}, one after the other"
        for each in kernel.pipelines
        if not each.contents
    ]


def role_line(row: RoleRow) -> str:
    """`load: copy, warp 0, one thread, 40 registers`."""
    words = [row.kind, row.warps, "one thread" if row.threads == 1 else f"{row.threads} threads"]
    if row.groups > 1:
        words.append(f"{row.groups} groups")
    words.append(f"{row.registers} registers")
    if row.barriers:
        listing = ", ".join(map(str, row.barriers))
        words.append(f"named barrier{'s' if len(row.barriers) > 1 else ''} {listing}")
    return f"{row.name}: {', '.join(words)}"


def ring_line(row: RingRow) -> str:
    """`ring0: 3 stages of 2048 bytes (T4), load to compute, 1 arrival at full, 4 at empty`."""
    size = sum(amount for _, amount in row.stage_bytes)
    names = ", ".join(name for name, _ in row.stage_bytes)
    plural = "s" if row.stages > 1 else ""
    words = [f"{row.stages} stage{plural} of {size} bytes ({names})"]
    if row.producer:
        words.append(f"{row.producer} to {' and '.join(row.consumers)}")
    if row.groups > 1:
        words.append(f"{row.groups} groups in turn")
    words.append(f"{row.full} arrival{'s' if row.full != 1 else ''} at full")
    once = "free where blocks meet" if row.around else "filled once"
    words.append(f"{row.empty} at empty" if row.empty else once)
    words += [f"{name} by {how} to {blocks} blocks" for name, how, blocks in row.shared]
    return f"{row.name}: {', '.join(words)}"


def _role_row(agent: Agent, known: Mapping[str, int], registers: int) -> RoleRow:
    threads = 1 if agent.elected else _value(agent.threads, known)
    return RoleRow(
        name=agent.name,
        kind=agent.kind.value,
        first_warp=agent.first_warp,
        last_warp=agent.first_warp + max(-(-threads // WARP), 1) - 1,
        threads=threads,
        groups=agent.groups,
        barriers=tuple(agent.barriers),
        registers=registers if agent.registers is None else agent.registers,
    )


def _ring_row(
    ring: Pipeline, sizes: Mapping[str, int], arrivals: Mapping[str, int], known: Mapping[str, int]
) -> RingRow:
    return RingRow(
        name=ring.name,
        stages=ring.stages,
        stage_bytes=tuple(
            (each.name, _value(integers.index(each.elements), known) * sizes[each.name])
            for each in ring.contents
        ),
        producer=ring.producer,
        consumers=tuple(filter(None, ring.consumers)),
        groups=ring.owners,
        full=arrivals[ring.full.name],
        empty=arrivals[ring.empty.name] if ring.empty is not None else 0,
        shared=tuple(
            (c.name, "multicast" if ring.by is By.TMA else ring.by.value, len(c.sharing[0]))
            for c in ring.contents
            if c.sharing
        ),
        around=ring.reused and ring.empty is None,
    )


def _arrivals(kernel: Kernel, known: Mapping[str, int]) -> dict[str, int]:
    """By name of a barrier, how often a phase is arrived at."""
    threads = _value(integers.mul(*kernel.launch.block), known)
    return {
        buffer.name: -(-threads // WARP) if count is None else _value(count, known)
        for statement in walk(kernel.body)
        if isinstance(statement, InitBarriers)
        for buffer, count in statement.arrivals
    }


def _value(expr: Expr, known: Mapping[str, int]) -> int:
    return int(evaluate(expr, known))
