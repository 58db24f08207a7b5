"""Shapes of grids and clusters that keep rows: which there are, what they keep, their time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from warpsmith.schedulers.kept import TurnsParams, TurnsWork
from warpsmith.schedulers.multiprocessor import CLUSTERS, together
from warpsmith.schedulers.outer_grid.shapes import RESERVED
from warpsmith.targets.family import WARP
from warpsmith.targets.target import Target
from warpsmith.values import dataclass

BLOCKS = ((512, 1), (512, 2), (256, 2), (256, 3), (256, 4), (128, 4), (128, 6), (128, 8))
"""Threads of a block, and blocks of a multiprocessor."""

ACCESSES = (4, 2)
"""Of a thread in a turn."""


MEMORY_SHARE, TURN_US = 0.8, 0.4
"""Of the memory's rate, what blocks reach that first read and then write; and what a turn waits,
before the meeting and behind it. As the constants below, fitted to 222 times of batch norms of 2 to
120 MB: 7.5 % off (root mean square; one H200, 2026-11-26)."""

ENDS_TURN_US, ENDS_HIDING = 0.55, 0.25
"""The same where vectors go across the ends of pieces; and the power of the blocks that share a
multiprocessor by which each waits less there. Of 22 batch norms of one H200 (2026-11-27) the choice
takes 0.97 of the time by it; of 14 without ends it would take 1.01."""

ACCESS_INSTRUCTIONS, ELEMENT_INSTRUCTIONS, ENDS_INSTRUCTIONS = 91.0, 7.4, 20.0
"""Of an access, in both passes over what a block has; of each element of an input; and of each one
where vectors go across the ends of pieces."""

FIXED_US, SHARPNESS = 7.4, 3.9
"""What a launch, a meeting and the last stores take; and of the maximum of what memory,
instructions and turns take."""

CLUSTER_FIXED_US, EXCHANGE_US = 6.0, 0.7
"""As FIXED_US, where blocks of a cluster share a row; and what they exchange, for each doubling of
them, in each wave of clusters. Estimates, 9 % off at nine batch norms (root mean square)."""

FIXED_REGISTERS = 32
"""Registers for addresses, for what is one for all rows, and for elements in work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerGridParams(TurnsParams):
    """A schedule whose rows stay with the blocks of a grid, or of a cluster.

    Attributes:
        across: accesses begin at multiples of a vector in memory, wherever pieces of rows begin.
        cluster: blocks that share a row, where they are a cluster; else 1, and the launch says it.
    """

    across: bool = False
    cluster: int = 1

    @property
    def said(self) -> str:
        return f", cluster {self.cluster}{', across' if self.across else ''}"

    @property
    def meets_in_cluster(self) -> bool:
        return self.cluster > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(TurnsWork):
    """Sizes of a call, and bytes.

    Attributes:
        rows: how many there are.
        pieces: of a row.
        piece: elements of each of them.
        inputs: how many of full size there are.
    """

    rows: int
    pieces: int
    piece: int
    inputs: int

    @property
    def length(self) -> int:
        """Elements of a row."""
        return self.pieces * self.piece

    def vectors(self, width: int, *, across: bool) -> int:
        """Accesses to a row."""
        return self.pieces * -(-(self.piece + across * (width - 1)) // width)


@dataclass(frozen=True, slots=True)
class Grid:
    """The blocks of a shape in a call.

    Attributes:
        rows: that have blocks of their own.
        splits: blocks of a row.
        turns: of a block, the last one counted.
    """

    rows: int
    splits: int
    turns: int

    @property
    def blocks(self) -> int:
        return self.rows * self.splits


def grid_of(work: Work, params: InnerGridParams, target: Target) -> Grid:
    """As many blocks as run at once, as many for each row, with a turn each at least."""
    vectors = work.vectors(params.vector, across=params.across)
    passes = -(-vectors // (params.block_x * params.unroll))
    if params.cluster > 1:
        return Grid(work.rows, params.cluster, -(-passes // params.cluster))
    most = target.sm_count * params.blocks_per_sm // work.rows
    turns = -(-passes // max(1, min(most, passes)))
    return Grid(work.rows, -(-passes // turns), turns)


def shapes(work: Work, vector: int, target: Target, *, across: bool) -> Iterator[InnerGridParams]:
    """Those whose blocks run at once, with all the shared memory that there is; and clusters that
    keep all of a row.
    """
    limits = target.family.limits
    for (threads, blocks_per_sm), unroll in product(BLOCKS, ACCESSES):
        if _registers(work, vector, unroll) > limits.registers_each(threads * blocks_per_sm):
            continue
        whole = limits.sm_shared // blocks_per_sm - limits.shared_taken
        turn = threads * vector * unroll * work.loaded
        shape = InnerGridParams(
            vector=vector,
            unroll=unroll,
            block_x=threads,
            blocks_per_sm=blocks_per_sm,
            kept=max(0, min(limits.block_shared, whole) - RESERVED) // turn,
            across=across,
        )
        if work.rows <= target.sm_count * blocks_per_sm:
            yield shape
        for cluster in target.runs(CLUSTERS):
            shared = replace(shape, cluster=cluster)
            turns = grid_of(work, shared, target).turns
            if cluster > 1 and 1 < turns <= shape.kept + 1:
                yield replace(shared, kept=turns - 1)


def _registers(work: Work, vector: int, unroll: int) -> int:
    """Of a thread: a turn, what it has reduced, lane by lane but for moments, and the rest. Of
    several inputs the compiler keeps elements widened.
    """
    each = work.loaded if work.inputs == 1 else max(work.loaded, 4 * work.inputs)
    lanes = 1 if work.moments else vector
    return (vector * unroll * each + lanes * work.states) // 4 + FIXED_REGISTERS


def time_us(work: Work, params: InnerGridParams, target: Target) -> float:
    """Predicted time, launch included: what memory, instructions and turns take together, as if all
    multiprocessors had as many blocks as the fullest.
    """
    grid = grid_of(work, params, target)
    turn = params.block_x * params.unroll
    accesses, kept = (
        grid.blocks * turns * turn for turns in (grid.turns, min(grid.turns, params.kept + 1))
    )
    loaded = accesses * params.vector * work.loaded
    again = (accesses - kept) * params.vector * work.loaded
    moved = loaded + again + work.rows * work.length * work.stored
    waves, fullest = _waves(params, grid, target)
    each = ACCESS_INSTRUCTIONS + params.vector * _of_element(work, across=params.across)
    issued = waves * fullest * grid.turns * turn / WARP * each
    exchange = EXCHANGE_US * math.log2(params.cluster)
    turn_us, hiding = (ENDS_TURN_US, ENDS_HIDING) if params.across else (TURN_US, 0.0)
    return (FIXED_US if params.cluster == 1 else CLUSTER_FIXED_US) + together(
        SHARPNESS,
        moved / (MEMORY_SHARE * target.rates.memory),
        issued / target.sm_issues,
        waves * (2 * grid.turns * turn_us + exchange) / fullest**hiding,
    )


def _waves(params: InnerGridParams, grid: Grid, target: Target) -> tuple[float, int]:
    """How often blocks follow each other, and how many the fullest multiprocessor has at once."""
    if params.cluster == 1:
        return 1.0, -(-grid.blocks // target.sm_count)
    at_once = min(grid.rows, params.blocks_per_sm * target.teams(params.cluster))
    return grid.rows / at_once, -(-at_once * params.cluster // target.sm_count)


def _of_element(work: Work, *, across: bool) -> float:
    """Instructions."""
    own = ELEMENT_INSTRUCTIONS * work.inputs
    return own + (ENDS_INSTRUCTIONS if across else 0.0)
