"""The scheduler of pointwise programs that have nothing to do with each other.

What an optimizer does to each of its parameters is such a program: small ones take no longer than a
launch each, and all of them side by side no longer than one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warpsmith.ir.apart import apart
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.ir.program import Program
from warpsmith.schedule.caches import cache_after, cache_before
from warpsmith.schedulers.caching import Cached, in_memory, moved
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.pointwise import applicability, apply, heuristic
from warpsmith.schedulers.pointwise.heuristic import PointwiseParams
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reads import read_by_vectors, read_in_vectors
from warpsmith.schedulers.side_by_side.params import SideBySideParams, flat

MOST_TENSORS = 400
"""Tensors of a kernel, whose addresses are parameters: these have room for 4096 bytes, of which
sizes and strides need some."""


class SideBySide(Candidate):
    in_vectors = False
    scheduler = "side_by_side"

    @staticmethod
    def declines(fusion: Program) -> str:
        programs = apart(fusion)
        if len(programs) < 2:
            return "it is one program"
        if len(fusion.inputs) + len(fusion.outputs) > MOST_TENSORS:
            return f"it has more than {MOST_TENSORS} tensors"
        if any(output.place is not None for output in fusion.outputs):
            return "it writes a part of an input"
        for program in programs:
            if reason := applicability.refusal(program):
                return reason
            if not applicability.uses_agree(program):
                return "a program reads one input in two orders"
        return ""

    @staticmethod
    def lay(fusion: Fusion, caches: tuple[Cached, ...], params: SideBySideParams) -> None:
        fusion.side_by_side = True
        for program, part in zip(apart(fusion), params.parts, strict=True):
            apply.lay(fusion, program, _of(program, caches), part)
            read_by_vectors(fusion, part.vectorized, part.vector)

    @classmethod
    def prepared(cls, draft: Fusion) -> tuple[Cached, ...]:
        made: list[Cached] = []
        for program in apart(draft):
            own = set(program.computed)
            for tensor in program.input_tensors:
                uses = (use for use in draft.uses(tensor) if not in_memory(use, tensor))
                users = [out for use in uses for out in use.outputs if out in own]
                if users:
                    name = f"{tensor.name} for {users[0].name}"
                    made.append(Cached(tensor, cache_after(tensor, cached_uses=users), True, name))
        for output in dict.fromkeys(each.value for each in draft.outputs):
            made.append(Cached(output, cache_before(output), False, output.name))
        return tuple(made)

    def parameters(self, problem: Problem) -> SideBySideParams:
        alone = zip(apart(self.fusion), self._alone(problem), strict=True)
        return SideBySideParams(
            parts=tuple(_reading(program, flat(own), problem) for program, (own, _) in alone)
        )

    def unfit(self, problem: Problem) -> str:
        rates = problem.target.rates
        for params, caches in self._alone(problem):
            us = moved(caches, problem) / rates.memory
            if flat(params) != params and us > rates.launch_us:
                return f"{caches[-1].name} has blocks of another shape, and takes {us:.1f} us"
        return ""

    def _alone(self, problem: Problem) -> Iterator[tuple[PointwiseParams, tuple[Cached, ...]]]:
        """The schedule that each program has in a kernel of its own, and its caches."""
        for program in apart(self.fusion):
            caches = _of(program, self.caches)
            yield heuristic.choose(program, self.domains, caches, problem), caches


def _reading(program: Program, params: PointwiseParams, problem: Problem) -> PointwiseParams:
    """The schedule with what the program reads at computed places in vectors."""
    given = program, map_of(program), (), problem, params.vector
    names = read_in_vectors(*given, across=params.across)
    return replace(params, vectorized=(*params.vectorized, *names))


def _of(program: Program, caches: tuple[Cached, ...]) -> tuple[Cached, ...]:
    own = set(program.computed)
    return tuple(cached for cached in caches if cached.copy in own)
