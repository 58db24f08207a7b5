"""Software pipelining: the loops of one agent fill stages some iterations before they use them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace

from warpsmith.ir import integers
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.kernel.nodes import For, If, Statement
from warpsmith.kernel.pipelines import By, Pipeline
from warpsmith.kernel.rings import Cursor
from warpsmith.kernel.tile_scheduler import WithTile
from warpsmith.kernel.traversal import replace_symbols
from warpsmith.lower.pipelines.in_place import InPlace
from warpsmith.lower.pipelines.role_pipelines import alike, as_one
from warpsmith.lower.pipelines.stages import (
    Statements,
    accesses,
    drained,
    filled,
    only_fills,
    without_fills,
)
from warpsmith.values import dataclass

UNROLL_LIMIT = 64
"""Loops of so many iterations are unrolled whole where a stage in registers is to be known."""


@dataclass(slots=True)
class Loops:
    """Puts the verbs of pipelines in place into one body, inner loops first.

    A loop of `n` iterations, with a pipeline of three stages and a prefetch of two, becomes::

        for ip < min(n, 2):  acquire;  fill;  commit;  advance fill
        for i < n:
            if i + 2 < n:  acquire;  fill, for iteration i + 2;  commit;  advance fill
            wait;  use;  release;  advance use

    The last two iterations are the epilogue: nothing is left to be filled. A loop shorter than the
    prefetch fills no more than it uses, so that at the end of every loop all that was asked for has
    been waited for. Where the loop itself is repeated, the first fills wait for free stages, too.

    Attributes:
        given: pipelines by the names that statements use, each with one buffer.
        used: pipelines so far, of all bodies of the kernel.
        pipelines: those that were put in place, joined where they are filled and used together.
        cursors: what the body starts with.
    """

    given: Mapping[str, Pipeline]
    used: int = 0
    pipelines: list[Pipeline] = field(default_factory=list)
    cursors: list[Cursor] = field(default_factory=list)

    def taken(self) -> tuple[list[Cursor], list[Pipeline]]:
        """The cursors and pipelines since the last time."""
        taken = self.cursors, self.pipelines
        self.cursors, self.pipelines = [], []
        return taken

    def statements(
        self, statements: Statements, claimed: frozenset[str] = frozenset(), *, inside: bool = False
    ) -> Statements:
        """A list with its verbs, save those of pipelines `claimed` by a loop around it.

        `inside` tells that the list runs more than once.
        """
        result: list[Statement] = []
        for statement in statements:
            if isinstance(statement, For):
                names = claimed | set(statement.pipelines)
                body = self.statements(statement.body, names, inside=True)
                statement = replace(statement, body=body)
            elif isinstance(statement, WithTile) or (
                isinstance(statement, If) and statement.uniform
            ):
                body = self.statements(statement.body, claimed, inside=inside)
                statement = replace(statement, body=body)
            if isinstance(statement, For) and statement.pipelines:
                result += self._loop(statement, inside=inside)
            else:
                result.append(statement)
        return self._once(tuple(result), claimed, inside)

    # --- loops ---------------------------------------------------------------------------------

    def _loop(self, loop: For, *, inside: bool) -> Statements:
        """A loop that names its pipelines, with their prologue; `inside` as above."""
        names = [name for name in filled(loop.body) if name in loop.pipelines]
        joined = self._joined(self.given[name] for name in names)
        found = [self._filled(pipeline, loop.body) for pipeline in joined]
        rest = without_fills(loop.body, names)
        stored = (name for name in drained(rest) if name in loop.pipelines and name not in names)
        found += [self._drained(self.given[name]) for name in stored]
        found.sort(key=_rank)
        for each in found:
            rest = each.consumed(rest, loop.symbol)
        body = [s for each in found for s in each.carry()]
        body += [*_ahead(loop, found), *rest]
        body += [s for each in found for s in each.advance()]
        turned = replace(loop, body=tuple(body), pipelines=())
        prologue = tuple(s for each in found for s in _prologue(loop, each, fresh=not inside))
        numbered = [each.pipeline.stages for each in found if each.is_numbered]
        if numbered:
            return (*prologue, *_unrolled(turned, math.lcm(*numbered)))
        return (*prologue, turned)

    # --- one stage -----------------------------------------------------------------------------

    def _once(self, statements: Statements, claimed: Collection[str], inside: bool) -> Statements:
        """Fill, use and store what belongs to this list, in pipelines of one stage."""
        root = not inside and not claimed

        def own(names: Iterable[str]) -> list[Pipeline]:
            return [
                replace(self.given[name], stages=1, prefetch=0, interval=0, reused=inside)
                for name in names
                if name not in claimed
                and (root or sum(accesses(s, (name,)) for s in statements) > 1)
            ]

        fills = filled(statements)
        for pipeline in own(name for name in drained(statements) if name not in fills):
            statements = self._drained(pipeline).consumed(statements, integers.ZERO)
        for pipeline in self._joined(own(fills), registers=False):
            each, names = self._filled(pipeline, statements), pipeline.names
            first = next((n for n, s in enumerate(statements) if accesses(s, names)), 0)
            rest = without_fills(statements[first:], names)
            statements = (
                *statements[:first],
                *each.produced(integers.ZERO),
                *each.consumed(rest, integers.ZERO),
                *each.advance(),
            )
        return statements

    # --- pipelines -----------------------------------------------------------------------------

    def _joined(self, own: Iterable[Pipeline], *, registers: bool = True) -> list[Pipeline]:
        """Pipelines of one place, joined where they are alike; also those in `registers`, unless
        what fills one may come before the others are declared.
        """
        together: dict[tuple[Pipeline, str], list[Pipeline]] = {}
        for pipeline in own:
            apart = pipeline.in_registers and not registers
            key = alike(pipeline), pipeline.name if apart else ""
            together.setdefault(key, []).append(pipeline)
        return [as_one(f"ring{n}", e) for n, e in enumerate(together.values(), self.used)]

    def _filled(self, pipeline: Pipeline, statements: Statements) -> InPlace:
        return self._noted(InPlace(pipeline, only_fills(statements, pipeline.names)))

    def _drained(self, pipeline: Pipeline) -> InPlace:
        return self._noted(InPlace(pipeline))

    def _noted(self, made: InPlace) -> InPlace:
        self.used += 1
        self.cursors += made.cursors
        self.pipelines.append(made.pipeline)
        return made


def _rank(each: InPlace) -> int:
    """What one thread asks of the TMA unit comes before what all threads do."""
    return 0 if each.by_tma else 1


def _prologue(loop: For, made: InPlace, *, fresh: bool) -> Statements:
    """The first fills, as many as they run ahead; `fresh` tells that no stage has been used."""
    if not made.ahead or not made.fills:
        return ()
    early = Symbol(f"{loop.symbol.name}p", low=0)
    body = _at(made.produced(loop.symbol, early=True, fresh=fresh), loop.symbol, early)
    count = _at_most(loop.extent, made.ahead)
    registers = made.pipeline.in_registers
    if registers or made.pipeline.by is By.COPIES:  # known stages; waits count groups
        body = (If(integers.less(early, loop.extent), body, uniform=True),)
        count = integers.index(made.ahead)
    return (For(early, count, body, unroll=registers),)


def _ahead(loop: For, found: Iterable[InPlace]) -> list[Statement]:
    """The start of an iteration: fills for this one or a later one."""
    filling = (each for each in found if each.fills)
    result: list[Statement] = []
    for each in sorted(filling, key=lambda each: (_rank(each), _rank(each) and each.ahead > 0)):
        if not (each.pipeline.in_registers and _filled_before(loop, each.ahead)):
            result += _later(loop, each.ahead, each.produced(loop.symbol))
    return result


def _at(statements: Iterable[Statement], symbol: Symbol, index: Expr) -> Statements:
    """The statements in iteration `index` of the loop over `symbol`."""
    return tuple(replace_symbols(statement, {symbol: index}) for statement in statements)


def _filled_before(loop: For, ahead: int) -> bool:
    """Whether the prologue has filled for all iterations.

    In shared memory the loop asks all the same, in vain: uses wait for the groups that it commits.
    """
    known = integers.constant(loop.extent)
    return known is not None and known <= ahead


def _later(loop: For, ahead: int, fill: Statements) -> Statements:
    """The fill for the iteration that is `ahead`, where there is one."""
    if not ahead:
        return fill
    index = integers.add(loop.symbol, ahead)
    inside = integers.less(index, loop.extent)
    return (If(inside, _at(fill, loop.symbol, index), uniform=True),)


def _at_most(extent: Expr, count: int) -> Expr:
    """`min(extent, count)`, a constant where the extent is."""
    known = integers.constant(extent)
    return Const(min(known, count)) if known is not None else integers.minimum(extent, count)


def _unrolled(loop: For, stages: int) -> Statements:
    """The loop with as many iterations written out as it takes to know every stage."""
    known = integers.constant(loop.extent)
    if known is not None and known <= UNROLL_LIMIT:
        return (replace(loop, unroll=True),)
    turn = Symbol(f"{loop.symbol.name}b", low=0)
    step = Symbol(f"{loop.symbol.name}s", extent=integers.index(stages))
    turns = integers.floordiv(loop.extent, stages)
    index = integers.add(integers.mul(turn, stages), step)
    whole = For(step, integers.index(stages), _at(loop.body, loop.symbol, index), unroll=True)
    last = integers.add(integers.mul(turns, stages), step)
    rest = If(integers.less(last, loop.extent), _at(loop.body, loop.symbol, last), uniform=True)
    return (
        For(turn, turns, (whole,), unroll=False),
        For(step, integers.index(stages - 1), (rest,), unroll=True),
    )
