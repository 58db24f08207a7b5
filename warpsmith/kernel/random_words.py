"""Random words that four lanes of a warp draw for each other."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from warpsmith.ir.scalar import Expr
from warpsmith.kernel.effects import expression, reads, updates, writes
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class DrawByQuads(Statement):
    """A word of each of four blocks of random bits, of which lanes 4 i to 4 i + 3 draw one each.

    A lane gets the word of its own number from the blocks of all four, in order.

    Attributes:
        words_of: registers of which four are written, from `index` on.
        lane: the number of a lane, from 0 to 3.
        block: number of the block that it draws.
        seed, offset: of the generator.
    """

    collective: ClassVar[bool] = True
    of_warps: ClassVar[bool] = True
    words = "{words_of} = words {lane} of the blocks of four lanes, here {block}"

    words_of: Buffer = field(metadata=writes("index", "width"))
    index: Expr = field(metadata=expression())
    lane: Expr = field(metadata=expression())
    block: Expr = field(metadata=expression())
    seed: Expr = field(metadata=expression())
    offset: Expr = field(metadata=expression())

    @property
    def width(self) -> int:
        return 4


@dataclass(frozen=True, slots=True)
class KeepBits(Statement):
    """Which elements are kept: of each half of some words a bit, behind those that are there, which
    move down by as many.

    Attributes:
        bits: packed bools, whose last ones are new.
        words_of: registers, all of which are taken.
        least: the number from which on an element is kept.
    """

    words = "{bits} moves on by what is kept of {words_of}, from {least} on"

    bits: Buffer = field(metadata=updates(count=""))
    words_of: Buffer = field(metadata=reads(count=""))
    least: Expr = field(metadata=expression())
