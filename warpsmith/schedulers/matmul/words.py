"""The parameters of a product in words, and what would make it faster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from warpsmith.schedulers.matmul.heuristic import Work, best_way, fastest_first
from warpsmith.schedulers.matmul.params import MatmulParams
from warpsmith.schedulers.matmul.room import ONE_RESULT
from warpsmith.schedulers.matmul.sectors import DEPTH_BYTES
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
    if params.swapped:
        words.append("operands swapped")
    if params.lines > 1:
        words.append(f"steps of {params.tile[2]}")
    if params.cluster != (1, 1):
        words.append(f"cluster {params.cluster[0]}x{params.cluster[1]}")
    if params.splits > 1:
        words.append(f"k in {params.splits}")
    if params.parts > 1:
        words.append(f"k in {params.parts} of the grid")
    if params.stream:
        words.append("last tiles in parts of k")
    return ", ".join(words)


def compared(works: Sequence[Work], problem: Problem) -> tuple[tuple[str, float], ...]:
    """The candidates that are predicted to be fastest, with their microseconds."""
    found = fastest_first(works, problem)[: 1 + RUNNERS_UP]
    return tuple((shortly(params), us) for params, us in found)


def advice(works: Sequence[Work], problem: Problem, unstaged: str) -> Iterator[str]:
    """What keeps a product from a faster path, and what the user could change.

    Args:
        works: the ways in which it may be computed.
        unstaged: why the TMA unit does not store results; empty where it does.
    """
    now = best_way(works, problem)[1]

    def gain(changed: Iterable[Work]) -> float:
        return now / best_way(changed, problem)[1]

    uneven, padded, remedy = _paddings(works)
    if uneven and (faster := gain(padded)) >= WORTH:
        lines = " and ".join(f"{size} elements along {name}" for name, size in uneven.items())
        yield (
            f"lines of {lines} begin at no multiples of {DEPTH_BYTES} bytes: {remedy}: "
            f"{faster:.2g} x faster"
        )
    if unstaged and (faster := gain(map(_with_staged, works))) >= WORTH:
        yield f"threads store results: {unstaged}; by the TMA unit {faster:.2g} x faster"


def to_tensor_cores(
    works: Sequence[Work], problem: Problem, reason: str, now: float
) -> Iterator[str]:
    """What the user could change about a product that takes `now` microseconds, as the TMA unit
    cannot load its operands, for this `reason`.
    """
    uneven, padded, remedy = _paddings(works)
    faster = now / best_way(padded, problem)[1]
    if faster >= WORTH:
        copied = "copy what the TMA unit is to load to where it can"
        yield f"{reason}: {remedy if uneven else copied}: tensor cores are {faster:.2g} x faster"


def _paddings(works: Sequence[Work]) -> tuple[dict[str, int], tuple[Work, ...], str]:
    """Sizes that leave lines of operands at no multiples of 128 bytes, by name; the works with
    those padded; and how to.
    """
    first = works[0]
    step = max(DEPTH_BYTES * packed // size for size, packed in first.stored)
    padded = tuple(_padded(work, step) for work in works)
    uneven = {
        name: (had, has)
        for name, size in zip("mnk", "nmk" if first.swapped else "mnk", strict=True)
        if (had := getattr(first, size)) != (has := getattr(padded[0], size))
    }
    remedy = " and ".join(f"{name} to {has}" for name, (_, has) in uneven.items())
    sizes = {name: had for name, (had, _) in uneven.items()}
    return sizes, padded, f"pad {remedy}, multiples of {step}"


def _padded(work: Work, step: int) -> Work:
    """The work where lines of its operands are multiples of so many elements."""
    along = {("m", "n")[which] if work.turned[which] else "k" for which in (0, 1)}
    return replace(work, **{size: -(-getattr(work, size) // step) * step for size in along})


def _with_staged(work: Work) -> Work:
    """The work with one result more that the TMA unit stores, where it may have any."""
    moved, one = work.moved, ONE_RESULT
    if moved.by_rows:
        return replace(work, moved=replace(moved, by_rows=()))
    if work.swapped:
        return work
    widest = max(moved.widest, one.widest)
    staged = (*moved.staged, "")
    return replace(
        work, moved=replace(moved, staged=staged, out=moved.out + one.out, widest=widest)
    )
