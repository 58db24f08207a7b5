"""What the elected thread does, as its whole warp runs it.

A branch that one lane takes is a divergence region: ptxas closes it with BSSY and BSYNC, and keeps
what is computed inside, and cursors that go through it, out of uniform registers. A branch that a
whole warp takes is none. So the warp of the elected thread waits, fences, commits and awaits
copies together, which says nothing new for lanes that ask for nothing, and only what may happen
once has the elected lane as its predicate. Copies of the TMA unit lose that predicate in machine
code, since a warp issues them once (docs/lessons/uniform.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.clock import AwaitClock, StartClock
from warpsmith.kernel.elected import ELECTED_WARP, ByLane, Converge, CopyIf
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Comment, For, If, Let, Statement
from warpsmith.kernel.rings import (
    ELECTED,
    Arrive,
    Await,
    AwaitCopies,
    CommitCopies,
    Expect,
    FenceProxy,
    TileCopy,
)
from warpsmith.kernel.traversal import children, map_bodies, walk

_PARENTS = For | If
_TOGETHER = (
    Comment | Let | StartClock | Await | AwaitClock | FenceProxy | CommitCopies | AwaitCopies
)
_ONCE = Expect | Arrive | TileCopy


def elect_by_warp(kernel: Kernel) -> Kernel:
    """The kernel with what is for the elected thread divided between its warp and its lane.

        if elected: { await; fence; expect; copy; commit }

    becomes

        if elected_warp: { await; fence; converge; by lane: expect; by lane: copy; commit }

    Statements that a warp may not run together leave the condition as it is. Nothing may depend
    on which thread is elected, so the lanes of its warp agree on conditions, extents and stages.
    """
    body = _rewritten(kernel.body)
    changed = any(new is not old for new, old in zip(body, kernel.body, strict=True))
    return replace(kernel, body=body) if changed else kernel


def _rewritten(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    return tuple(map(_divided, statements))


def _divided(statement: Statement) -> Statement:
    elects = isinstance(statement, If) and statement.condition == ELECTED
    if elects and _is_divisible(children(statement)):
        return If(ELECTED_WARP, tuple(_by_warp(children(statement))))
    return map_bodies(statement, _rewritten)


def _is_divisible(statements: tuple[Statement, ...]) -> bool:
    return all(isinstance(s, _PARENTS | _TOGETHER | _ONCE) for s in walk(statements))


def _by_warp(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    """The statements for a whole warp; it converges before a row of those that are for one lane."""
    for (once, condition), group in groupby(statements, _who_and_when):
        if once:
            alone = (Converge(), *map(_by_lane, group))
            yield from alone if condition == integers.TRUE else (CopyIf(condition, alone),)
            continue
        yield from (map_bodies(s, lambda body: tuple(_by_warp(body))) for s in group)


def _who_and_when(statement: Statement) -> tuple[bool, Expr]:
    """Whether it is for one lane, and the condition of a copy that is not always asked for.

    The warp branches by that condition: ptxas gives a copy behind both a predicate, and moves its
    operands to uniform registers lane by lane.
    """
    if isinstance(statement, TileCopy) and _may_be_left_out(statement):
        return True, statement.condition
    if isinstance(statement, For):
        always = (True, integers.TRUE)
        return all(_who_and_when(s) == always for s in statement.body), integers.TRUE
    return isinstance(statement, _ONCE), integers.TRUE


def _by_lane(statement: Statement) -> Statement:
    if isinstance(statement, For):
        return replace(statement, body=tuple(map(_by_lane, statement.body)))
    return ByLane((statement,))


def _may_be_left_out(copy: TileCopy) -> bool:
    """A load through a map is asked for whatever its condition: it counts its bytes anyway."""
    return copy.stores or copy.how is not LoadStoreOpType.tma
