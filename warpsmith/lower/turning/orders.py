"""Sections that the groups of a role run one after the other."""

from __future__ import annotations

from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Expr
from warpsmith.kernel.nodes import Buffer
from warpsmith.kernel.rings import Advance, ArriveByWarp, Await, Begin, Cursor
from warpsmith.kernel.roles import THREADS, Branch, Section
from warpsmith.kernel.traversal import walk
from warpsmith.lower.turning.loads import barriers
from warpsmith.lower.turning.parts import Statements


class Orders:
    """The sections of one role, each with a barrier a group.

    A group waits at its own barrier, at which the group before it arrives when it is done. The
    first group passes its barrier once for nothing: it goes by the phase before.
    """

    def __init__(self, branch: Branch) -> None:
        self._role = branch.role
        sections = (s.name for s in walk(branch.body) if isinstance(s, Section))
        self._turns = {name: self._barriers(name) for name in dict.fromkeys(sections)}

    @property
    def arrivals(self) -> list[tuple[Buffer, Expr]]:
        """The barriers of the sections, and how often a phase of each is arrived at."""
        return [(buffer, self._role.group_warps) for buffer in self._turns.values()]

    def begin(self) -> Statements:
        return tuple(Begin(self._cursor(name)) for name in self._turns)

    def ordered(self, name: str, statements: Statements) -> Statements:
        """A section between the wait for the group before and the hand-off to the next one."""
        assert self._role.groups_along is not None
        group = THREADS[BLOCK_TYPES.index(self._role.groups_along)]
        phase = self._cursor(name).phase
        first = Apply("eq", (group, integers.ZERO), DataType.Bool)
        parity = Apply("where", (first, integers.sub(1, phase), phase), DataType.Index)
        after = integers.mod(integers.add(group, 1), self._role.groups)
        buffer = self._turns[name]
        return (
            Await(buffer, group, parity),
            *statements,
            ArriveByWarp(buffer, after),
            Advance(self._cursor(name)),
        )

    def _cursor(self, name: str) -> Cursor:
        return Cursor(f"{self._role.name}_{name}", 1)

    def _barriers(self, name: str) -> Buffer:
        return barriers(f"{self._role.name}_{name}_turn", self._role.groups)
