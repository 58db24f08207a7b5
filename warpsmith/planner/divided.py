"""Kernels of products that may take less time in parts: what is behind a product by itself, or two
products by a kernel each.

Tensor cores wait while a product's epilogue runs, unless groups take turns; what the TMA unit loads
ahead adds little, what threads load much. Of two products few tiles are narrow, and no blocks share
k. What parts take at least, where power holds the clock as it does in one kernel, says whether a
plan with them is tried; its kernels' prices decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from warpsmith.ir.exprs import Matmul
from warpsmith.ir.part import Part
from warpsmith.planner.decided import Decided
from warpsmith.planner.prices import Planned, Prices
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.matmul import heuristic as matmul
from warpsmith.schedulers.matmul.candidates import FEW
from warpsmith.schedulers.matmul.room import ONE_RESULT
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.traffic import moved_us


def divided(
    segments: Iterable[Planned], problem: Problem, prices: Prices, worth: float
) -> Iterator[tuple[Decided, ...]]:
    """Ways to divide a kernel on tensor cores, and all that are alike, that may be so many times as
    fast.
    """
    kinds: dict[object, tuple[Planned, Candidate, set[int]]] = {}
    for planned in segments:
        share, candidate = planned.segment.share, planned.candidate
        if candidate is not None and candidate.scheduler == "matmul" and isinstance(share, Part):
            known = planned, candidate, set[int]()
            _, _, numbers = kinds.setdefault(planned.segment.shape.key, known)
            for position in share.positions:
                if isinstance(share.graph.operations[position], Matmul):
                    numbers.update(share.graph.made(position))
    for planned, candidate, numbers in kinds.values():
        chosen = frozenset(numbers)
        joined = partial(prices.us, planned, problem)
        single, apart = _may_be_faster(candidate, planned.local(problem), joined, worth)
        ways = [Decided(single=chosen)] * single + [Decided(apart=chosen)] * apart
        if ways:
            yield tuple(ways)


def _may_be_faster(
    candidate: Candidate, problem: Problem, joined: Callable[[], float], worth: float
) -> tuple[bool, bool]:
    """Whether products alone may take less time than their kernel, where it has several; and
    whether they and a kernel that writes the results may, where it computes something behind them.

    Args:
        joined: tells how long their kernel takes.
    """
    fusion = candidate.fusion
    work = matmul.works_of(fusion, problem)[0]
    count = work.products
    if count == 1 and not work.has_epilogue:
        return False, False
    both = [work]
    if 0 < work.m <= FEW:
        both.append(matmul.work_of(fusion, problem, swapped=True))
    alone = [
        replace(
            w,
            products=1,
            operations=0,
            drawn=0,
            moved=ONE_RESULT,
            in_a_row=count,
            tables=(),
            whole=1,
        )
        for w in both
    ]
    us, parts = joined() / worth, matmul.best_way(alone, problem)[1]
    written = sum(problem.bytes_of(output.value) for output in fusion.outputs)
    apart = count * parts + moved_us(written, problem.target)
    return count > 1 and count * parts < us, work.has_epilogue and apart < us
