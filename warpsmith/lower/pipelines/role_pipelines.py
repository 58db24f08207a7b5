"""Pipelines between roles, and between the groups of one: each counts its own stages.

Nothing is computed from a loop's index, so roles may walk in different loops, and skip what they
like as long as the others skip it too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Expr
from warpsmith.kernel.agents import THREADS, Agent, Branch
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.pipelines import (
    Acquire,
    By,
    Commit,
    OneStage,
    Pipeline,
    Release,
    Section,
    SkipStages,
    Wait,
)
from warpsmith.kernel.rings import Advance, Begin, Cursor, Jump
from warpsmith.kernel.traversal import map_bodies, walk
from warpsmith.lower.pipelines.stages import (
    Statements,
    at_stage,
    by_elected,
    only_fills,
    spanned,
    without_fills,
)
from warpsmith.values import dataclass


def joined(found: Sequence[Branch], given: Mapping[str, Pipeline]) -> tuple[Pipeline, ...]:
    """The pipelines between roles: one where the same statements fill and use stages, alike."""
    sites: dict[str, list[tuple[str, int]]] = {}
    stages = ((b.agent.name, s) for b in found for s in walk(b.body) if isinstance(s, OneStage))
    for number, (role, statement) in enumerate(stages):
        for name in statement.pipelines:
            sites.setdefault(name, []).append((role, number))
    together: dict[tuple[object, ...], list[Pipeline]] = {}
    for name, places in sites.items():
        pipeline = given[name]
        roles = [pipeline.producer, *pipeline.consumers]
        counts = Counter(role for role, _ in places)
        if set(counts) != set(roles) or len(set(counts.values())) > 1:
            raise InternalError(f"{name}: stages of {[role for role, _ in places]}")
        numbers = tuple(number for role in roles for own, number in places if own == role)
        together.setdefault((numbers, alike(pipeline)), []).append(pipeline)
    return tuple(as_one(f"ring{n}", each) for n, each in enumerate(together.values()))


def alike(pipeline: Pipeline) -> Pipeline:
    """What pipelines that become one have in common."""
    by = By.THREADS if pipeline.by is By.COPIES else pipeline.by
    return replace(pipeline, name="", contents=(), by=by)


def as_one(name: str, pipelines: Sequence[Pipeline]) -> Pipeline:
    """One pipeline with the contents of several."""
    first = pipelines[0]
    contents = tuple(content for each in pipelines for content in each.contents)
    copies = any(each.by is By.COPIES for each in pipelines)
    return replace(first, name=name, contents=contents, by=By.COPIES if copies else first.by)


def orders(found: Sequence[Branch], given: Mapping[str, Pipeline]) -> tuple[Pipeline, ...]:
    """The pipelines that order the groups of roles."""
    sections = (s.pipeline for b in found for s in walk(b.body) if isinstance(s, Section))
    return tuple(given[name] for name in dict.fromkeys(sections))


def placed(branch: Branch, pipelines: Iterable[Pipeline]) -> Branch:
    """The body of a role with the verbs of its pipelines, behind the start of its cursors."""
    agent = branch.agent
    ends = [End(p, agent) for p in pipelines if agent.name in (p.producer, *p.consumers)]
    begin = (s for end in ends for s in end.begin())
    return replace(branch, body=(*begin, *_placed(branch.body, ends)))


def _placed(statements: Statements, ends: Sequence[End]) -> Statements:
    result: list[Statement] = []
    for statement in statements:
        inner = map_bodies(statement, lambda body: _placed(body, ends))
        if isinstance(inner, OneStage):
            here = [end for end in ends if end.is_among(inner.pipelines)]
            fills = [end for end in here if end.fills]
            body = inner.body
            for end in (*reversed(fills), *(end for end in here if not end.fills)):
                body = end.one_stage(body)  # each fill goes before the others
            result += body
        elif isinstance(inner, SkipStages):
            result += [s for end in ends if end.is_among(inner.pipelines) for s in end.skip()]
        elif isinstance(inner, Section):
            end = next(end for end in ends if end.pipeline.name == inner.pipeline)
            result += end.in_turn(inner.body)
        else:
            result.append(inner)
    return tuple(result)


@dataclass(frozen=True, slots=True)
class End:
    """What one role does of a pipeline: it fills stages or uses them, and keeps its place."""

    pipeline: Pipeline
    agent: Agent

    @property
    def fills(self) -> bool:
        return self.agent.name == self.pipeline.producer

    @property
    def cursor(self) -> Cursor:
        """The stage at which the role, or each of its groups, is."""
        pipeline = self.pipeline
        if not pipeline.contents:
            return Cursor(pipeline.name, 1)
        return Cursor(f"{pipeline.name}_{self.agent.name}", pipeline.stages)

    def is_among(self, names: Iterable[str]) -> bool:
        """Whether the pipeline holds what was one of these before it was joined."""
        return not set(names).isdisjoint(self.pipeline.names)

    def begin(self) -> Statements:
        """The cursor starts where the first stage of the role, or of its group, lies."""
        start = self._group_start()
        if self.pipeline.groups.owned or start == integers.ZERO:
            return (Begin(self.cursor, start),)
        return Begin(self.cursor), Jump(self.cursor, start)

    def skip(self) -> Statements:
        """Pass over the stages of the other groups."""
        if not self._takes_turns:
            return ()
        groups = self.pipeline.groups
        others = integers.mul(groups.count - 1, groups.share)
        known = integers.constant(others)
        if known is not None and known <= self.pipeline.stages:
            return (Advance(self.cursor, known),)
        return (Jump(self.cursor, others),)

    def one_stage(self, statements: Statements) -> Statements:
        """Statements that fill, or use, one stage, with the verbs that make it theirs."""
        done = self._filled(statements) if self.fills else self._used(statements)
        return (*done, *self._advanced())

    def in_turn(self, statements: Statements) -> Statements:
        """Statements that groups run one after the other.

        The first group waits once for nothing: it goes by the phase before.
        """
        name, phase = self.pipeline.name, self.cursor.phase
        group, groups = self._group(), self.agent.groups
        first = Apply("eq", (group, integers.ZERO), DataType.Bool)
        parity = Apply("where", (first, integers.sub(1, phase), phase), DataType.Index)
        after = integers.mod(integers.add(group, 1), groups)
        wait, release = Wait(name, group, parity), Release(name, after)
        return wait, *statements, release, Advance(self.cursor)

    # --- one stage -----------------------------------------------------------------------------

    def _filled(self, statements: Statements) -> Statements:
        pipeline, stage = self.pipeline, self.cursor.stage
        acquire = Acquire(pipeline.name, stage, integers.sub(1, self.cursor.phase))
        commit = Commit(pipeline.name, stage)
        if pipeline.by is not By.TMA:
            return spanned(statements, pipeline, stage, acquire, commit)
        fills = at_stage(only_fills(statements, pipeline.names), pipeline, stage)
        return acquire, *fills, commit, *without_fills(statements, pipeline.names)

    def _used(self, statements: Statements) -> Statements:
        pipeline, stage = self.pipeline, self.cursor.stage
        wait = Wait(pipeline.name, stage, self.cursor.phase)
        release = Release(pipeline.name, stage)
        if not self.agent.elected:
            statements = by_elected(statements, pipeline.names)
        return spanned(statements, pipeline, stage, wait, release)

    def _advanced(self) -> Statements:
        """The next stage is the next one; or, where groups have one each in turn, some further."""
        groups = self.pipeline.groups
        alone = self._takes_turns and groups.share == integers.ONE
        step = groups.count if alone else 1
        if step > self.pipeline.stages:
            return (Jump(self.cursor, integers.index(step)),)
        return (Advance(self.cursor, step),)

    # --- groups --------------------------------------------------------------------------------

    @property
    def _takes_turns(self) -> bool:
        return self.agent.name in self.pipeline.groups.roles

    def _group(self) -> Expr:
        """Number of the group."""
        assert self.agent.groups_along is not None
        return THREADS[BLOCK_TYPES.index(self.agent.groups_along)]

    def _group_start(self) -> Expr:
        if not self.pipeline.contents or not self._takes_turns or self.agent.groups_along is None:
            return integers.ZERO
        return integers.mul(self._group(), self.pipeline.groups.share)
