"""The parameters of a schedule of reductions."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from warpsmith.schedulers.params import Params
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionParams(Params):
    """A reduction schedule.

    Attributes:
        inner: the fastest dimension is reduced.
        vector: adjacent elements per thread and access.
        unroll: accesses along the reduced dimension per thread, issued before the first use.
        rows_per_thread: results per thread along the kept dimension (inner reductions only).
        block_x: threads along the fastest dimension.
        block_y: threads along the other one.
        blocks_per_sm: blocks that a multiprocessor holds at once.
        splits_first: blocks that share a result are neighbours in the order in which they start.
        vectorized: names of the global tensors accessed in vectors.
        ring: stages through which tiles are loaded ahead; 0 where threads load for themselves.
        exact: one pass takes all that is reduced, and nothing is split over blocks.
        whole: a row is one block's, in as many passes as it takes.
    """

    inner: bool
    vector: int
    unroll: int
    rows_per_thread: int
    block_x: int
    block_y: int
    blocks_per_sm: int
    splits_first: bool
    vectorized: tuple[str, ...]
    ring: int = 0
    exact: bool = False
    whole: bool = False

    @property
    def splits(self) -> bool:
        """Whether each launch says how many blocks share a result."""
        return not (self.exact or self.whole)

    def without_vectors(self) -> Self | None:
        return None if self.vector == 1 or self.ring else replace(self, vector=1, vectorized=())
