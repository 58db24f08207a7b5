"""The scheduler of reductions of one pattern."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.fusion import Fusion
from warpsmith.schedulers.caching import Cached, add_caches
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction import applicability, apply, heuristic
from warpsmith.schedulers.reduction.kept import kept_instead
from warpsmith.schedulers.reduction.params import ReductionParams
from warpsmith.schedulers.reduction.recompute import recompute_after
from warpsmith.schedulers.reduction.shape import shape_of
from warpsmith.schedulers.rows.rows import Rows


class Reduced(Candidate):
    scheduler = "reduction"
    declines = staticmethod(applicability.refusal)
    lay = staticmethod(apply.apply)

    @classmethod
    def prepared(cls, draft: Fusion) -> tuple[Cached, ...]:
        return recompute_after(draft, add_caches(draft))

    def unfit(self, problem: Problem) -> str:
        if self.declined_by("inner_persistent"):
            return ""
        return kept_instead(Rows(self.fusion, self.domains, self.caches), problem)

    def parameters(self, problem: Problem) -> ReductionParams:
        return heuristic.choose(self.fusion, self.domains, self.caches, problem)

    def symbols(self, params: ReductionParams, problem: Problem) -> dict[str, int]:
        if not params.splits:
            return {}
        shape = shape_of(self.fusion, self.domains, self.caches)
        return {apply.SPLITS: heuristic.splits(shape, params, problem)}

    def no_ring(self, problem: Problem) -> str:
        return heuristic.ring_refusal(self.fusion, self.domains, self.caches, problem)

    @property
    def walked(self) -> Sequence[IterDomain]:
        return Rows(self.fusion, self.domains, self.caches).axes
