"""Whether blocks that go round rows should keep to the memory's pace: norms backward both ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from bench import norm_backward
from bench.problem import ITEM_BYTES, Builder, Problem, Tensors
from warpsmith.schedulers.inner_outer.rows import PACED_BYTES

SUITE = "pace"


def problems(*, quick: bool) -> Iterator[Problem]:
    """Those of `norm_bwd` whose rows have one sum, and whose tensors as many bytes as it takes."""
    for problem in norm_backward.problems(quick=quick):
        rows, columns = problem.shape
        many = rows * columns * ITEM_BYTES[problem.dtype] >= PACED_BYTES
        if many and problem.name != "layer_norm_bwd":
            yield replace(problem, suite=SUITE)


def choices(problem: Problem) -> dict[str, Builder]:
    """As chosen, and blocks that ask for rows as soon as slots are free."""
    return {name: _built(problem, pace) for name, pace in (("warpsmith", True), ("free", False))}


def _built(problem: Problem, pace: bool) -> Builder:
    def build(inputs: Tensors) -> Callable[[], Any]:
        import warpsmith
        from warpsmith import knobs
        from warpsmith.engine.executable import Executable

        with knobs.scope(pace=pace):
            lowered = warpsmith.fuse(problem.fused).lower(*inputs)
            ready = Executable(lowered.fusion).prepared(inputs)
        return lambda: ready(inputs)

    return build
