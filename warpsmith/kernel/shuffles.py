"""Elements that trade places among the registers of a warp's lanes."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from warpsmith.ir.scalar import Expr
from warpsmith.kernel.effects import expression, plain, reads, writes
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.layouts.changes import Change
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Shuffle(Statement):
    """All that a warp's lanes hold of `source` goes to the lanes and registers of `target`.

    Attributes:
        change: the rounds, of words of `change.packed` elements.
    """

    collective: ClassVar[bool] = True
    words = "{target} = {source} by shuffles"

    target: Buffer = field(metadata=writes(count=""))
    source: Buffer = field(metadata=reads(count=""))
    change: Change = field(metadata=plain())


@dataclass(frozen=True, slots=True)
class TakeOwn(Statement):
    """`buffer[index] = value;`, by a shuffle in which each lane gets what it gave.

    To a compiler lanes hold values of their own then, even where all are the same.
    """

    collective: ClassVar[bool] = True
    words = "{buffer} = {value}, to each lane its own"

    buffer: Buffer = field(metadata=writes("index"))
    index: Expr = field(metadata=expression())
    value: Expr = field(metadata=expression())
