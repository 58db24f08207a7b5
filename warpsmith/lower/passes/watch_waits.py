"""Give every wait for a barrier an end, and a number by which it tells what it waited for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from itertools import count

from warpsmith.errors import InternalError
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.pipelines import Pipeline
from warpsmith.kernel.rings import Await
from warpsmith.kernel.traversal import map_bodies
from warpsmith.kernel.waits import WaitSite, WatchedAwait


def watch_waits(kernel: Kernel, limit: int) -> Kernel:
    """Replace waits by waits that are given up after `limit` nanoseconds.

    Before, in the body of the role `compute`::

        await ring0_full[stage] parity phase

    After, with `site` = (0, "compute", "ring0", ("T1",), full, "model.py:12")::

        await ring0_full[stage] parity phase, at most limit, else report site

    Raises InternalError for a wait for a barrier that belongs to no pipeline.
    """
    pipelines = {b.name: each for each in kernel.pipelines for b in each.barriers}
    return kernel.with_body(_watched(kernel.body, "", _Sites(pipelines, limit, count())))


class _Sites:
    """Numbers the waits of one kernel."""

    def __init__(self, pipelines: dict[str, Pipeline], limit: int, numbers: Iterator[int]) -> None:
        self._pipelines = pipelines
        self._limit = limit
        self._numbers = numbers

    def watched(self, wait: Await, role: str) -> WatchedAwait:
        pipeline = self._pipelines.get(wait.barrier.name)
        if pipeline is None:
            raise InternalError(f"{wait.barrier.name} is waited for and belongs to no pipeline")
        site = WaitSite(
            number=next(self._numbers),
            role=role,
            ring=pipeline.name,
            buffers=pipeline.names,
            full=wait.barrier == pipeline.full,
            where=pipeline.where,
        )
        given = {each.name: getattr(wait, each.name) for each in fields(Await)}
        return WatchedAwait(**given, site=site, limit=self._limit)


def _watched(statements: tuple[Statement, ...], role: str, sites: _Sites) -> tuple[Statement, ...]:
    result: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Await):
            statement = sites.watched(statement, role)
        own = statement.agent.name if isinstance(statement, Branch) else role
        result.append(map_bodies(statement, partial(_watched, role=own, sites=sites)))
    return tuple(result)
