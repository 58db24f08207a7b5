"""Whether blocks that loop over rows should keep to the memory's pace: norms backward both ways."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bench import norm_backward
from bench.problem import ITEM_BYTES, Builder, Problem, planned
from warpsmith.schedulers.rows.strategy import PACED_BYTES

SUITE = "pace"


def problems(*, quick: bool) -> Iterator[Problem]:
    """Those of `norm_bwd` whose rows have one sum, and whose tensors as many bytes as it takes."""
    for problem in norm_backward.problems(quick=quick):
        rows, columns = problem.shape
        many = rows * columns * ITEM_BYTES[problem.dtype] >= PACED_BYTES
        if many and problem.name != "layer_norm_bwd":
            yield replace(problem, suite=SUITE)


def choices(problem: Problem) -> dict[str, Builder]:
    """As chosen, and blocks that ask for rows as soon as stages are free."""
    return {"warpsmith": planned(problem, pace=True), "free": planned(problem, pace=False)}
