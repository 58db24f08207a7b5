"""A schedule of programs side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from warpsmith.schedulers.params import Params
from warpsmith.schedulers.pointwise.heuristic import THREADS, PointwiseParams
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySideParams(Params):
    """The schedules of the programs, in their order, each without tiles in shared memory, and
    without rows across the block.
    """

    parts: tuple[PointwiseParams, ...]

    def without_vectors(self) -> Self | None:
        plain = tuple(part.without_vectors() or part for part in self.parts)
        return None if plain == self.parts else replace(self, parts=plain)


def flat(params: PointwiseParams) -> PointwiseParams:
    """The schedule, or one of single elements where its blocks are of another shape."""
    if params.transposed is None and not params.width and not params.ring:
        return params
    plain = replace(params, transposed=None, width=0, ring=0, threads=THREADS, unroll=1)
    return plain.without_vectors() or plain
