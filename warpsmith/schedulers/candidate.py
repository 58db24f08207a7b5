"""A fusion made ready for one scheduler. Each scheduler is a class of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, final

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.schedulers.caching import Cached, add_caches
from warpsmith.schedulers.counts import multiply_by_reciprocals
from warpsmith.schedulers.params import Params
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reads import read_by_vectors, read_in_vectors
from warpsmith.schedulers.traffic import Traffic, traffic
from warpsmith.targets.target import Target
from warpsmith.values import dataclass

Refusals = tuple[tuple[str, str], ...]
"""By name, why a scheduler cannot take a fusion; an empty reason means that it can."""

Compared = tuple[tuple[str, float], ...]
"""Strategies in words, with the microseconds that each is predicted to take."""

Alternatives = tuple[tuple[str, Any], ...]
"""Parameters by a name that tells them apart, the fastest predicted first."""


@dataclass(frozen=True)
class Candidate:
    """A fusion with its caches, ready for the scheduler that its class is.

    Nothing changes the fusion: each schedule is laid on a draft of it. A subclass has no fields of
    its own, and `schedulers/table.py` lists it; what it is asked with parameters it chose.

    Attributes:
        refusals: why other schedulers declined.
        held: the parameters, where they are given whatever the sizes of a call.
        scheduler: the name in messages, `explain` and docs.
        declines: why it cannot take a fusion, whatever the target; empty where it can.
        lay: lays the schedule of some parameters on a draft.
        keeps: what is reduced stays in registers.
        sums_parts: it sums parts, or columns, and keeps all elements for what these sums give.
        loads_rows: kernels may have a role that loads rows.
        in_vectors: the innermost loop is a vector of one width, `vector` of the parameters.
        few_spills: bytes that a thread may spill for all of its loads to be under way at once.
        near_counts: each thread finds the reciprocals that it multiplies by for itself.
    """

    fusion: Fusion
    caches: tuple[Cached, ...]
    domains: DomainMap
    refusals: Refusals
    held: Params | None = None

    scheduler: ClassVar[str]
    declines: ClassVar[staticmethod[[Program], str]]
    lay: ClassVar[staticmethod[[Fusion, tuple[Cached, ...], Any], None]]
    keeps: ClassVar[bool] = False
    sums_parts: ClassVar[bool] = False
    loads_rows: ClassVar[bool] = False
    in_vectors: ClassVar[bool] = True
    few_spills: ClassVar[int] = 0
    near_counts: ClassVar[bool] = False

    @classmethod
    def refusal(cls, fusion: Program, target: Target) -> str:
        """Why the scheduler cannot take a fusion; empty where it can."""
        return cls.declines(fusion)

    @classmethod
    def prepared(cls, draft: Fusion) -> tuple[Cached, ...]:
        """The copies between memory and registers of a draft that the scheduler's passes have been
        over, after which nothing changes it any more.
        """
        return add_caches(draft)

    def declined_by(self, scheduler: str) -> bool:
        """Whether another scheduler, by its name, cannot take the fusion, whatever the sizes."""
        return any(name == scheduler for name, _ in self.refusals)

    def parameters(self, problem: Problem) -> Params:
        """Those of a call whose sizes are supported."""
        raise NotImplementedError

    def unfit(self, problem: Problem) -> str:
        """Why the scheduler cannot take a call, or had better not; empty where it is to."""
        return ""

    @final
    def unsupported_sizes(self, problem: Problem) -> str:
        """Why the scheduler cannot take a call, whose sizes it sees here; empty where it can."""
        return self.unfit(problem) if self.held is None else ""

    def unspecialized(self, problem: Problem) -> str:
        """Why no role of its own can load what the kernel computes; empty where one can, or where
        there is nothing to load.
        """
        return "the scheduler has no such form"

    @property
    def decides(self) -> tuple[str, ...]:
        """Names of the sizes that follow from the parameters, and that other segments see too."""
        return ()

    def agreed(self, params: Any, problem: Problem) -> dict[str, int]:
        """The values of these."""
        return {}

    @final
    def choose(self, problem: Problem) -> tuple[Any, dict[str, int]]:
        """The schedule's parameters, and the values of its launch symbols."""
        if self.held is not None:
            return self.held, self.symbols(self.held, problem)
        return self.settled(self.parameters(problem), problem)

    @final
    def settled(self, params: Any, problem: Problem) -> tuple[Any, dict[str, int]]:
        """Parameters of a call, or an alternative to them, with results that are read in vectors;
        and the values of the launch symbols.
        """
        symbols = self.symbols(params, problem)
        if names := self.read_in_vectors(params, problem):
            params = replace(params, vectorized=(*params.vectorized, *names))
        return params, symbols

    def symbols(self, params: Any, problem: Problem) -> dict[str, int]:
        """The values of the launch symbols that a schedule of these parameters has in a call."""
        return {}

    def read_in_vectors(self, params: Any, problem: Problem) -> tuple[str, ...]:
        """Results that are read in vectors, besides what the parameters name."""
        if not self.in_vectors:
            return ()
        return read_in_vectors(self.fusion, self.domains, self.walked, problem, params.vector)

    def predicted(self, problem: Problem) -> Compared:
        """The strategies that were compared: for as many rows as the model chooses by, which stand
        for those of the call.
        """
        return ()

    def alternatives(self, problem: Problem) -> Alternatives:
        """The schedules that autotuning may choose from, of which the first is `parameters`; none
        where nobody looks for others.
        """
        return ()

    def told(self, params: Any) -> tuple[str, ...]:
        """Parameters in the lines that nvFuser has for them; none where it has none."""
        return ()

    def advice(self, problem: Problem) -> tuple[str, ...]:
        """What keeps a call from a faster path, and what its user could change."""
        return ()

    def no_ring(self, problem: Problem) -> str:
        """Why loads do not run ahead through shared memory; empty where they do."""
        return ""

    def multiplies(self, params: Any) -> bool:
        """Whether `scheduled` multiplies where the fusion divides."""
        return False

    @property
    def walked(self) -> Sequence[IterDomain]:
        """The dimensions of a kernel's loops, slowest first; none where nobody knows them, as of a
        product, whose tiles do not walk them in order.
        """
        return ()

    def rows_at_once(self, problem: Problem) -> tuple[Sequence[IterDomain], int]:
        """All of `walked` but those along which a thread has several elements at once, and how many
        it has: it computes once for all of them what has none of these dimensions.
        """
        return (), 1

    def staged(self, problem: Problem) -> tuple[str, ...]:
        """Names of the tensors that lie along another dimension, and pass through shared memory."""
        return ()

    @final
    def traffic(self, problem: Problem) -> Traffic:
        """What the kernel moves and computes, but for what a product's operands take."""
        given = self.walked, problem, self.staged(problem), self.rows_at_once(problem)
        return traffic(self.fusion, self.domains, self.caches, *given)

    def us(self, problem: Problem) -> float:
        """Microseconds that the kernel takes, the launch among them, for sizes that are supported.

        Models of rows predict many rows, to choose a shape by; here it is those of the call that
        count, and all kernels that move the same bytes are taken to be equally fast.
        """
        return self.traffic(problem).us(problem.target)

    def bounds(self, problem: Problem) -> dict[str, float]:
        """Microseconds for which each resource works if nothing else holds it up: the most of them
        is what no schedule of the kernel is faster than, by the model.
        """
        return self.traffic(problem).busy(problem.target)

    @final
    def scheduled(self, params: Any) -> Fusion:
        """A draft of the fusion with the schedule laid on it."""
        fusion = self.fusion.draft()
        tensors = {tensor.number: tensor for tensor in fusion.tensors}
        caches = tuple(cached.within(tensors) for cached in self.caches)
        if self.multiplies(params):
            multiply_by_reciprocals(fusion, near=self.near_counts)
        self.lay(fusion, caches, params)
        if self.in_vectors:
            read_by_vectors(fusion, params.vectorized, params.vector)
        return fusion
