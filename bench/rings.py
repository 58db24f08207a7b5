"""Whether loads should run ahead: every streaming problem with a ring, without, and as chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bench import pointwise, reduction
from bench.problem import Builder, Problem, planned

SUITE = "rings"


def problems(*, quick: bool) -> Iterator[Problem]:
    """The pointwise and reduction problems, and larger columns."""
    for problem in (*pointwise.problems(quick=quick), *reduction.problems(quick=quick)):
        yield replace(problem, suite=SUITE)
    for rows, columns in (
        () if quick else ((8192, 8192), (8192, 32768), (2048, 4096), (16384, 16384))
    ):
        for dtype in reduction.DTYPES:
            yield replace(reduction.total("columns", rows, columns, dtype), suite=SUITE)


def choices(problem: Problem) -> dict[str, Builder]:
    """The automatic choice, a ring wherever one can be, and none."""
    knobs = {"warpsmith": "auto", "ring": "prefer", "no_ring": "never"}
    return {name: planned(problem, rings=rings) for name, rings in knobs.items()}
