"""Waves or roles: norms backward with each strategy, and as chosen, at many sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

from bench.norm_backward import layer_norm_bwd, rms_norm_bwd
from bench.problem import Builder, Problem, Tensors

SUITE = "strategies"

COLUMNS = (
    *(1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120),
    *(6144, 7168, 8192, 10240, 12288, 14336, 16384),
)
ROWS = (1024, 2048, 4096, 8192)
MANY_ROWS, NARROW = 32768, 4096
"""So many rows of up to so many columns, too."""

DTYPES = ("bfloat16", "float")


def problems(*, quick: bool) -> Iterator[Problem]:
    """Both norms, in both types, at 67 sizes, or at four."""
    columns = (1024, 4096) if quick else COLUMNS
    rows = (1024, 8192) if quick else ROWS
    sizes = [(r, c) for c in columns for r in rows]
    sizes += [] if quick else [(MANY_ROWS, c) for c in columns if c <= NARROW]
    for dtype in DTYPES:
        for make in (layer_norm_bwd, rms_norm_bwd):
            for size in sizes:
                yield replace(make(*size, dtype), suite=SUITE)


def choices(problem: Problem) -> dict[str, Builder]:
    """The automatic choice, and each strategy where it is asked for; roles refuse what they cannot
    load.
    """
    asked: dict[str, bool | Literal["auto"]] = {"warpsmith": "auto", "roles": True, "waves": False}
    return {name: _built(problem, choice) for name, choice in asked.items()}


def _built(problem: Problem, choice: bool | Literal["auto"]) -> Builder:
    def build(inputs: Tensors) -> Callable[[], Any]:
        import warpsmith

        fused = warpsmith.fuse(problem.fused, warp_specialize=choice)
        return lambda: fused(*inputs)

    return build
