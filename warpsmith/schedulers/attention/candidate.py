"""The scheduler of attention of a few rows of queries."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir.fusion import Fusion
from warpsmith.schedulers.attention import apply, heuristic, shape
from warpsmith.schedulers.attention.heuristic import AttentionParams
from warpsmith.schedulers.caching import Cached, add_caches
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.layout import find_inner_run
from warpsmith.schedulers.problem import Problem


class Attention(Candidate):
    scheduler = "attention"
    declines = staticmethod(shape.refusal)
    lay = staticmethod(apply.apply)
    in_vectors = False

    @classmethod
    def prepared(cls, draft: Fusion) -> tuple[Cached, ...]:
        shape.with_products(draft)
        return add_caches(draft)

    def parameters(self, problem: Problem) -> AttentionParams:
        parts = shape.products_of(self.fusion)
        (query,) = (cached for cached in self.caches if cached.register is parts.query)
        run = find_inner_run(self.domains, query.copy.shape_axes, (query,))
        pairs = bool(run.vectorized(problem, 2))
        return replace(heuristic.choose(parts, problem), pairs=pairs)

    def us(self, problem: Problem) -> float:
        found = heuristic.candidates(shape.products_of(self.fusion), problem)
        return problem.target.rates.launch_us + min(us for _, us in found)
