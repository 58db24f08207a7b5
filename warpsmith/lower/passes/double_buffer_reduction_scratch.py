"""Let reductions across threads write their scratch without barrier before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field, replace
from functools import partial

from warpsmith.ir import integers
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, For, Statement, Synchronize
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.rings import Advance, Begin, Cursor, InitBarriers
from warpsmith.kernel.traversal import map_bodies, walk, with_body
from warpsmith.values import dataclass


def double_buffer_reduction_scratch(kernel: Kernel) -> Kernel:
    """Give reductions scratch that nobody reads any more.

    A reduction across warps has its threads meet between the writes of its scratch and the reads.
    So that no thread writes while a slower one still reads what the time before left there, they
    would have to meet before, too. One that runs once needs no such barrier; one in a loop takes
    two halves of its scratch in turn, since whoever writes a half the next time has met all others
    in the other half's barrier, which they come to after their reads.

    Before::

        for i: { ..;  meet;  reduce T1 with T1_scratch[0 .. n] }

    After::

        begin T1_half
        for i: { ..;  reduce T1 with T1_scratch[T1_half_phase * n ..];  advance T1_half }

    Reductions across the grid stay as they are.
    """
    found = [s for s in walk(kernel.body) if isinstance(s, Reduce) and not s.lanes]
    uses = Counter(reduce.scratch.name for reduce in found)
    once = {name for name, count in uses.items() if count == 1}
    halves = _Halves(once)
    if kernel.branches:
        made = kernel.map_branches(
            lambda b: with_body(b, _whole(b.body, replace(halves, groups=b.agent.groups)))
        )
    else:
        made = kernel.with_body(_whole(kernel.body, halves))
    shared = tuple(halves.made.get(buffer.name, buffer) for buffer in kernel.shared)
    return kernel if made is kernel else replace(made, shared=shared)


@dataclass(slots=True)
class _Halves:
    """The reductions of one role, or of the block.

    Attributes:
        once: names of the scratch that one reduction alone uses.
        groups: of the role's warps, each with a part of the scratch.
        made: scratch of two halves by name; those of all roles.
        cursors: of the reductions that take halves in turn.
    """

    once: set[str]
    groups: int = 1
    made: dict[str, Buffer] = field(default_factory=dict)
    cursors: list[Cursor] = field(default_factory=list)

    def statements(self, statements: Sequence[Statement], *, inside: bool) -> tuple[Statement, ...]:
        """A list with its reductions changed; `inside` tells that it may run more than once."""
        result: list[Statement] = []
        for statement in statements:
            if isinstance(statement, Reduce) and self._is_alone(statement):
                result += self._reduce(statement) if inside else [_alone(statement)]
                continue
            again = inside or isinstance(statement, For)
            result.append(map_bodies(statement, partial(self.statements, inside=again)))
        return tuple(result)

    def _is_alone(self, reduce: Reduce) -> bool:
        """Whether no other reduction has the same scratch."""
        return not (reduce.grid_axes or reduce.lanes) and reduce.scratch.name in self.once

    def _reduce(self, reduce: Reduce) -> list[Statement]:
        cursor = Cursor(f"{reduce.buffers[0].name}_half", 1)
        self.cursors.append(cursor)
        scratch = replace(reduce.scratch, size=integers.mul(reduce.scratch.size, 2))
        self.made[scratch.name] = scratch
        half = integers.floordiv(reduce.scratch.size, self.groups)
        fresh = integers.mul(cursor.phase, half)
        return [replace(reduce, scratch=scratch, fresh=fresh), Advance(cursor)]


def _alone(reduce: Reduce) -> Reduce:
    fresh: Expr = integers.ZERO
    return replace(reduce, fresh=fresh)


def _whole(statements: tuple[Statement, ...], halves: _Halves) -> tuple[Statement, ...]:
    """A body with its reductions changed, behind the start of their cursors."""
    halves.cursors = []
    body = halves.statements(statements, inside=False)
    start = 0
    while start < len(body) and isinstance(body[start], InitBarriers | Synchronize):
        start += 1
    return (*body[:start], *map(Begin, halves.cursors), *body[start:])
