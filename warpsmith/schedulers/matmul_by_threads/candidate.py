"""The scheduler of products that threads multiply."""

from __future__ import annotations

from warpsmith.ir.fusion import Fusion
from warpsmith.schedulers.caching import Cached, add_caches
from warpsmith.schedulers.candidate import Alternatives, Candidate, Compared
from warpsmith.schedulers.matmul.applicability import refusal as of_tensor_cores
from warpsmith.schedulers.matmul.heuristic import product_of, works_of
from warpsmith.schedulers.matmul.memory import unloadable
from warpsmith.schedulers.matmul.model import START_US
from warpsmith.schedulers.matmul.words import to_tensor_cores
from warpsmith.schedulers.matmul_by_threads import applicability, apply, heuristic
from warpsmith.schedulers.matmul_by_threads.heuristic import MatmulByThreadsParams
from warpsmith.schedulers.matmul_by_threads.model import product_us
from warpsmith.schedulers.matmul_by_threads.sides import keep_apart
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.apply import SPLITS


class ProductByThreads(Candidate):
    scheduler = "matmul_by_threads"
    declines = staticmethod(applicability.refusal)
    lay = staticmethod(apply.apply)
    in_vectors = False

    @classmethod
    def prepared(cls, draft: Fusion) -> tuple[Cached, ...]:
        return keep_apart(draft, add_caches(draft))

    def parameters(self, problem: Problem) -> MatmulByThreadsParams:
        return heuristic.choose(self.fusion, self.domains, self.caches, problem)

    def symbols(self, params: MatmulByThreadsParams, problem: Problem) -> dict[str, int]:
        return {SPLITS: heuristic.sharing(self.fusion, params, problem)} if params.shared else {}

    def predicted(self, problem: Problem) -> Compared:
        return tuple((params.words, us) for params, us in self._ranked(problem) if us)

    def alternatives(self, problem: Problem) -> Alternatives:
        return tuple((params.words, params) for params, _ in self._ranked(problem))

    def advice(self, problem: Problem) -> tuple[str, ...]:
        reason = unloadable(self.fusion, problem)
        if not reason or of_tensor_cores(self.fusion, problem.target):
            return ()
        works = works_of(self.fusion, problem)
        return tuple(to_tensor_cores(works, problem, reason, self.us(problem)))

    def us(self, problem: Problem) -> float:
        return max(super().us(problem), self._multiplying(problem))

    def bounds(self, problem: Problem) -> dict[str, float]:
        """Of memory and products: nobody counts the rest of what tiles take."""
        return {
            "memory": super().bounds(problem)["memory"],
            "products by threads": self._multiplying(problem) - START_US,
        }

    def _ranked(self, problem: Problem) -> list[tuple[MatmulByThreadsParams, float]]:
        return heuristic.ranked(self.fusion, self.domains, self.caches, problem)

    def _multiplying(self, problem: Problem) -> float:
        return self._ranked(problem)[0][1] or product_us(product_of(self.fusion), problem)
