"""The shapes of kernels of rows that the model considers for a problem, and how one is forced."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from bench.problem import Problem
from warpsmith.engine.executable import Executable
from warpsmith.engine.launches import CallPlan, Launch
from warpsmith.schedulers.rows import predict, strategy
from warpsmith.schedulers.rows.model import predicted_us
from warpsmith.schedulers.rows.work import Work

SHAPE = (
    *("block_x", "vector", "unroll", "block_y", "rows_per_thread", "blocks_per_sm", "cluster"),
    *(
        "ring",
        "warp_specialize",
        "joined",
        "reread",
        "reload_weights",
        "together",
        "weights_in_shared",
    ),
    *("exact", "full", "by_threads", "chunks", "across"),
)
"""Parameters that say who computes rows, and in which shape."""


@dataclass(frozen=True, slots=True)
class Considered:
    """Parameters that a heuristic predicted a time for, and what is to be done with them."""

    params: Any
    us: float
    work: Work | None = None

    @property
    def words(self) -> str:
        """What differs most from shape to shape, in short."""
        p = self.params
        marks = "".join(f" {mark}" for mark in ("exact", "together") if getattr(p, mark))
        return f"{p.words}, ring {p.ring}{marks}"

    @property
    def shape(self) -> dict[str, Any]:
        """The parameters that the model sees; what follows from the call comes later."""
        return {name: getattr(self.params, name) for name in SHAPE}

    @property
    def kind(self) -> str:
        """What tells shapes apart: not how many stages they have."""
        words: str = self.params.words
        return words


@contextmanager
def noted() -> Iterator[list[Considered]]:
    """The list gets every shape whose time is predicted while this lasts."""
    found: list[Considered] = []

    def predicted(work: Work, params: Any, target: Any) -> float:
        found.append(Considered(params, predicted_us(work, params, target), work))
        return found[-1].us

    with mock.patch.object(predict, "predicted_us", predicted):
        yield found


@contextmanager
def forced(params: Any) -> Iterator[None]:
    """Rows get these parameters while this lasts; what follows from the call is still its own."""
    with mock.patch.object(strategy, "candidates", return_value=((params, 0.0),)):
        yield


@dataclass(frozen=True, slots=True)
class Planned:
    """What a problem gets, and what else it might have got.

    Attributes:
        others: shapes of rows that are predicted to be fastest, one of each kind.
        own: the shape that is chosen; None where no rows are kept.
        kernels: all kernels of the plan, in short.
    """

    others: tuple[Considered, ...]
    own: Considered | None
    kernels: str

    @property
    def words(self) -> str:
        """What is chosen."""
        only = self.own and " + " not in self.kernels
        return (
            f"{self.own.words}, {self.own.us:.1f} predicted" if only and self.own else self.kernels
        )


def considered(problem: Problem, most: int) -> Planned:
    """The plan of a problem, and other shapes for its rows."""
    taken: list[Any] = []
    real = strategy.choose

    def choose(*given: Any) -> Any:
        taken.append(real(*given))
        return taken[-1]

    with noted() as found, mock.patch.object(strategy, "choose", choose):
        call = plan(problem)
    by_kind: dict[str, Considered] = {}
    for each in sorted(found, key=lambda each: each.us):
        by_kind.setdefault(each.kind, each)
    kernels = " + ".join(_words(call, launch) for launch in call.launches)
    if not taken:
        return Planned((), None, kernels)
    own = Considered(taken[-1], math.nan)
    own = next((each for each in found if each.shape == own.shape), own)
    others = [each for each in by_kind.values() if each.kind != own.kind]
    return Planned(tuple(others[:most]), own, kernels)


def _words(call: CallPlan, launch: Launch) -> str:
    """A kernel: its scheduler, its grid, its block, and what differs most from shape to shape."""
    candidate = call.segments[launch.segment].candidate
    said = (
        f"{candidate.scheduler if candidate else 'by hand'} "
        f"{'x'.join(map(str, launch.grid))} of {'x'.join(map(str, launch.block))}"
    )
    named = ((name, getattr(launch.params, name, None)) for name in ("vector", "unroll", "cluster"))
    return said + "".join(f" {name} {value}" for name, value in named if value)


def plan(problem: Problem) -> CallPlan:
    """What the problem's sizes get, compiled into the cache, with no GPU."""
    return ahead(problem)[1]


def ahead(problem: Problem) -> tuple[Executable, CallPlan]:
    """The problem, and what its sizes get, compiled with no GPU: a call of it then finds all."""
    import numpy as np

    from warpsmith import fuse
    from warpsmith.runtime.arrays import NUMPY_DTYPES

    pairs = zip(problem.shapes, problem.dtypes, strict=True)
    arrays = [np.empty(shape, NUMPY_DTYPES[dtype]) for shape, dtype in pairs]
    lowered = fuse(problem.fused).lower(*arrays)
    given = [*arrays, *(1 for _ in lowered.fusion.input_scalars)]
    made = Executable(lowered.fusion)
    return made, made.plan_for(given)
