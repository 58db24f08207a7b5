"""What schedulers of rows and columns that stay with blocks have in common."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar, Generic, TypeVar

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.fusion import Fusion
from warpsmith.schedulers.caching import Cached, add_caches
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.reduction.recompute import recompute_after
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.schedulers.rows.two_passes import in_two_passes
from warpsmith.values import dataclass

V = TypeVar("V", bound=Rows)


@dataclass(frozen=True)
class Kept(Candidate, Generic[V]):
    """A fusion whose rows or columns stay with blocks.

    Attributes:
        view_of: the class of `rows`.
    """

    view_of: ClassVar[type[Rows]]

    @cached_property
    def rows(self) -> V:
        """What it says of them."""
        return self.view_of(self.fusion, self.domains, self.caches)  # type: ignore[return-value]

    def declined_by(self, scheduler: str) -> bool:
        """Whether another scheduler, by its name, cannot take the fusion, whatever the sizes."""
        return any(name == scheduler for name, _ in self.refusals)


@dataclass(frozen=True)
class InRegisters(Kept[V]):
    """Where they stay in registers.

    Attributes:
        in_one_pass: moments of bfloat16 are, where that is near enough.
    """

    keeps: ClassVar[bool] = True
    in_one_pass: ClassVar[bool] = False

    @classmethod
    def prepared(cls, draft: Fusion) -> tuple[Cached, ...]:
        in_two_passes(draft, or_one=cls.in_one_pass)
        return add_caches(draft)

    @property
    def walked(self) -> Sequence[IterDomain]:
        return Rows(self.fusion, self.domains, self.caches).axes


@dataclass(frozen=True)
class WithTheGrid(Kept[V]):
    """Where all blocks of a grid, or of a cluster, keep them, which meet once."""

    sums_parts = True

    @classmethod
    def prepared(cls, draft: Fusion) -> tuple[Cached, ...]:
        return recompute_after(draft, add_caches(draft))

    def no_ring(self, problem: object) -> str:
        return "what a block has loaded it keeps"
