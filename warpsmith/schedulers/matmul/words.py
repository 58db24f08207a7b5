"""The parameters of a product in words, and what would make it faster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warpsmith.schedulers.matmul.heuristic import ONE_RESULT, Work
from warpsmith.schedulers.matmul.model import DEPTH_BYTES
from warpsmith.schedulers.matmul.params import MatmulParams
from warpsmith.schedulers.problem import Problem

WORTH = 1.03
"""So many times as fast a change must be predicted to be, to be told."""

RUNNERS_UP = 4
"""Candidates that are told behind the one that is predicted to be fastest."""


def shortly(params: MatmulParams) -> str:
    """`ping-pong 128x128 of 2 groups, cluster 2x1`, which tells candidates apart."""
    rows, columns, _ = params.tile
    words = [
        f"{params.strategy} {rows}x{columns} of {params.groups} group" + "s" * (params.groups > 1)
    ]
    if params.cluster != (1, 1):
        words.append(f"cluster {params.cluster[0]}x{params.cluster[1]}")
    if params.splits > 1:
        words.append(f"k in {params.splits}")
    return ", ".join(words)


def compared(work: Work, problem: Problem) -> tuple[tuple[str, float], ...]:
    """The candidates that are predicted to be fastest, with their microseconds."""
    found = work.ranked(problem)[: 1 + RUNNERS_UP]
    return tuple((shortly(params), us) for params, us in found)


def advice(work: Work, problem: Problem, unstaged: str) -> Iterator[str]:
    """What keeps a product from a faster path, and what the user could change.

    Args:
        unstaged: why results do not pass through shared memory; empty where they do.
    """
    now = work.ranked(problem)[0][1]

    def gain(changed: Work) -> float:
        return now / changed.ranked(problem)[0][1]

    step = DEPTH_BYTES // work.element
    along = {("m", "n")[which] if work.turned[which] else "k" for which in (0, 1)}
    uneven = {name: size for name in sorted(along) if (size := getattr(work, name)) % step}
    padded = {name: -(-size // step) * step for name, size in uneven.items()}
    if uneven and (faster := gain(replace(work, **padded))) >= WORTH:
        lines = " and ".join(f"{size} elements along {name}" for name, size in uneven.items())
        remedy = " and ".join(f"{name} to {size}" for name, size in padded.items())
        yield (
            f"lines of {lines} begin at no multiples of {DEPTH_BYTES} bytes: pad {remedy}, "
            f"multiples of {step}: {faster:.2g} x faster"
        )
    moved = work.moved
    through = replace(
        moved,
        staged=(*moved.staged, ""),
        out=moved.out + ONE_RESULT.out,
        widest=max(moved.widest, ONE_RESULT.widest),
    )
    if unstaged and (faster := gain(replace(work, moved=through))) >= WORTH:
        yield f"threads store results: {unstaged}; through shared memory {faster:.2g} x faster"
