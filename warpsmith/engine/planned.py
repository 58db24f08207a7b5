"""A segment of a fusion, with its scheduler, and the kernels compiled for it so far."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from dataclasses import field, replace
from functools import partial
from typing import cast

from warpsmith.engine.compiled import CompiledKernel, asked, compile_fusion
from warpsmith.engine.demands import check_call, left_to_threads
from warpsmith.engine.spills import fewest_spills
from warpsmith.errors import (
    ArgumentError,
    KernelRefusal,
    PlanWarning,
    ScheduleError,
)
from warpsmith.ir.dtypes import DataType
from warpsmith.knobs import Knobs
from warpsmith.lower.request import Request
from warpsmith.planner.alike import renamed
from warpsmith.planner.segment import Segment, Unfit
from warpsmith.runtime.kept import KERNELS, LAUNCHES, PROOFS
from warpsmith.runtime.recent import Recent
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.params import Params
from warpsmith.schedulers.problem import Problem
from warpsmith.values import dataclass

MOST_REFUSED = 8
"""Of a scheduler's candidates, how many may have no machine code before others have the part."""

_Variant = tuple[Params | None, DataType, tuple[tuple[str, int], ...], Request]
"""Parameters, index type, tensors left to the threads with their alignment, and what is asked."""


class NoKernelError(Exception):
    """The schedule that a scheduler laid by itself makes no kernel; `unfit` says of which part."""

    def __init__(self, unfit: Unfit) -> None:
        super().__init__(unfit.reason)
        self.unfit = unfit


@dataclass(slots=True)
class PlannedSegment:
    """One kernel's share of a fusion.

    `choose` returns the compiled kernel for a call and the launch symbols' values; kernels are
    compiled once a variant. Where a call breaks what the TMA unit needs of a tensor, it gets a
    variant in which the threads copy that tensor.

    Attributes:
        segment: the share, by the program's names.
        candidate: how it is scheduled; None where that was done by hand. Segments that are alike
            share it, with its names, and all that was made of it.
        names: what the program calls each tensor and each symbol of the candidate; empty where the
            names are the same.
        alike: the segment that the candidate was made of, where that is another one.
        follows: another kernel of the call comes before it.
        followed: another one comes after it.
        last: in this call none does, as in a call of few rows.
        settled: by the candidate's names, inputs of the call that none of its kernels writes.
        launches: of calls so far, by what they depend on; for `engine/launches.py`.
        tried: a favourite is to be timed, and no other is taken in its place.
    """

    segment: Segment
    candidate: Candidate | None
    kernels: Recent[_Variant, CompiledKernel] = field(default_factory=lambda: Recent(KERNELS))
    follows: bool = False
    followed: bool = False
    last: bool = False
    settled: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    alike: Segment | None = None
    launches: Recent[Hashable, object] = field(default_factory=lambda: Recent(LAUNCHES))
    tried: bool = False
    _favourites: Recent[Hashable, str] = field(default_factory=lambda: Recent(LAUNCHES))
    _refused: Recent[Params, KernelRefusal] = field(default_factory=lambda: Recent(LAUNCHES))
    _proved: Recent[tuple[str, tuple[tuple[str, int], ...]], int] = field(
        default_factory=lambda: Recent(PROOFS)
    )

    def like(self, segment: Segment) -> PlannedSegment:
        """The plan of a segment that is alike."""
        names = segment.shape.names(self.segment.shape)
        return replace(self, segment=segment, names=names, alike=self.segment)

    def named(self, name: str) -> str:
        """What the program calls a tensor, a symbol, or scratch of a tensor of the kernels."""
        tensor, mark, rest = name.partition("_")
        return self.names.get(name) or f"{self.names.get(tensor, tensor)}{mark}{rest}"

    def local(self, problem: Problem) -> Problem:
        """The call as the candidate's names tell it, and nothing of it that concerns others."""
        if self.candidate is None:
            return problem
        names = {own: local for local, own in self.names.items()}
        values: dict[str, int] = {}
        alignment: dict[str, int] = {}
        for own in self.segment.shape.symbols:
            if own in problem.values:
                values[names.get(own, own)] = problem.values[own]
        into = self.segment.into.values()
        for tensor in (*self.segment.reads, *self.segment.writes, *into):
            local = names.get(tensor.name, tensor.name)
            for d in range(tensor.rank):
                if (stride := f"{tensor.name}_stride{d}") in problem.values:
                    values[f"{local}_stride{d}"] = problem.values[stride]
            if tensor.name in problem.alignment:
                alignment[local] = problem.alignment[tensor.name]
        chained = self.follows or self.followed
        return replace(problem, values=values, alignment=alignment, chained=chained)

    def unsupported_sizes(self, problem: Problem) -> str:
        """Why the scheduler cannot take a call after all; empty where it can."""
        if self.candidate is None:
            return ""
        local = self.local(problem)
        key = (
            "unsupported_sizes",
            frozenset(local.values.items()),
            frozenset(local.alignment.items()),
        )
        reason = self.launches.get(key)
        if reason is None:
            reason = self.launches.put(key, self.candidate.unsupported_sizes(local))
        return renamed(str(reason), self.names)

    def agreed(self, problem: Problem) -> dict[str, int]:
        """Sizes that the schedule decides, of tensors that pass between segments, by the names of
        the candidate, as the problem is.
        """
        if self.candidate is None:
            return {}
        params, _ = self._chosen(self.candidate, problem)
        return self.candidate.agreed(params, problem)

    def _chosen(self, candidate: Candidate, problem: Problem) -> tuple[Params, dict[str, int]]:
        """The parameters of a call, and the values of launch symbols; asked before and after the
        call has the sizes that they decide. Where they made no machine code, the next best ones.
        """
        asked = problem.rings, problem.warp_specialize, problem.pace
        favourite = self.favourite(problem)
        key = ("chosen", _call_key(candidate, problem), asked, favourite)
        found = self.launches.get(key)
        if found is None and favourite is not None:
            params = dict(candidate.alternatives(problem))[favourite]
            found = self.launches.put(key, candidate.settled(params, problem))
        elif found is None:
            found = self.launches.put(key, candidate.choose(problem))
        chosen = cast("tuple[Params, dict[str, int]]", found)
        few = len(self._refused) < MOST_REFUSED and not self.tried
        if not few or self._refused.get(chosen[0]) is None:
            return chosen
        others = (candidate.settled(p, problem) for _, p in candidate.alternatives(problem))
        return next((each for each in others if self._refused.get(each[0]) is None), chosen)

    def favour(self, problem: Problem, name: str) -> None:
        """Let one of the candidate's alternatives be chosen for a call that is autotuned."""
        self._favourites.put(_call_key(self.candidate, problem), name)

    def with_favourite(self, problem: Problem, name: str) -> PlannedSegment:
        """The segment with another alternative, whatever was found to be the best."""
        tried = replace(self, tried=True, _favourites=Recent(LAUNCHES))
        tried.favour(problem, name)
        return tried

    def with_candidate(self, candidate: Candidate) -> PlannedSegment:
        """The segment with another candidate, and nothing that was found out for this one."""
        return replace(self, candidate=candidate, launches=Recent(LAUNCHES))

    def favourite(self, problem: Problem) -> str | None:
        """The name of the alternative that is to be chosen; None where the model decides."""
        if not problem.autotune:
            return None
        return self._favourites.get(_call_key(self.candidate, problem))

    def choose(
        self, problem: Problem, index_type: DataType, knobs: Knobs
    ) -> tuple[CompiledKernel, dict[str, int], Params | None]:
        """The kernel of a call, told in the candidate's names, with its launch symbols' values.

        Raises NoKernelError where the candidate has none, and warns, with PlanWarning, where it is
        not of the parameters that were chosen first.
        """
        if self.candidate is None:
            return self._fitting(None, {}, problem, index_type, knobs)
        chosen, launch_values = self._chosen(self.candidate, problem)
        while (refusal := self._refused.get(chosen)) is None:
            try:
                return self._with_vectors(chosen, launch_values, problem, index_type, knobs)
            except (ArgumentError, ScheduleError) as failure:
                raise self._no_kernel(failure) from failure
            except KernelRefusal as failure:
                if knobs.override_dir is not None:  # the text may be its user's
                    raise
                self._refused.put(chosen, failure)
                chosen, launch_values = self._chosen(self.candidate, problem)
                if self._refused.get(chosen) is None:
                    _warn_of_refusal(self.candidate, failure)
        raise self._no_kernel(refusal) from refusal

    def _no_kernel(self, failure: Exception) -> NoKernelError:
        assert self.candidate is not None
        reason, key = f"its schedule fails: {failure}", self.segment.shape.key
        return NoKernelError(Unfit(self.candidate.scheduler, reason, key=key))

    def _with_vectors(
        self,
        params: Params,
        launch_values: dict[str, int],
        problem: Problem,
        index_type: DataType,
        knobs: Knobs,
    ) -> tuple[CompiledKernel, dict[str, int], Params | None]:
        """The kernel of these parameters, or that without vectors where a call allows none."""
        assert self.candidate is not None
        plain = params.without_vectors()
        try:
            return self._fitting(params, launch_values, problem, index_type, knobs)
        except (ArgumentError, ScheduleError):  # of vectors: no other demand is a candidate's
            if plain is None:
                raise
            return self._fitting(plain, launch_values, problem, index_type, knobs)

    def _fitting(
        self,
        params: Params | None,
        launch_values: dict[str, int],
        problem: Problem,
        index_type: DataType,
        knobs: Knobs,
    ) -> tuple[CompiledKernel, dict[str, int], Params | None]:
        """The kernel of these parameters, held against what the call allows."""
        values = {**problem.values, **launch_values}
        compiled = self._kernel(params, index_type, (), knobs, values)
        tma_alignment = left_to_threads(compiled, problem, launch_values)
        if tma_alignment:
            compiled = self._kernel(params, index_type, tma_alignment, knobs, values)
        check_call(compiled, problem, launch_values)
        self._prove(compiled, values, knobs)
        return compiled, launch_values, params

    def _kernel(
        self,
        params: Params | None,
        index_type: DataType,
        tma_alignment: tuple[tuple[str, int], ...],
        knobs: Knobs,
        values: Mapping[str, int],
    ) -> CompiledKernel:
        request = asked(
            knobs,
            follows=self.follows,
            followed=self.followed and not self.last,
            settled=self.settled,
            target=self.segment.target,
        )
        key = (params, index_type, tma_alignment, request)
        compiled = self.kernels.get(key)
        if compiled is not None:
            return compiled
        compile_ = partial(
            compile_fusion,
            index_type=index_type,
            knobs=knobs,
            target=self.segment.target,
            tma_alignment=dict(tma_alignment),
            values=values if knobs.verify != "off" else None,
            request=request,
        )
        if self.candidate is None or params is None:
            compiled = compile_(lambda: self.segment.fusion, "manual")
        else:
            part = self.alike or self.segment
            compiled = fewest_spills(self.candidate, params, compile_, part)
        if knobs.verify != "off":
            self._proved.put(_launch_key(compiled, values), compiled.shortened)
        return self.kernels.put(key, compiled)

    def _prove(self, compiled: CompiledKernel, values: Mapping[str, int], knobs: Knobs) -> None:
        """Show that the kernel cannot hang or race at sizes that it has not been launched at."""
        key = _launch_key(compiled, values)
        if knobs.verify != "off" and self._proved.get(key) is None:
            from warpsmith.engine.proofs import prove

            self._proved.put(key, prove(compiled.kernel, values, compiled.target))

    def shortened(self, compiled: CompiledKernel, values: Mapping[str, int]) -> int:
        """Iterations to which loops were cut in the proof for these sizes; 0 where none were."""
        return self._proved.get(_launch_key(compiled, values)) or 0

    def serves(
        self, compiled: CompiledKernel, problem: Problem, launch_values: dict[str, int]
    ) -> bool:
        """Whether one of the segment's kernels can be launched for a call as it is."""
        try:
            check_call(compiled, problem, launch_values)
        except ArgumentError:
            return False
        return not left_to_threads(compiled, problem, launch_values)


def warn_of(unfit: Unfit) -> None:
    """Say that a scheduler is left out of the plan of a part that it takes."""
    warnings.warn(
        f"{unfit.scheduler} takes a part of the program, but {unfit.reason}; the part is planned "
        "without it, which may be slower: please report it",
        PlanWarning,
        stacklevel=3,
    )


def _warn_of_refusal(candidate: Candidate, refusal: KernelRefusal) -> None:
    warnings.warn(
        f"the fastest kernel of {candidate.scheduler}, by prediction, is left out: {refusal}; the "
        "next one may be slower: please report it",
        PlanWarning,
        stacklevel=4,
    )


def _call_key(candidate: Candidate | None, problem: Problem) -> Hashable:
    """A call's sizes, but for those that follow from what is chosen for them."""
    decided = candidate.decides if candidate else ()
    values = frozenset(each for each in problem.values.items() if each[0] not in decided)
    return values, frozenset(problem.alignment.items())


def _launch_key(
    compiled: CompiledKernel, values: Mapping[str, int]
) -> tuple[str, tuple[tuple[str, int], ...]]:
    return compiled.name, tuple(sorted(values.items()))
