"""What carries the contents of a stage, read from the statements that fill it."""

from __future__ import annotations

from warpsmith.ir.domains import MemoryType
from warpsmith.kernel.accesses import accesses
from warpsmith.kernel.effects import Done
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.kernel.pipelines import By
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.traversal import walk


def carrier(buffer: Buffer, fills: tuple[Statement, ...]) -> By:
    """What fills a stage of a buffer by these statements."""
    if buffer.memory is MemoryType.local:
        return By.REGISTERS
    tiles = [s for s in walk(fills) if isinstance(s, TileCopy)]
    if tiles and all(tile.how.is_tma for tile in tiles):
        return By.TMA
    done = {access.effect.done for each in walk(fills) for access in accesses(each)}
    return By.COPIES if Done.COPIES in done else By.THREADS
