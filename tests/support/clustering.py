"""Clusters in the interpreter: where a rank's block is, and what blocks do to each other's memory.

Within a block, barriers of the block order accesses (`memory.py`). Between blocks only barriers of
the cluster do; so accesses since the last one are remembered by block.
"""

from __future__ import annotations

import numpy as np

from tests.support.memory import NOBODY, SEVERAL, Fault, Memory


class Accesses:
    """Which block wrote and read each element of a shared buffer since the cluster met."""

    def __init__(self, memory: Memory, threads: int) -> None:
        self._memory = memory
        self._threads = threads
        self._writer = np.full(memory.data.shape, NOBODY)
        self._reader = np.full(memory.data.shape, NOBODY)

    def read(self, places: np.ndarray, threads: np.ndarray) -> None:
        """Tensor cores, which are no threads, are left out: wherever they read, blocks have met."""
        places, blocks = places[threads >= 0], threads[threads >= 0] // self._threads
        self._expect(self._writer, places, blocks, "read", "wrote")
        reader = self._reader[places]
        alone = (reader == NOBODY) | (reader == blocks)
        self._reader[places] = np.where(alone, blocks, SEVERAL)
        self._reader[places[self._reader[places] != blocks]] = SEVERAL

    def write(self, places: np.ndarray, threads: np.ndarray) -> None:
        blocks = threads // self._threads
        self._expect(self._reader, places, blocks, "written", "read")
        self._expect(self._writer, places, blocks, "written", "wrote")
        self._writer[places] = blocks

    def met(self) -> None:
        self._writer[:] = NOBODY
        self._reader[:] = NOBODY

    def _expect(
        self, who: np.ndarray, places: np.ndarray, blocks: np.ndarray, now: str, before: str
    ) -> None:
        clash = (who[places] != NOBODY) & (who[places] != blocks)
        if np.any(clash):
            place = int(places[np.argmax(clash)]) % self._memory.size
            name = self._memory.buffer.name
            raise Fault(f"{name}[{place}] is {now}, which another block {before} since they met")


class Peers:
    """The clusters of a launch.

    Args:
        grid, cluster: blocks along x, y, z; x is the fastest.
        threads: of a block.
    """

    def __init__(self, grid: tuple[int, ...], cluster: tuple[int, int, int], threads: int) -> None:
        if any(extent % part for extent, part in zip(grid, cluster, strict=True)):
            raise Fault(f"the grid {grid} is no multiple of the cluster {cluster}")
        self.size = int(np.prod(cluster))
        self._threads = threads
        z, y, x = (each.reshape(-1) for each in np.indices(tuple(reversed(grid))))
        inner = zip((x, y, z), cluster, strict=True)
        (a, b, c) = (place % part for place, part in inner)
        self.ranks = a + cluster[0] * (b + cluster[1] * c)
        first = (x - a) + grid[0] * ((y - b) + grid[1] * (z - c))
        origins, clusters = np.unique(first, return_inverse=True)
        members = np.empty((len(origins), self.size), np.int64)
        members[clusters, self.ranks] = np.arange(len(x))
        self._blocks = members[clusters]
        self._watched: list[Accesses] = []
        self._started = self._reached = self._announced = False

    def watch(self, memory: Memory) -> None:
        """Look at what blocks do to a shared buffer from now on."""
        if self.size > 1:
            memory.between = Accesses(memory, self._threads)
            self._watched.append(memory.between)

    def rows(self, blocks: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        """Blocks of these ranks in the clusters of other blocks, that are about to be reached."""
        if not self._started:
            raise Fault("another block's memory is used, and that block may not have started")
        if np.any((ranks < 0) | (ranks >= self.size)):
            raise Fault(f"rank {int(ranks.max())} is none of a cluster of {self.size} blocks")
        self._reached = True
        return self._blocks[blocks, ranks]

    def announced(self) -> None:
        """All threads have said that their block has started."""
        if self._announced:
            raise Fault("a start is announced twice")
        self._announced = True

    def awaited(self) -> None:
        """All threads have waited for the start of all blocks."""
        if not self._announced:
            raise Fault("a start is awaited that was not announced")
        self._started, self._announced = True, False

    def met(self) -> None:
        """All threads of each cluster have met."""
        if self._announced:
            raise Fault("blocks meet, and a start was announced that nobody awaited")
        self._started, self._reached = True, False
        for accesses in self._watched:
            accesses.met()

    def end(self) -> None:
        if self._reached:
            raise Fault("another block's memory was used last, and that block may have ended")
