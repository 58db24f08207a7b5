"""The parameters of a schedule of rows, whatever is summed of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from warpsmith.schedulers.params import Params
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass

FEW_ACCESSES = 4
"""Of a lane to a row, up to which one pass is no slower: LayerNorms of 1032 to 1272 columns took
0.96 of the time by two, of 64 to 128 0.91, of 192 to 1016 1.01 (51 sizes, an H200, 2026-11-27)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowParams(Params):
    """A schedule whose rows stay in registers from one reduction to the next.

    Attributes:
        vector: adjacent elements per thread and access.
        unroll: accesses of a row and input per thread, all issued before the first use.
        rows_per_thread: rows of a thread, loaded and reduced together.
        cluster: blocks that share a row; 1 where it is one block's.
        block_x: threads of a block that a row has.
        block_y: rows that a block has side by side.
        blocks_per_sm: blocks that a multiprocessor holds at once.
        exact: the threads' vectors are exactly the row's, so that none needs a predicate.
        full: accesses of each thread that need none in any block, where threads have not exactly a
            row.
        reload_weights: inputs that all rows share are loaded where they are used, not at the start.
        together: what is loaded so late is loaded for all accesses of a thread before the first is
            used, and waited for once; else for one after the other.
        again: costly values are computed again, where that takes fewer registers than to keep them.
        vectorized: names of the global tensors accessed in vectors.
        ring: stages through which blocks that loop over rows load them ahead; 0 where threads load
            for themselves.
        warp_specialize: a role loads rows into the ring, and block_y are groups that take turns.
        reread: rows are read from shared memory again for each reduction, not kept in registers.
        weights_in_shared: what all rows share stays in shared memory, not in registers.
        joined: the sums of columns of groups that take turns are added before the block leaves
            them.
        row: elements of a row, or of a block's part of it, of which all are copied at once, where
            threads have not exactly these; else 0.
        uneven: elements of all of a row, where the last block of a cluster that loops over rows has
            fewer than the others; else 0.
        by_threads: threads load rows into the ring by `cp.async`, not the TMA unit.
        chunks: rows neither begin nor end at multiples of 16 bytes, and the TMA unit brings all of
            the 16-byte chunks that a row lies in.
        across: accesses begin at multiples of a vector in memory, wherever rows begin; the first
            and the last of a row may have elements of others. Where blocks loop over rows, `row`
            has room for these, and `uneven` is all of a row.
        interval: nanoseconds for each turn, whose loads do not begin before its time, so that no
            block runs ahead of the others; 0 where stages alone say when.
        streaming: loads of rows leave no copy in L1; whole rows that copies bring into the L2 are
            the first to go.
        evict_last: what they bring into the L2 is the last to go.
    """

    vector: int
    unroll: int
    rows_per_thread: int = 1
    cluster: int = 1
    block_x: int
    block_y: int = 1
    blocks_per_sm: int = 1
    exact: bool
    full: int = 0
    reload_weights: bool = False
    together: bool = False
    again: bool = False
    vectorized: tuple[str, ...] = ()
    ring: int = 0
    warp_specialize: bool = False
    reread: bool = False
    weights_in_shared: bool = False
    joined: bool = False
    row: int = 0
    uneven: int = 0
    by_threads: bool = False
    chunks: bool = False
    across: bool = False
    interval: int = 0
    streaming: bool = False
    evict_last: bool = False

    @property
    def words(self) -> str:
        """Who computes rows, and in which shape, in a few words; how many stages it has is not of
        them.
        """
        marks = "again", "across", "reread", "reload_weights", "weights_in_shared"
        waves = "waves loaded ahead" if self.ring else "waves"
        return ", ".join(
            (
                "a role" if self.warp_specialize else waves,
                f"{self.block_y}x{self.block_x} threads",
                f"{self.unroll}x{self.vector} elements",
                f"{self.rows_per_thread} rows",
                f"{self.blocks_per_sm} blocks",
                f"cluster {self.cluster}",
                *(mark.replace("_", " ") for mark in marks if getattr(self, mark)),
            )
        )

    @property
    def apart(self) -> bool:
        """Whether each group of a block leaves sums of columns of its own."""
        return self.warp_specialize and not self.joined

    @property
    def at_once(self) -> int:
        """Rows of a block."""
        return self.block_y * self.rows_per_thread

    @property
    def two_passes(self) -> bool:
        """Whether sums of squares wait for the mean, in place of an element that is read apart:
        where the lanes of a warp have rows, and each several of them or many accesses.
        """
        return self.block_x <= WARP and (self.rows_per_thread > 1 or self.unroll > FEW_ACCESSES)

    @property
    def row_elements(self) -> int:
        return self.rows_per_thread * self.unroll * self.vector

    def without_full_passes(self) -> Self:
        return self if self.across or self.by_threads else replace(self, full=0)
