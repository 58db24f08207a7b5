"""Tiles that are handed out while a kernel runs: a counter in global memory says which is next.

One agent takes numbers from the counter, and hands each to all agents of its block through a
pipeline; a number past the last tile ends their loops. Every block takes one such number, so that
the counter comes round to zero by itself. Blocks that wait for each other take such a number alone.
"""

from __future__ import annotations

from dataclasses import field

from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.effects import Orders, body, defines, expression, needs, reads, writes
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class TakeTile(Statement):
    """`symbol = counter++`, back to 0 behind `count + blocks - 1`; and `target[index] = symbol`."""

    words = "{symbol} = next of {counter}; {target} = {symbol}"

    symbol: Symbol = field(metadata=defines())
    counter: Buffer = field(metadata=needs())
    count: Expr = field(metadata=expression())
    target: Buffer = field(metadata=writes("index"))
    index: Expr = field(metadata=expression())


@dataclass(frozen=True, slots=True)
class ReadTile(Statement):
    """`symbol = source[index]`: the number that has been handed out."""

    words = "{symbol} = {source}"

    symbol: Symbol = field(metadata=defines())
    source: Buffer = field(metadata=reads("index"))
    index: Expr = field(metadata=expression())


@dataclass(frozen=True, slots=True)
class WithTile(Statement, orders=Orders.NOTHING):
    """Statements for a tile that there is; for another one, the loop around them ends."""

    words = "with {symbol} below {count}, or end the loop"

    symbol: Expr = field(metadata=expression())
    count: Expr = field(metadata=expression())
    body: tuple[Statement, ...] = field(metadata=body())
