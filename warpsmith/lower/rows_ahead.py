"""The agent that looks up which rows a tile has, ahead of all agents that work on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.bounds import LOOKUPS
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.groups import looks_up
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.kernel.agents import Agent, Branch, Kind
from warpsmith.kernel.nodes import Buffer, If, Let, Statement, Store
from warpsmith.kernel.pipelines import By, Content, OneStage, Pipeline
from warpsmith.kernel.tile_scheduler import ReadTile
from warpsmith.kernel.traversal import expressions, map_bodies, replace_symbols, walk
from warpsmith.lower.buffers import Buffers
from warpsmith.lower.stream_k import TILE, StreamK

NAME = "rows"
"""Of the agent, of its pipeline, and of the buffer that holds what memory says of tiles."""

STAGES = 2
"""What is asked of the next tile is known while the tile before it is worked on."""


COSTLY = (*LOOKUPS, "floordiv", "mod")
"""What takes long to compute of a tile's number."""


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
    if stream is None or not looks_up(stream.count):
        return [*found]
    asked = {each for branch in found for each in _asked(branch.body)}
    in_order = sorted(asked, key=lambda each: (sum(1 for _ in each.walk()), repr(each)))
    size = integers.index(STAGES * len(asked))
    buffer = Buffer(NAME, DataType.Index, MemoryType.shared, size, guarded=True)
    known: dict[Expr, Expr] = {}
    lets, stores, reads = list[Statement](), list[Statement](), list[Statement]()
    for number, each in enumerate(in_order):  # what is inside of others comes before them
        name, place = Symbol(f"{NAME}{number}", low=0), integers.index(number)
        lets.append(Let(name, substitute(each, known)))
        stores.append(Store(buffer, place, name))
        reads.append(ReadTile(name, buffer, place))
        known[each] = name
    told = [replace(b, body=_told(b.body, stream, known, tuple(reads))) for b in found]
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
    block = buffers.threads.symbols[ParallelType.grid_x]
    turn = Symbol(f"{NAME}_i0", low=0, extent=integers.ceildiv(stream.most, stream.blocks))
    loop = stream.over(turn, block, (OneStage((NAME,), (*lets, *stores)),))
    one = (integers.ONE, integers.ONE, integers.ONE)
    return [*told, Branch(Agent(NAME, 0, one, elected=True, kind=Kind.TILES), (loop,))]


def _asked(body: tuple[Statement, ...]) -> Iterator[Expr]:
    """What is costly of a tile."""
    for statement in walk(body):
        for expr in expressions(statement):
            yield from _costly(expr)


def _costly(expr: Expr) -> Iterator[Expr]:
    """The largest costly parts of an expression that follow from a tile's number and from sizes."""
    symbols = [node for node in expr.walk() if isinstance(node, Symbol)]
    others = [symbol for symbol in symbols if symbol.name != TILE.name]
    if not isinstance(expr, Apply) or len(others) == len(symbols):
        return
    if expr.op in COSTLY and all(symbol.extent is None for symbol in others):
        yield expr
    else:
        for arg in expr.args:
            yield from _costly(arg)


def _told(
    body: tuple[Statement, ...],
    stream: StreamK,
    known: dict[Expr, Expr],
    reads: tuple[Statement, ...],
) -> tuple[Statement, ...]:
    """A body in which names stand for what is looked up; the tile's number goes where nothing else
    asks for it.
    """

    def changed(statement: Statement) -> Statement:
        if not isinstance(statement, If) or statement.condition != stream.inside:
            return map_bodies(statement, lambda inner: tuple(map(changed, inner)))
        inside = replace_symbols(statement, known).body
        nodes = (node for s in walk(inside) for expr in expressions(s) for node in expr.walk())
        if not any(isinstance(node, Symbol) and node.name == TILE.name for node in nodes):
            inside = tuple(s for s in inside if not (isinstance(s, Let) and s.symbol == TILE))
        return replace(statement, body=(OneStage((NAME,), (*reads, *inside)),))

    return tuple(map(changed, body))
