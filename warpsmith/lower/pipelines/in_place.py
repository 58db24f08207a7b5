"""A pipeline that one agent fills and uses in place: its stages, its cursors, its verbs."""

from __future__ import annotations

from warpsmith.ir import integers
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.nodes import Element, Statement, Store
from warpsmith.kernel.pipelines import Acquire, By, Commit, Pipeline, Release, Wait
from warpsmith.kernel.rings import Advance, Cursor
from warpsmith.lower.pipelines.stages import (
    Statements,
    at_stage,
    by_elected,
    drains,
    first_and_last,
    spanned,
)
from warpsmith.values import dataclass

CARRIED = 8
"""Elements of a stage in registers that are rather moved each turn than known by unrolling."""


@dataclass(frozen=True, slots=True)
class InPlace:
    """A pipeline of one agent.

    In shared memory the agent keeps its place by cursors. In registers a stage must be known when
    the kernel is compiled. So it follows from the index of a loop that is unrolled; or, where two
    stages are small, the second is always the one that is filled, and each turn moves it to the
    first, which is always the one that is used.

    Attributes:
        fills: statements that fill one stage; none where what uses the stage writes it first, and
            the TMA unit then stores it.
    """

    pipeline: Pipeline
    fills: Statements = ()

    @property
    def ahead(self) -> int:
        """Iterations that fills are ahead of uses."""
        return self.pipeline.prefetch

    @property
    def by_tma(self) -> bool:
        return self.pipeline.by is By.TMA

    @property
    def is_carried(self) -> bool:
        """Whether the second of two stages in registers is moved to the first in every turn."""
        pipeline = self.pipeline
        known = [each.elements for each in pipeline.contents if isinstance(each.elements, int)]
        few = len(known) == len(pipeline.contents) and sum(known) <= CARRIED
        return pipeline.in_registers and pipeline.stages == 2 and self.ahead == 1 and few

    @property
    def is_numbered(self) -> bool:
        """Whether the index of a loop, once unrolled, says which stage it is."""
        return self.pipeline.in_registers and not self.is_carried

    @property
    def cursors(self) -> tuple[Cursor, ...]:
        """The stage that is filled next, where others fill it, and the one that is used next."""
        pipeline = self.pipeline
        counted = self.by_tma or pipeline.stages > 1
        if not pipeline.reused or not counted or pipeline.in_registers:
            return ()
        return (self._fill, self._use) if self.fills else (self._use,)

    def produced(self, index: Expr, *, early: bool = False, fresh: bool = False) -> Statements:
        """Statements that fill the stage of iteration `index`.

        Args:
            early: before the loop, at once; else each fill may have its time.
            fresh: the stage has never been used, and needs no wait.
        """
        pipeline, stage = self.pipeline, self._filled_at(index)
        waits = self.by_tma and pipeline.reused and not fresh
        parity = integers.sub(1, self._fill.phase) if waits else None
        timed = pipeline.interval > 0 and not early
        times = integers.sub(index, self.ahead) if timed else None
        return (
            Acquire(pipeline.name, stage, parity, times),
            *at_stage(self.fills, pipeline, stage),
            Commit(pipeline.name, stage),
            *([Advance(self._fill)] if self.cursors else []),
        )

    def consumed(self, statements: Statements, index: Expr) -> Statements:
        """The statements with what they do to the stage of iteration `index` done there."""
        stage, names = self._used_at(index), self.pipeline.names
        if self.fills:
            return self._used(by_elected(statements, names), stage)
        first, last = first_and_last(statements, lambda s: drains(s, names))
        acquire, commit = Acquire(self.pipeline.name, stage), Commit(self.pipeline.name, stage)
        return (
            *spanned(statements[:first], self.pipeline, stage, acquire, commit),
            *self._used(by_elected(statements[first : last + 1], names), stage),
            *at_stage(statements[last + 1 :], self.pipeline, stage),  # threads may read it, too
        )

    def carry(self) -> Statements:
        """At the start of a turn: what was filled is what is used now."""
        return tuple(
            Store(each.buffer, integers.index(k), Element(each.buffer, integers.index(size + k)))
            for each in self.pipeline.contents
            for size in (each.elements,)
            if self.is_carried and isinstance(size, int)
            for k in range(size)
        )

    def advance(self) -> tuple[Statement, ...]:
        """At the end of a turn."""
        return (Advance(self._use),) if self.cursors else ()

    # --- stages --------------------------------------------------------------------------------

    def _used(self, statements: Statements, stage: Expr) -> Statements:
        name = self.pipeline.name
        phase = self._use.phase if self.cursors else integers.ZERO
        wait, release = Wait(name, stage, phase), Release(name, stage)
        return spanned(statements, self.pipeline, stage, wait, release)

    def _filled_at(self, index: Expr) -> Expr:
        return integers.ONE if self.is_carried else self._at(self._fill, index)

    def _used_at(self, index: Expr) -> Expr:
        return integers.ZERO if self.is_carried else self._at(self._use, index)

    def _at(self, cursor: Cursor, index: Expr) -> Expr:
        if self.is_numbered:
            return integers.mod(index, self.pipeline.stages)
        return cursor.stage if self.cursors else integers.ZERO

    @property
    def _fill(self) -> Cursor:
        return Cursor(f"{self.pipeline.name}_fill", self.pipeline.stages, self.ahead)

    @property
    def _use(self) -> Cursor:
        return Cursor(f"{self.pipeline.name}_use", self.pipeline.stages)
