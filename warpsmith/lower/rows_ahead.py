"""The agent that looks up which rows a tile has, ahead of all agents that work on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeGuard

from warpsmith.ir import integers
from warpsmith.ir.bounds import LOOKUPS
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.groups import looks_up
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.kernel.agents import Agent, Branch, Kind
from warpsmith.kernel.nodes import Buffer, For, If, Statement, Store
from warpsmith.kernel.pipelines import By, Content, OneStage, Pipeline
from warpsmith.kernel.tile_scheduler import ReadTile
from warpsmith.kernel.traversal import expressions, map_bodies, replace_symbols, walk
from warpsmith.lower.buffers import Buffers
from warpsmith.lower.stream_k import TILE, TILES, StreamK

NAME = "rows"
"""Of the agent, of its pipeline, and of the buffer that holds what memory says of tiles."""

STAGES = 2
"""What is asked of the next tile is known while the tile before it is worked on."""

INSIDE = integers.less(TILE, TILES)
"""The condition around all that an agent does of a tile."""


def with_rows_ahead(
    found: Sequence[Branch], stream: StreamK | None, buffers: Buffers
) -> list[Branch]:
    """Agents, and one more that looks up for them where groups of rows end.

    Before, of each agent::

        for turn: if tile < tiles: { T1[group_row(.., tile) ..] = .. group(.., tile) .. }

    After::

        for turn: if tile < tiles: one stage of rows: { rows0 = rows[0];  ..  T1[rows0 ..] = .. }

    and of the new one, an elected thread::

        for turn: if tile < tiles: one stage of rows: { rows[0] = group_row(.., tile);  .. }

    A search takes a microsecond, in which tensor cores would have nothing to do.
    """
    asked = tuple(dict.fromkeys(each for branch in found for each in _asked(branch.body)))
    if stream is None or not asked:
        return [*found]
    places = [integers.index(place) for place in range(len(asked))]
    names = [Symbol(f"{NAME}{place}", low=0) for place in range(len(asked))]
    size = integers.index(STAGES * len(asked))
    buffer = Buffer(NAME, DataType.Index, MemoryType.shared, size, guarded=True)
    reads = tuple(ReadTile(n, buffer, place) for n, place in zip(names, places, strict=True))
    stores = tuple(Store(buffer, *each) for each in zip(places, asked, strict=True))
    (turns,) = {loop.extent for branch in found for loop in branch.body if _is_over_tiles(loop)}
    turn = Symbol(f"{NAME}_i0", low=0, extent=turns)
    block = buffers.threads.symbols[ParallelType.grid_x]
    loop = stream.over(turn, block, (OneStage((NAME,), stores),))
    buffers.made.shared[NAME] = buffer
    buffers.note(
        Pipeline(
            name=NAME,
            stages=STAGES,
            contents=(Content(buffer, len(asked)),),
            by=By.THREADS,
            producer=NAME,
            consumers=tuple(branch.agent.name for branch in found),
        )
    )
    known: dict[Expr, Expr] = dict(zip(asked, names, strict=True))
    one = (integers.ONE, integers.ONE, integers.ONE)
    agent = Agent(NAME, 0, one, elected=True, kind=Kind.TILES)
    told = (replace(b, body=_told(b.body, known, reads)) for b in found)
    return [*told, Branch(agent, (loop,))]


def _is_over_tiles(statement: Statement) -> TypeGuard[For]:
    return isinstance(statement, For) and any(
        isinstance(inner, If) and inner.condition == INSIDE for inner in statement.body
    )


def _asked(body: tuple[Statement, ...]) -> Iterator[Expr]:
    """What is looked up for a tile."""
    for statement in walk(body):
        for expr in expressions(statement):
            yield from _searches(expr)


def _searches(expr: Expr) -> Iterator[Expr]:
    """Searches in an expression for what a tile has, but not those inside of one."""
    if not isinstance(expr, Apply) or not looks_up(expr):
        return
    if expr.op not in LOOKUPS:
        for arg in expr.args:
            yield from _searches(arg)
    elif any(isinstance(node, Symbol) and node.name == TILE.name for node in expr.walk()):
        yield expr


def _told(
    body: tuple[Statement, ...], known: dict[Expr, Expr], reads: tuple[Statement, ...]
) -> tuple[Statement, ...]:
    """A body in which names stand for what is looked up."""

    def changed(statement: Statement) -> Statement:
        if isinstance(statement, If) and statement.condition == INSIDE:
            inside = replace_symbols(statement, known).body
            return replace(statement, body=(OneStage((NAME,), (*reads, *inside)),))
        return map_bodies(statement, lambda inner: tuple(map(changed, inner)))

    return tuple(map(changed, body))
