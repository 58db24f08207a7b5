"""Tiles that are read behind a loop come through the stages of what the loop reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.kernel.pipelines import By, Content, Fill, Groups, OneStage, Pipeline, Scope
from warpsmith.kernel.traversal import map_bodies, map_buffers, walk


def share_stages(kernel: Kernel) -> Kernel:
    """Pipelines of one name, between the same roles, that different loops fill are one: memory and
    barriers are those of the first, whose stages hold what the others bring, too.

    Before, all three with `ring="operands"`::

        role load:     for k: { one stage of T5, T6: .. };  for c < 4: { one stage of T7: fill T7 }
        role compute:  for k: { one stage of T5, T6: .. };  for c < 4: { one stage of T7: T8 = T7 }

    After::

        role load:     for k: { one stage of T5, T6: .. };  for c < 4: { one of T5, T6: fill T6 }
        role compute:  for k: { one stage of T5, T6: .. };  for c < 4: { one of T5, T6: T8 = T6 }

    So chunks of a residual are on their way while the last steps of a product are summed, and need
    no memory besides. Where a stage is too small for them, types differ, groups take turns, blocks
    of a cluster load for each other, or one stage is used inside another, pipelines stay apart.
    """
    given = {pipeline.name: pipeline for pipeline in kernel.pipelines}
    sites: dict[tuple[str, ...], list[OneStage]] = {}
    for stage in _stages(kernel):
        sites.setdefault(stage.pipelines, []).append(stage)
    together = {
        names: given[names[0]]
        for names, own in sites.items()
        if given[names[0]].label and _alike(names, own, given[names[0]], sites)
    }
    held: dict[str, Content] = {}
    renamed: dict[tuple[str, ...], tuple[str, ...]] = {}
    for names, pipeline in together.items():
        hosts = next(n for n, p in together.items() if _like(p) == _like(pipeline))
        places = _places([given[n] for n in names], [given[n] for n in hosts])
        if names != hosts and places is not None:
            held |= places
            renamed[names] = hosts
    if not renamed:
        return kernel

    def buffer(old: Buffer) -> Buffer:
        return held[old.name].buffer if old.name in held else old

    def change(statement: Statement) -> Statement:
        if isinstance(statement, OneStage):
            names = renamed.get(statement.pipelines, statement.pipelines)
            statement = replace(statement, pipelines=names)
        if isinstance(statement, Fill) and statement.pipeline in held:
            statement = replace(statement, pipeline=held[statement.pipeline].name)
        return map_bodies(statement, lambda body: tuple(map(change, body)))

    return replace(
        kernel,
        body=tuple(map_buffers(change(statement), buffer) for statement in kernel.body),
        shared=tuple(each for each in kernel.shared if each.name not in held),
        pipelines=tuple(each for each in kernel.pipelines if each.name not in held),
    )


def _stages(kernel: Kernel) -> Iterator[OneStage]:
    return (s for each in kernel.branches for s in walk(each.body) if isinstance(s, OneStage))


def _alike(
    names: tuple[str, ...],
    own: Sequence[OneStage],
    pipeline: Pipeline,
    all_: Iterable[tuple[str, ...]],
) -> bool:
    """Whether each role fills or uses these together in one place, and nothing else inside it."""
    apart = any(other != names and not set(other).isdisjoint(names) for other in all_)
    inside = any(isinstance(s, OneStage) for stage in own for s in walk(stage.body))
    return len(own) == 1 + len(pipeline.consumers) and not (apart or inside)


def _like(pipeline: Pipeline) -> Pipeline:
    """What pipelines that share stages have in common."""
    return replace(pipeline, name="", contents=())


def _places(guests: Sequence[Pipeline], hosts: Sequence[Pipeline]) -> dict[str, Content] | None:
    """By name the content of a stage in whose memory another pipeline's lies: the largest first;
    None where some have none.
    """
    if any(not _may_share(pipeline) for pipeline in (*guests, *hosts)):
        return None
    largest = sorted((h.contents[0] for h in hosts), key=_elements, reverse=True)
    mine = sorted((g.contents[0] for g in guests), key=_elements, reverse=True)
    fits = len(mine) <= len(largest) and all(
        a.buffer.dtype == b.buffer.dtype and _elements(a) <= _elements(b)
        for a, b in zip(mine, largest, strict=False)
    )
    return dict(zip((each.name for each in mine), largest, strict=False)) if fits else None


def _may_share(pipeline: Pipeline) -> bool:
    known = all(_elements(content) for content in pipeline.contents)
    alone = pipeline.scope is Scope.BLOCK and pipeline.groups == Groups()
    return known and alone and pipeline.by is By.TMA


def _elements(content: Content) -> int:
    """Of a stage; 0 where calls decide."""
    return integers.constant(integers.mul(content.elements)) or 0
