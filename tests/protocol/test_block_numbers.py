"""Blocks of the grid that wait for each other: what lets one wait for a block that never starts, or
for what nobody gives, is refused.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.protocol.edits import edited, instead, refused, without
from tests.schedule.test_scans import LOOPS, scheduled
from tests.support.lowering import lowered
from warpsmith.engine.proofs import prove
from warpsmith.ir import integers
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.scalar import Symbol
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Statement
from warpsmith.kernel.reductions import ScanElements
from warpsmith.kernel.tile_scheduler import ReadTile, TakeTile
from warpsmith.kernel.traversal import walk
from warpsmith.targets.hopper import H200

VALUES = {"T0_size0": 5, "T0_size1": 387}


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return lowered(scheduled(LOOPS["the grid"]))


def of_scan(**fields: Any) -> Callable[[Kernel], Kernel]:
    return lambda kernel: edited(kernel, instead(ScanElements, lambda s: replace(s, **fields)))


def around(made: Callable[[Statement], Statement]) -> Callable[[Kernel], Kernel]:
    return lambda kernel: edited(kernel, instead(ScanElements, made))


def behind(kernel: Kernel) -> Kernel:
    """The number is taken when the block has waited."""
    (scan,) = (s for s in kernel.body if isinstance(s, ScanElements))
    body = [s for s in kernel.body if s is not scan]
    return replace(kernel, body=(scan, *body))


def of_another_place(kernel: Kernel) -> Kernel:
    (take,) = (s for s in walk(kernel.body) if isinstance(s, TakeTile))
    other = replace(take.target, name="other")
    return edited(kernel, instead(ReadTile, lambda read: replace(read, source=other)))


def in_a_cluster(kernel: Kernel) -> Kernel:
    return replace(kernel, launch=replace(kernel.launch, cluster=(1, 1, 2)))


def in_two_dimensions(kernel: Kernel) -> Kernel:
    x, _, z = kernel.launch.grid
    return replace(kernel, launch=replace(kernel.launch, grid=(x, integers.index(2), z)))


def of_fewer_words(kernel: Kernel) -> Kernel:
    (scan,) = (s for s in kernel.body if isinstance(s, ScanElements))
    assert scan.semaphore is not None
    return of_scan(semaphore=replace(scan.semaphore, size=scan.parts))(kernel)


def at_the_words_of_another(kernel: Kernel) -> Kernel:
    (scan,) = (s for s in kernel.body if isinstance(s, ScanElements))
    return edited(kernel, instead(ScanElements, lambda s: (s, replace(s, index=scan.index))))


WRONG: dict[str, tuple[Callable[[Kernel], Kernel], str]] = {
    "its place in the grid": (
        of_scan(block_number=Symbol(ParallelType.grid_x.name)),
        "which no counter gives",
    ),
    "no number": (lambda k: edited(k, without(TakeTile)), "not the one that the block took"),
    "a number read elsewhere": (of_another_place, "not the one that the block took"),
    "two numbers": (
        lambda k: edited(k, instead(TakeTile, lambda take: (take, take))),
        "not the one that the block took",
    ),
    "one number of many": (
        lambda k: edited(k, instead(TakeTile, lambda t: replace(t, count=integers.ONE))),
        "a block takes one of many",
    ),
    "a grid of two dimensions": (in_two_dimensions, "a block takes one of many"),
    "a wait before": (behind, "which no counter gives"),
    "a wait of some blocks": (
        around(lambda s: If(integers.less(Symbol(ParallelType.grid_x.name), 3), (s,))),
        "where not every block comes by once",
    ),
    "a wait in a loop": (
        around(lambda s: For(Symbol("again", low=0), integers.index(2), (s,), unroll=False)),
        "where not every block comes by once",
    ),
    "a cluster": (in_a_cluster, "where not every block comes by once"),
    "words of another wait": (at_the_words_of_another, "words that other statements have"),
    "fewer words": (of_fewer_words, "of which not each block has one"),
}


def test_blocks_that_wait_for_those_that_have_started_are_right(kernel: Kernel) -> None:
    assert prove(kernel, VALUES, H200) == 0


@pytest.mark.parametrize("name", WRONG)
def test_a_wait_for_a_block_that_may_not_have_started_is_refused(name: str, kernel: Kernel) -> None:
    changed, said = WRONG[name]
    refused(changed(kernel), VALUES, "WS0921", said, judge=prove)
