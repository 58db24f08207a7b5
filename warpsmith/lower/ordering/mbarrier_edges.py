"""Edges through pipelines: an mbarrier stands between what fills a stage and what uses it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from warpsmith.errors import InternalError
from warpsmith.kernel.effects import Verb
from warpsmith.kernel.nodes import Buffer
from warpsmith.kernel.pipelines import Pipeline
from warpsmith.kernel.traversal import barriers
from warpsmith.lower.ordering.edges import Dependence
from warpsmith.lower.ordering.scopes import Site
from warpsmith.lower.ordering.tree import Node, backward, common, inside, onward, straight
from warpsmith.values import dataclass


@dataclass(slots=True, eq=False)
class MbarrierEdge(Dependence):
    """A stage is filled before it is used, or used before it is filled anew.

    Attributes:
        arrival: the statement that says that `first` is over: an arrival, or the copy itself.
        wait: the statement before `second` that waits for it.
        nodes: others that order it.
    """

    pipeline: Pipeline
    first: Site
    second: Site
    arrival: Node
    wait: Node
    nodes: list[Node] = field(default_factory=list)

    @property
    def stop(self) -> Node:
        """The arrival, or what it stands in, in a list that `first` stands in too."""
        return inside(self.arrival, common(self.first.node, self.arrival))

    @property
    def rank(self) -> tuple[int, bool, int]:
        """Its place among other edges (`Edge.rank`)."""
        holder = common(self.first.node, self.arrival)
        return -len(list(holder.up())), False, self.arrival.number

    def way(self) -> list[Node]:
        """What certainly runs between the first access and the arrival."""
        return list(straight(self.first.node, self.stop))


def mbarrier_edges(pipelines: Iterable[Pipeline], sites: Sequence[Site]) -> list[MbarrierEdge]:
    """All edges of pipelines.

    Raises:
        InternalError: an access of a stage without a wait before it, or an arrival behind it.
    """
    result: list[MbarrierEdge] = []
    for pipeline in pipelines:
        own = [site for site in sites if site.buffer.name in pipeline.names]
        for fill in own:
            for use in own:
                if fill.buffer.name != use.buffer.name or not fill.writes:
                    continue
                if not use.writes:
                    result += _pair(pipeline, fill, use)
    return result


def _pair(pipeline: Pipeline, fill: Site, use: Site) -> Iterator[MbarrierEdge]:
    full, empty = pipeline.full, pipeline.empty
    filled, waits = _arrival(pipeline, full, fill), _wait(pipeline, full, use)
    yield MbarrierEdge(pipeline, fill, use, filled, waits)
    if empty is not None and not _is_first(fill, use):
        freed, waits = _arrival(pipeline, empty, use), _wait(pipeline, empty, fill)
        yield MbarrierEdge(pipeline, use, fill, freed, waits)


def _is_first(fill: Site, use: Site) -> bool:
    """Whether a fill comes before all uses of the stage: no loop comes back to it."""
    if fill.scope is not use.scope or fill.node.number > use.node.number:
        return False
    return not any(node.repeats for node in common(fill.node, use.node).up())


def _arrival(pipeline: Pipeline, barrier: Buffer, site: Site) -> Node:
    if _does(Verb.COUNT, site.node, barrier):
        return site.node
    for node in onward(site.node):
        for inner in node.walk():
            if _does(Verb.ARRIVE, inner, barrier):
                return inner
    raise InternalError(_unguarded(pipeline, barrier, site, "no arrival", "behind"))


def _wait(pipeline: Pipeline, barrier: Buffer, site: Site) -> Node:
    for node in backward(site.node):
        inner = [node, *(node.body or [])] if node.elects else [node]
        for each in reversed(inner):
            if _does(Verb.WAIT, each, barrier):
                return each
    raise InternalError(_unguarded(pipeline, barrier, site, "no wait", "before"))


def _does(verb: Verb, node: Node, barrier: Buffer) -> bool:
    return node.statement is not None and barrier in barriers(node.statement, verb)


def _unguarded(pipeline: Pipeline, barrier: Buffer, site: Site, what: str, where: str) -> str:
    return (
        f"{pipeline.name}: {site.effect.words} {site.buffer.name}, and {what} at {barrier.name} "
        f"stands {where} it"
    )
