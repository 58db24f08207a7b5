"""What a thread needs for its part of a row beside column sums: registers, and shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.schedulers.rows.rows import Rows
from warpsmith.targets.family import Limits
from warpsmith.values import dataclass

MOST_REGISTERS = 280
"""Registers that a thread may need by this count: with that many, kernels still fit in
all that instructions can name, 255."""

MOST_LOADING_REGISTERS = 272
"""The same where threads load rows themselves; where a thread has fewer than that, as
much in proportion."""

EASY_SHARE = 0.92
"""Of the registers that a thread is launched with: compilers that have no more than are needed put
loads behind one another, and kernels took up to 30 % longer."""

FIXED_REGISTERS = 30
"""Registers for addresses, predicates, results of reductions and the loop over rows."""

PREDICATE_REGISTERS = 8
"""More of them where some threads have less of a row than others."""

MOST_ELEMENTS = 64
"""Elements of a row in one thread: all loops over them are unrolled."""

MOST_BLOCKS_OF_THREADS = 2
"""Blocks of a multiprocessor, at most, where threads load rows themselves: each leaves a row of
partial sums, which is written and read again."""


def registers_of(threads: int, limits: Limits, *, tight: bool = False) -> int:
    """Registers that a thread may need by this module's count where a multiprocessor holds so many
    threads; `tight`, where several sums of several rows leave no room: of 7 LayerNorms that needed
    more than there are 6 spilled, up to 400 bytes, and took 14 to 49 % longer, and 60 that needed
    just these took 2 % longer than others without (H200).
    """
    each, most = limits.registers_each(threads), limits.thread_registers
    if tight:
        return int(EASY_SHARE * min(each, most))
    return MOST_REGISTERS if each > most else each * MOST_LOADING_REGISTERS // most


def shared_sums(rows: Rows, elements: int, block_y: int) -> int:
    """Bytes of shared memory in which a block adds what its rows of threads summed."""
    return rows.summed * elements * block_y if block_y > 1 else 0


def shapes(vectors: int, limits: Limits) -> Iterator[tuple[int, int]]:
    """(threads of a row, accesses of each): lanes of a warp, or whole warps."""
    for unroll in range(1, MOST_ELEMENTS + 1):
        lanes = -(-vectors // unroll)
        threads = 32 * -(-lanes // 32) if lanes > 16 else 1 << max(0, lanes - 1).bit_length()
        if threads <= limits.block_threads:
            yield threads, unroll
        if threads == 1:
            return


@dataclass(frozen=True, slots=True)
class Needs:
    """What a thread keeps: `size` bytes an element, and for one vector `passing` bytes more."""

    vector: int
    unroll: int
    size: int
    passing: int
    limits: Limits

    @property
    def registers(self) -> int:
        """Of a thread: what stays, a vector of floats being computed, and the rest."""
        stay = -(-self.unroll * self.vector * self.size // 4)
        work = 2 * self.vector + -(-self.vector * self.passing // 4)
        return stay + work + FIXED_REGISTERS

    @property
    def fits(self) -> bool:
        """Whether a thread that loads the row itself can keep it."""
        few = self.unroll * self.vector <= MOST_ELEMENTS
        return few and self.registers <= MOST_LOADING_REGISTERS

    def blocks_per_sm(self, threads: int) -> int:
        """Blocks that a multiprocessor has registers for."""
        registers = min(self.limits.thread_registers, self.registers)
        return min(self.limits.blocks_of(registers, threads), MOST_BLOCKS_OF_THREADS)
