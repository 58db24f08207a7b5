"""The scheduler of scans."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir.domains import IterDomain
from warpsmith.schedulers.candidate import Alternatives, Candidate, Compared
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.scan import applicability, apply, heuristic
from warpsmith.schedulers.scan.heuristic import ScanParams


class Scanned(Candidate):
    scheduler = "scan"
    declines = staticmethod(applicability.refusal)
    lay = staticmethod(apply.apply)
    in_vectors = False

    def parameters(self, problem: Problem) -> ScanParams:
        return heuristic.choose(self.fusion, self.domains, self.caches, problem)

    def predicted(self, problem: Problem) -> Compared:
        return tuple((params.words, us) for params, us in self._shapes(problem))

    def alternatives(self, problem: Problem) -> Alternatives:
        fastest_first = sorted(self._shapes(problem), key=lambda each: each[1])
        return tuple((params.words, params) for params, _ in fastest_first)

    def no_ring(self, problem: Problem) -> str:
        return "a scan waits for what comes before, and loads when it has it"

    @property
    def walked(self) -> Sequence[IterDomain]:
        run = heuristic.run_of(self.fusion, self.domains, self.caches)
        if len(run.axes) < 2 or heuristic.along_rows(run, self.caches):
            return run.axes
        *slower, fastest, scanned = run.axes
        return (*slower, scanned, fastest)

    def us(self, problem: Problem) -> float:
        waited = min(us for _, us in self._shapes(problem))
        return max(super().us(problem), waited + problem.target.rates.launch_us)

    def _shapes(self, problem: Problem) -> Sequence[tuple[ScanParams, float]]:
        return heuristic.candidates(self.fusion, self.domains, self.caches, problem)
