"""Random words that two lanes of a warp draw for each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from warpsmith.ir.scalar import Expr
from warpsmith.kernel.effects import expression, writes
from warpsmith.kernel.nodes import Buffer, Statement


@dataclass(frozen=True, slots=True)
class DrawByPairs(Statement):
    """Half of the words of two blocks of Philox, which lane 2 i and lane 2 i + 1 both name.

    The even lane gets words 0 and 1 of both, the odd one words 2 and 3; each draws one block, and
    gives the other lane what that needs of it.

    Attributes:
        words_of: 4 integers, of the first block and of the second.
        odd: 0 in even lanes, 1 in odd ones.
        first, second: numbers of the blocks.
        seed, offset: of the generator.
    """

    collective: ClassVar[bool] = True
    words = "{words_of} = words of blocks {first} and {second}, by pairs of lanes"

    words_of: Buffer = field(metadata=writes(count=""))
    odd: Expr = field(metadata=expression())
    first: Expr = field(metadata=expression())
    second: Expr = field(metadata=expression())
    seed: Expr = field(metadata=expression())
    offset: Expr = field(metadata=expression())
