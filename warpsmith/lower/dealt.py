"""Iterations that blocks have in another order than loops over turns and blocks say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import ParallelType, Split
from warpsmith.ir.exprs import Scan
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import Operation
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Dealt:
    """Iterations that are dealt to blocks by number, and not by the blocks that it says.

    The schedule is that of blocks which loop over tiles, `[turn, block]`, of which one split made
    both loops; a number is an iteration of the loop that was split.

    Attributes:
        count: how many numbers there are.
        blocks: iterations of the loop over blocks.
        whole: the loop that was split.
    """

    count: Expr
    blocks: Expr
    whole: Group

    def places(self, tile: Expr) -> tuple[Expr, Expr]:
        """The indices of the loops `[turn, block]` for a number."""
        return integers.floordiv(tile, self.blocks), integers.mod(tile, self.blocks)


def dealt_by(
    operations: Sequence[Operation],
    domains: DomainMap,
    kind: ParallelType,
    beside: Collection[ParallelType],
    refused: Callable[[str], ScheduleError],
) -> Dealt:
    """What is dealt where the loops over turns are bound to a type.

    Args:
        beside: other loops over blocks that may be inside.
        refused: the error for loops that cannot be dealt, given why.
    """
    found: set[tuple[int, int, int]] = set()
    for operation in operations:
        name, loops = operation.outputs[0].name, operation.outputs[0].loop
        kinds = [axis.parallel for axis in loops]
        if kinds[:1] != [kind] or kinds[1:2] != [ParallelType.grid_x]:
            raise refused(f"{name} has the loops {loops!r}")
        if any((k.is_of_blocks and k not in beside) or k.is_dealt for k in kinds[2:]):
            raise refused(f"{name} has other loops over blocks, too: {loops!r}")
        if isinstance(operation, Scan) or any(axis.is_reduction for axis in loops[:2]):
            raise refused(f"{name} joins what comes from one iteration to the next")
        turn, block = map(domains.group, loops[:2])
        wholes = {
            domains.sides(made)[0]
            for made in domains.touching(turn)
            if isinstance(made, Split) and domains.sides(made)[1:] == (turn, block)
        }
        if not wholes:
            raise refused(f"no split made the first two of the loops {loops!r} of {name}")
        found.add((wholes.pop(), turn, block))
    if len(found) > 1:
        raise refused("tensors have different loops there")
    ((whole, _, block),) = found
    return Dealt(domains.extent(whole), domains.extent(block), whole)
