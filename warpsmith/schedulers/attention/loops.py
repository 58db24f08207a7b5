"""Loops of attention's tensors by their letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from warpsmith.ir.domains import IterDomain, ParallelType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.transforms import merge, parallelize, reorder, split

Axes = Mapping[str, Sequence[IterDomain]]

KINDS = {
    "P": ParallelType.grid_x,
    "S": ParallelType.grid_y,
    "y": ParallelType.block_y,
    "x": ParallelType.block_x,
}
"""Who runs the loops of these letters; the others run one after the other."""

OUTER = "PSJ"
"""Letters of the loops outside a tile."""

CHUNK = 64
"""Elements of 16 bits in 128 bytes, the longest rows that the TMA unit lays out in banks."""

SIDE, MOST_ROWS = 16, 8
"""Of an instruction, rows of the first operand, which are also its depth, and of the second."""


class Loops:
    """The loops of a tensor, each with a letter.

    P is what is apart, J tiles and S the blocks that share them, T keys of a tile, R rows, D depth,
    E columns. Inner parts that splits make have others.
    """

    def __init__(self, tensor: TensorView, axes: Axes, tile: int, blocks: int) -> None:
        self.tensor = tensor
        domains = map_of(Fusion.of(tensor))
        letters = {domains.group(axis): letter for letter, each in axes.items() for axis in each}
        made = (tensor,) if tensor.definition is None else tensor.definition.outputs
        for output in made:
            output.loop = [axis for axis in output.loop if not axis.is_broadcast]
        self.names = [letters.get(domains.group(axis), "N") for axis in tensor.loop]
        while self.names.count("P") > 1:
            place = self.names.index("P")
            merge(tensor, place, self.names.index("P", place + 1))
            del self.names[self.names.index("P", place + 1)]
        if "N" in self.names:
            self.split("N", tile, "T")
            self.names[self.names.index("N")] = "C"
        if "C" in self.names:
            self.split("C", blocks, "S")
            self.names[self.names.index("C")] = "J"

    def split(self, name: str, factor: int, inner: str) -> Self:
        """Split the inner part off a loop, if there is one."""
        if name in self.names:
            place = self.names.index(name)
            split(self.tensor, place, factor)
            self.names.insert(place + 1, inner)
        return self

    def rows(self) -> Self:
        """`[R, r]`: the rows of an instruction's second operand."""
        return self.split("R", MOST_ROWS, "r")

    def keys(self, warps: int) -> Self:
        """`[T, y, t]`: 16 keys of a warp."""
        return self.split("T", SIDE, "t").split("T", warps, "y")

    def shared_rows(self, rows: int, warps: int) -> Self:
        """`[R, y]`, or `[y]` where there are no more rows than warps: a warp has whole rows."""
        if rows > warps:
            return self.split("R", warps, "y")
        self.names = ["y" if name == "R" else name for name in self.names]
        return self

    def columns(self, warps: int) -> Self:
        """`[E, y, e]`: 16 columns of a warp, so that a warp's lie in one chunk."""
        self.split("E", CHUNK, "y").split("y", SIDE, "e")
        if "E" in self.names:
            place = self.names.index("E")
            merge(self.tensor, place)
            self.names[place : place + 2] = ["E"]
            self.split("E", warps, "y")
        return self

    def ordered(self, order: str) -> Self:
        """Bring them in an order, and bind those that have a thread or a block."""
        wanted = [name for name in order if name in self.names]
        moved = {self.names.index(name): place for place, name in enumerate(wanted)}
        reorder(self.tensor, moved)
        self.names = wanted
        for place, name in enumerate(wanted):
            parallelize(self.tensor, place, KINDS.get(name, ParallelType.serial))
        return self

    def copied(self, count: int) -> None:
        """The TMA unit runs the innermost loops at once."""
        for place in range(1, count + 1):
            parallelize(self.tensor, -place, ParallelType.tma)

    @property
    def outside(self) -> int:
        """Loops outside a tile."""
        return sum(name in OUTER for name in self.names)
