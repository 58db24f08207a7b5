"""Kernels that would be there in place of a plan's: what they take, and what keeps them from it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from warpsmith.errors import SchedulerRefusal
from warpsmith.ir.fusion import Fusion
from warpsmith.schedulers.candidate import Refusals
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.select import refusals, select
from warpsmith.schedulers.table import SCHEDULERS
from warpsmith.values import dataclass

ALL = frozenset(kind.scheduler for kind in SCHEDULERS)

Names = tuple[Collection[str], Collection[str]]
"""Names of the tensors that a kernel reads, and of those that it writes."""


@dataclass(frozen=True, slots=True)
class Other:
    """A kernel that would be there in place of what is: its scheduler, and its microseconds; of one
    that no scheduler can compute, or none at these sizes, why.
    """

    scheduler: str = ""
    us: float = 0.0
    refusals: Refusals = ()

    def line(self, what: str, now: float) -> str:
        """What it would take, beside what is there now, or what keeps it from being."""
        if self.refusals:
            return "; ".join(f"{name}: {reason}" for name, reason in self.refusals)
        return f"{what} {self.scheduler} would take {self.us:.4g} µs, and now it takes {now:.4g}"


def other(fusion: Fusion, problem: Problem, asked: Collection[str] = ALL) -> Other:
    """The kernel that a fusion would be; of what schedulers say, only those in `asked` are told."""
    said = refusals(fusion, problem.target)
    try:
        candidate = select(fusion, problem.target, said)
    except SchedulerRefusal:
        return Other(refusals=tuple((name, why) for name, why in said if name in asked and why))
    name, unfit = candidate.scheduler, candidate.unsupported_sizes(problem)
    if unfit:
        return Other(refusals=((name, f"it would take both, but {unfit}"),))
    return Other(name, candidate.us(problem))


def between(kernels: Sequence[Names], writer: int, reader: int) -> int | None:
    """A kernel that the reader needs, and that needs the writer, as these two cannot be one then;
    None where there is none.
    """
    met = {writer, reader}
    names = dict.fromkeys(kernels[writer][1], writer)
    while behind := [
        number
        for number, (reads, _) in enumerate(kernels)
        if number not in met and not names.keys().isdisjoint(reads)
    ]:
        met.update(behind)
        names = {name: number for number in behind for name in kernels[number][1]}
        for name in kernels[reader][0]:
            if name in names:
                return names[name]
    return None
