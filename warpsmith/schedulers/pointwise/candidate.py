"""The scheduler of fusions without reductions."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.fusion import Fusion
from warpsmith.schedulers.caching import Cached, add_caches
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.pointwise import applicability, apply, heuristic
from warpsmith.schedulers.pointwise.heuristic import PointwiseParams
from warpsmith.schedulers.pointwise.repeated import first_of_rows
from warpsmith.schedulers.pointwise.reshaped import without_reshapes
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reads import read_in_vectors


class Pointwise(Candidate):
    scheduler = "pointwise"
    declines = staticmethod(applicability.refusal)
    lay = staticmethod(apply.apply)

    @classmethod
    def prepared(cls, draft: Fusion) -> tuple[Cached, ...]:
        without_reshapes(draft)
        return add_caches(draft)

    def parameters(self, problem: Problem) -> PointwiseParams:
        return heuristic.choose(self.fusion, self.domains, self.caches, problem)

    def symbols(self, params: PointwiseParams, problem: Problem) -> dict[str, int]:
        return {apply.BLOCKS: heuristic.blocks(params, problem)} if params.ring > 1 else {}

    def read_in_vectors(self, params: PointwiseParams, problem: Problem) -> tuple[str, ...]:
        if not params.exact:
            return ()
        given = self.fusion, self.domains, self.walked, problem, params.vector
        return read_in_vectors(*given, across=params.across)

    def no_ring(self, problem: Problem) -> str:
        return heuristic.no_ring(self.fusion, self.domains, self.caches, problem)

    @property
    def walked(self) -> Sequence[IterDomain]:
        return heuristic.inner_run(self.fusion, self.domains, self.caches, apart=True).axes

    def rows_at_once(self, problem: Problem) -> tuple[Sequence[IterDomain], int]:
        params = self.parameters(problem)
        if not params.width:
            return (), 1
        run = heuristic.inner_run(self.fusion, self.domains, self.caches)
        first = first_of_rows(self.domains, self.caches, run)
        return (*run.axes[:first], *run.axes[run.start :]), params.unroll

    def staged(self, problem: Problem) -> tuple[str, ...]:
        turned = self.parameters(problem).transposed
        return turned.names if turned else ()
