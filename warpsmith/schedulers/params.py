"""What all parameters of schedules have in common."""

from __future__ import annotations

from typing import Self

from warpsmith.values import dataclass

HARMLESS_BYTES = 4
"""Of spilled stores and loads for each element of a row: rows bring twice that and more through the
memory, which moves a sixth of what a multiprocessor's L1 does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """What a scheduler has chosen of a kernel. Equal parameters are the same schedule."""

    @property
    def row_elements(self) -> int:
        """Of all its rows in one thread; 0 where rows do not stay in registers."""
        return 0

    @property
    def harmless_spills(self) -> int:
        """Bytes that a thread may spill without a word."""
        return HARMLESS_BYTES * self.row_elements

    def without_full_passes(self) -> Self:
        """The same with predicates on all passes over a row that threads load themselves. Loads
        then stand in one row, and are all under way at once; that is faster, unless it spills, or
        several inputs are loaded: then the compiler has too few predicates, and loads wait for
        uses.
        """
        return self

    def without_vectors(self) -> Self | None:
        """The same without vectors; None where it has none, or is nothing without them."""
        return None
