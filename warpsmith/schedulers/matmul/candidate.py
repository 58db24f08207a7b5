"""The scheduler of products that tensor cores compute."""

from __future__ import annotations

from warpsmith.ir.fusion import Fusion
from warpsmith.ir.program import Program
from warpsmith.schedulers.caching import Cached, add_caches
from warpsmith.schedulers.candidate import Alternatives, Candidate, Compared
from warpsmith.schedulers.matmul import applicability, apply, heuristic, words
from warpsmith.schedulers.matmul.blocks import by_blocks
from warpsmith.schedulers.matmul.heuristic import MatmulParams, Work
from warpsmith.schedulers.matmul.memory import unstaged
from warpsmith.schedulers.matmul.partials import partials_of, settled, sizes_of
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.target import Target


class Product(Candidate):
    scheduler = "matmul"
    lay = staticmethod(apply.apply)
    in_vectors = False

    @classmethod
    def refusal(cls, fusion: Program, target: Target) -> str:
        return applicability.refusal(fusion, target)

    @classmethod
    def prepared(cls, draft: Fusion) -> tuple[Cached, ...]:
        by_blocks(draft)
        return add_caches(draft)

    def unfit(self, problem: Problem) -> str:
        return heuristic.unsupported_sizes(self.fusion, problem)

    def parameters(self, problem: Problem) -> MatmulParams:
        return heuristic.choose(self.fusion, problem)

    @property
    def decides(self) -> tuple[str, ...]:
        return tuple(size.name for size in sizes_of(partials_of(self.fusion)))

    def agreed(self, params: MatmulParams, problem: Problem) -> dict[str, int]:
        values = settled(params)
        return {n: next(values[k] for k in values if n.startswith(k)) for n in self.decides}

    def predicted(self, problem: Problem) -> Compared:
        return words.compared(self._works(problem), problem)

    def alternatives(self, problem: Problem) -> Alternatives:
        ranked = heuristic.ranked(self.fusion, problem)
        return tuple((words.shortly(params), params) for params, _ in ranked)

    def advice(self, problem: Problem) -> tuple[str, ...]:
        product = heuristic.product_of(self.fusion)
        kept = unstaged(self.fusion, product, problem)
        return tuple(words.advice(self._works(problem), problem, kept))

    def told(self, params: MatmulParams) -> tuple[str, ...]:
        return params.told(by_group=heuristic.product_of(self.fusion).ends is not None)

    def us(self, problem: Problem) -> float:
        return heuristic.best_way(self._works(problem), problem)[1]

    def bounds(self, problem: Problem) -> dict[str, float]:
        """Of memory and tensor cores: nobody counts the rest of what tiles take."""
        work = self._works(problem)[0]
        terms = work.batches * work.products * work.m * work.n * work.k * work.element
        return {
            "memory": super().bounds(problem)["memory"],
            "tensor cores": terms / problem.target.rates.tensor,
        }

    def _works(self, problem: Problem) -> tuple[Work, ...]:
        return heuristic.works_of(self.fusion, problem)
