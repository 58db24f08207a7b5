"""Registers of a thread that keeps its part of a row, and the shapes of blocks that have them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from warpsmith.targets.family import Limits
from warpsmith.values import dataclass

BLOCK_THREADS = 128
"""Threads of a block that has several short rows."""

SHORT_VECTORS, SHORT_DENSE = 128, 320
"""Rows of up to this many vectors may be reduced by the lanes of one warp, without barriers; and
those that lie in one piece: with narrow accesses a block for each such row has too little on its
way (instance norms of 13x13 and 17x17 pixels took twice as long as a copy; one H100, 2026-11-26),
and LayerNorm of 31167x1048 took 50 microseconds with five warps, 44 with one (H200)."""

MANY = 8
"""Elements of a vector, of which a warp has so many that few of them are enough."""

MOST_THREADS = 512
"""Threads of a row in pieces, unless its registers need more."""

MOST_REGISTERS = 160
"""Registers that a thread may need by this count."""

MOST_NARROW_REGISTERS = 90
"""The same with accesses of fewer than VECTOR_BYTES, or in several pieces: where it says more,
kernels spill even with 128."""

MOST_BLOCKS_PER_SM = 16

FEW_THREADS, FEW_OF_MANY = 96, 64
"""Of a row that has warps of its own, and with vectors of MANY elements. Two rows of 64 threads
side by side meet at one barrier, and took up to 10 % longer."""

MOST_COVERED, MOST_OF_MANY = 1.25, 1.4
"""Of a row, by threads some of which have none of it."""

FIXED_REGISTERS = 12
"""Registers for addresses, predicates and results of reductions. With two for each element of a
vector, which is widened and computed, and those below, norms and softmaxes of 1024 to 16384 columns
spill two registers at most (NVRTC 13.0; tests/schedulers/test_persistent_registers.py)."""

PREDICATE_REGISTERS = 8
"""More of them in blocks of several rows, which may run past the last one."""

ACROSS_REGISTERS, NARROW_BYTES = 4, 2
"""More of them where vectors go across the begins and ends of rows; and where several inputs of so
many bytes stay as they were loaded, half of these: the compiler keeps some of them widened."""

NARROW_REGISTERS, CLUSTER_REGISTERS = 6, 6
"""More of them where accesses are narrow, and where they are in a cluster's blocks."""

WIDENED_REGISTERS = 0.25
"""More of them for each element, where costly operations are done on elements narrower than a
register: the compiler keeps some of them widened."""

PLACE_REGISTERS, SINGLE_REGISTERS = 1.5, 2
"""Registers for the place of an access in a row of several pieces: vectors, and single elements
(found with NVRTC 13.0 as those above; test_channels_outer.py)."""

MOST_ELEMENTS = 128
"""Elements of a row in one thread: all loops over them are unrolled."""

MOST_WIDENED = 64
"""The same where elements narrower than a register go through costly operations."""

MOST_MASKED = 64
"""The same where threads have not exactly a row: with 80, loads wait for one another, and rows of
24576 took 40 % longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a block has of a row: so many vectors, of elements with `size` bytes of registers each.

    For one vector there are `passing` bytes an element more. Where rows lie `in_pieces`, the place
    of each vector takes divisions, and stays in registers from its load to its store; and under
    predicates, the compiler keeps widened values of several `inputs`, too. Accesses are `narrow`
    where they have not VECTOR_BYTES, and some operations `costly` that are not done again.
    Blocks of a cluster have parts that are `clustered`, and vectors may go `across` the begins and
    ends of rows.
    """

    vectors: int
    vector: int
    size: int
    passing: int
    in_pieces: bool
    inputs: int
    narrow: bool
    costly: bool
    clustered: bool
    across: bool
    limits: Limits

    @property
    def fewest(self) -> int:
        """Threads that it takes at least, where it is long."""
        return BLOCK_THREADS if self.clustered else 32

    @property
    def short(self) -> int:
        """Vectors up to which the lanes of a warp may have it."""
        alone = not (self.in_pieces or self.clustered)
        return SHORT_DENSE if alone else SHORT_VECTORS

    @property
    def of_many(self) -> bool:
        """Whether it has whole vectors of MANY elements."""
        return self.vector >= MANY and not self.in_pieces

    @property
    def widens(self) -> bool:
        """Whether the compiler keeps some elements widened: for costly operations, and where a row
        that begins anywhere has several stages' conditions between them.
        """
        return (self.costly or self.across) and self.size < 4

    def registers(self, threads: int, unroll: int) -> int:
        """Of a thread: what stays, a vector of floats being computed, and the rest."""
        more = PREDICATE_REGISTERS if rows_of_block(threads) > 1 else 0
        more += ACROSS_REGISTERS if self.across else 0
        if self.narrow and not self.in_pieces:
            more += NARROW_REGISTERS + (CLUSTER_REGISTERS if self.clustered else 0)
        stay = -(-unroll * self.vector * self.size // 4)
        if self.in_pieces:
            if self.inputs > 1 and threads * unroll != self.vectors:
                stay += stay // 2
            stay += math.ceil(unroll * (PLACE_REGISTERS if self.vector > 1 else SINGLE_REGISTERS))
        if self.across and self.inputs > 1 and self.size <= NARROW_BYTES * self.inputs:
            stay += stay // 2
        if self.widens:
            stay += math.ceil(WIDENED_REGISTERS * unroll * self.vector)
        work = 2 * self.vector + -(-self.vector * self.passing // 4)
        return stay + work + FIXED_REGISTERS + more

    def blocks_per_sm(self, threads: int, unroll: int, more: int = 0) -> int:
        """Blocks that a multiprocessor has registers, so many `more`, and threads for."""
        held = threads * rows_of_block(threads)
        blocks = self.limits.blocks_of(self.registers(threads, unroll) + more, held)
        return min(blocks, self.limits.sm_threads // held, MOST_BLOCKS_PER_SM)

    def has_room(self, threads: int, unroll: int) -> bool:
        """Whether as many blocks have registers for what is passing of all of a thread's vectors,
        not of one alone. It is loaded where no vector is being computed, and few addresses live.
        """
        more = (unroll - 1) * self.vector * self.passing // 4
        more -= 2 * self.vector + FIXED_REGISTERS
        blocks = self.blocks_per_sm(threads, unroll)
        return self.blocks_per_sm(threads, unroll, max(0, more)) == blocks

    def fits(self, threads: int, unroll: int) -> bool:
        exact = threads * unroll == self.vectors
        deepest = MOST_ELEMENTS if exact or self.narrow else MOST_MASKED
        if self.widens:
            deepest = min(deepest, MOST_WIDENED)
        most = MOST_NARROW_REGISTERS if self.narrow else MOST_REGISTERS
        return (
            unroll * self.vector <= deepest
            and self.registers(threads, unroll) <= most
            and self.blocks_per_sm(threads, unroll) > 0
        )


def rows_of_block(threads: int) -> int:
    """Rows that a block has where one takes so many threads."""
    return max(1, BLOCK_THREADS // threads)


def shapes_of(row: Part, accesses: int, line: int) -> Iterator[tuple[int, int]]:
    """(threads of a row, accesses of each) that have the registers.

    Short rows take the lanes of a warp, or as few of them as read a `line` of vectors at once. Long
    ones take whole warps. Where they lie in pieces a thread has about `accesses`.
    """
    if row.vectors <= row.short:
        lanes = 1
        while (
            lanes < 32 and lanes < row.vectors and (lanes < line or lanes * accesses < row.vectors)
        ):
            lanes *= 2
        unroll = -(-row.vectors // lanes)
        if row.fits(lanes, unroll):
            yield lanes, unroll
    if row.narrow and row.vectors <= row.short:
        return
    yield from _in_pieces(row, accesses) if row.in_pieces else _all_warps(row)


def _all_warps(row: Part) -> Iterator[tuple[int, int]]:
    """Every number of warps that leaves few threads without work."""
    few = max(FEW_OF_MANY if row.of_many else FEW_THREADS, row.fewest)
    most = row.vectors * (MOST_OF_MANY if row.of_many else MOST_COVERED)
    for unroll in range(1, MOST_ELEMENTS // row.vector + 1):
        threads = _threads(row, unroll)
        needed = threads * (unroll - 1) < row.vectors
        little = needed and threads * unroll <= most
        if few <= threads <= row.limits.block_threads and little and row.fits(threads, unroll):
            yield threads, unroll


def _in_pieces(row: Part, accesses: int) -> Iterator[tuple[int, int]]:
    """That which leaves the fewest threads without work."""
    near = sorted(range(accesses - 1, 2 * accesses + 1), key=lambda each: abs(each - accesses))
    far = range(4, MOST_ELEMENTS + 1, 4)
    for most in (MOST_THREADS, row.limits.block_threads):
        for tried in (near, far):
            found = [
                (threads, unroll)
                for unroll in tried
                if unroll > 0
                and row.fewest <= (threads := _threads(row, unroll)) <= most
                and row.fits(threads, unroll)
            ]
            if found:
                yield min(found, key=math.prod)
                return


def _threads(row: Part, unroll: int) -> int:
    """In whole warps."""
    return 32 * -(-row.vectors // (32 * unroll))
