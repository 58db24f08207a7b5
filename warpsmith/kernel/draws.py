"""Random words that four lanes of a warp draw for each other."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from warpsmith.ir.scalar import Expr
from warpsmith.kernel.effects import expression, writes
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
