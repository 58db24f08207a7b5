"""Release a stage before its turn where products wait for the next one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warpsmith.ir.scalar import Expr
from warpsmith.kernel.clusters import BY_WARP, ReleaseRemote
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Statement
from warpsmith.kernel.pipelines import Pipeline
from warpsmith.kernel.products import AwaitProducts
from warpsmith.kernel.rings import ArriveByWarp, Await, Early
from warpsmith.kernel.traversal import children, map_bodies


def release_early(kernel: Kernel) -> Kernel:
    """Products in flight over two iterations hold two stages. Where loads are what a loop waits
    for, one of these is read no more, and would be filled again if it were free.

    Before::

        for k: { await full[stage]; products; commit; await all groups but one;
                 if 0 < k: release empty[stage - 1];  advance }

    After::

        for k: { if 0 < k and full[stage] has not come: { await all groups;
                                                          release empty[stage - 1] }
                 await full[stage]; products; commit; await all groups but one;
                 if 0 < k: release empty[stage - 1], unless that is done;  advance }
    """
    rings = {each.full.name: each for each in kernel.pipelines if each.contents}
    body = _released(kernel.body, rings)
    changed = any(new is not old for new, old in zip(body, kernel.body, strict=True))
    return replace(kernel, body=body) if changed else kernel


def _released(
    statements: tuple[Statement, ...], rings: dict[str, Pipeline]
) -> tuple[Statement, ...]:
    return tuple(_in_loop(each, rings) for each in statements)


def _in_loop(statement: Statement, rings: dict[str, Pipeline]) -> Statement:
    if isinstance(statement, For) and AwaitProducts(1) in statement.body:
        waits = [each for each in statement.body if isinstance(each, Await)]
        late = list(_late(statement))
        if len(waits) == len(late) == 1 and waits[0].barrier.name in rings:
            ring, (condition, releases) = rings[waits[0].barrier.name], late[0]
            if {each.barrier for each in releases} == {ring.empty}:
                early = Early(f"{ring.name}_released", condition, releases)
                return replace(statement, body=tuple(_moved(statement.body, early)))
    return map_bodies(statement, lambda inside: _released(inside, rings))


def _late(loop: For) -> Iterator[tuple[Expr, tuple[ArriveByWarp | ReleaseRemote, ...]]]:
    """The releases of an iteration's stages behind the wait for products of the one before, and
    their condition.
    """
    for each in loop.body[loop.body.index(AwaitProducts(1)) :]:
        releases = tuple(inner for inner in children(each) if isinstance(inner, BY_WARP))
        if isinstance(each, If) and releases == each.body:
            yield each.condition, releases


def _moved(body: tuple[Statement, ...], early: Early) -> Iterator[Statement]:
    for each in body:
        if isinstance(each, Await):
            yield replace(each, early=early)
        elif isinstance(each, If) and each.body == early.releases:
            late = (inner for inner in early.releases if isinstance(inner, BY_WARP))
            rest = tuple(replace(release, unless=early.name) for release in late)
            yield replace(each, body=rest)
        else:
            yield each
