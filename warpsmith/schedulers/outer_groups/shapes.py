"""Shapes of blocks that keep images whose channels are summed: which there are, and their time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from warpsmith.schedulers.kept import TurnsParams, TurnsWork, fastest
from warpsmith.schedulers.multiprocessor import CLUSTERS, together
from warpsmith.schedulers.outer_grid.shapes import BLOCKS, RESERVED, registers_of
from warpsmith.targets.family import WARP
from warpsmith.targets.target import Target
from warpsmith.values import dataclass

LEAST_HEIGHT = 2
"""Threads one below the other, at least: the meeting of a block is where turns are kept for."""

MEMORY_SHARE, FLIGHT_BYTES, FLIGHT_POWER = 0.82, 32768, 0.145
"""Of the memory's rate, what blocks reach whose turns have so many bytes on a multiprocessor, and
the power by which smaller ones are slower. As the constants below, fitted to 151 times of group
norms of 2 to 260 MB: 11 % off (root mean square; one H200, 2026-11-26); the first is 0.03 more than
that since blocks ask the L2 for turns ahead."""

ENOUGH_BLOCKS = 0.4
"""Of the blocks that multiprocessors hold, those from which on more are no faster."""

FIXED_US, WAVE_US, EXCHANGE_US = 6.2, 0.61, 0.84
"""What a launch takes with the first loads and the last stores, 0.4 more than the fit says, as rows
of parts were faster for small images; each round of clusters, and each doubling of a cluster's
blocks in one."""

ROUND_US = 2.0
"""What each round of a grid but the first takes besides its bytes and what blocks exchange in it:
36 norms of one H200 (2026-11-26)."""

JOIN_US, THREADS_US, BLOCKS_US = 0.047, 2.85e-5, 2.16e-5
"""For each channel of a group and number that is reduced of it, what the one thread takes that has
the group; for each byte of what threads below each other have of a block's channels, and for each
of what its blocks have of an image's."""

ELEMENT_INSTRUCTIONS, SHARPNESS = 3.14, 1.58
"""Of an element of an input in each of both walks, one more of moments; and of the maximum of what
memory and instructions take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterGroupsParams(TurnsParams):
    """A schedule whose images stay with blocks that reduce their channels, and groups of them.

    Attributes:
        cluster: blocks of a cluster that share an image; 0 where blocks of the grid do, which meet.
        block_y: threads one below the other; those side by side have all of an image's channels.
        joining: threads along x that have the same number of groups each; the others have none.
    """

    cluster: int
    block_y: int
    joining: int

    @property
    def said(self) -> str:
        blocks = f"cluster {self.cluster}" if self.cluster else "the grid"
        return f" by {self.block_y}, {blocks}"

    @property
    def meets_in_cluster(self) -> bool:
        return self.cluster > 0

    @property
    def threads(self) -> int:
        return self.block_x * self.block_y


Found = tuple[float, OuterGroupsParams]
"""A shape behind its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(TurnsWork):
    """Sizes of a call, and bytes.

    Attributes:
        images: how many there are.
        area: elements of a channel.
        channels: of an image.
        groups: of an image.
        inputs: of full size.
    """

    images: int
    area: int
    channels: int
    groups: int
    inputs: int

    @property
    def moved(self) -> int:
        """Bytes, each once."""
        return self.images * self.area * self.channels * (self.loaded + self.stored)


@dataclass(frozen=True, slots=True)
class Grid:
    """The blocks of a shape in a call.

    Attributes:
        images: that have blocks of their own at once.
        splits: blocks of an image.
        turns: of a block for one image, the last one counted.
        waves: how often blocks follow each other, or meet.
        fullest: blocks of the fullest multiprocessor.
    """

    images: int
    splits: int
    turns: int
    waves: float
    fullest: int


def grid_of(work: Work, params: OuterGroupsParams, target: Target) -> Grid:
    """Blocks of the grid run at once, as many for each image, with a turn each at least; in rounds
    they have as many images as they keep, where they keep one.
    """
    passes = -(-work.area // (params.block_y * params.unroll))
    if not params.cluster:
        images, blocks, rounds = work.images, target.sm_count * params.blocks_per_sm, 1
        if params.rounds:
            least = -(-passes // (params.kept + 1))
            rounds = -(-images // min(images, max(1, blocks // least)))
            images = -(-images // rounds)
        turns = -(-passes // max(1, min(blocks // images, passes)))
        splits = -(-passes // turns)
        return Grid(images, splits, turns, rounds, -(-images * splits // target.sm_count))
    at_once = min(work.images, params.blocks_per_sm * target.teams(params.cluster))
    fullest = -(-at_once * params.cluster // target.sm_count)
    turns = -(-passes // params.cluster)
    return Grid(at_once, params.cluster, turns, work.images / at_once, fullest)


def shapes(work: Work, vector: int, target: Target) -> Iterator[OuterGroupsParams]:
    """Those whose blocks run at once, with all the shared memory that there is; and clusters that
    keep all of an image.
    """
    limits = target.family.limits
    block_x = work.channels // vector
    joining = max(n for n in range(1, min(block_x, work.groups) + 1) if work.groups % n == 0)
    for threads, blocks_per_sm, unroll in BLOCKS:
        block_y = threads // block_x
        room = limits.registers_each(threads * blocks_per_sm)
        if block_y < LEAST_HEIGHT or registers_of(work, vector, unroll) > room:
            continue
        whole = limits.sm_shared // blocks_per_sm - limits.shared_taken
        turn = block_x * block_y * vector * unroll * work.loaded
        for cluster in (0, *target.runs(CLUSTERS)):
            taken = _scratch(work, block_x, block_y, cluster) + RESERVED
            shape = OuterGroupsParams(
                vector=vector,
                unroll=unroll,
                cluster=cluster,
                block_x=block_x,
                block_y=block_y,
                joining=joining,
                blocks_per_sm=blocks_per_sm,
                kept=max(0, (min(limits.block_shared, whole) - taken) // turn),
            )
            if cluster and grid_of(work, shape, target).turns > shape.kept + 1:
                continue
            if cluster or work.images <= target.sm_count * blocks_per_sm:
                yield shape
            in_rounds = replace(shape, rounds=True)
            if not cluster and grid_of(work, in_rounds, target).waves > 1:
                yield in_rounds


def best(work: Work, vector: int, target: Target) -> Found | None:
    """The shape that takes the least time; None where there is none."""
    return fastest(timed(work, vector, target))


def timed(work: Work, vector: int, target: Target) -> Iterator[Found]:
    """All shapes behind their times."""
    return ((time_us(work, shape, target), shape) for shape in shapes(work, vector, target))


def _scratch(work: Work, block_x: int, block_y: int, cluster: int) -> int:
    """Bytes of shared memory for what threads and blocks of a cluster exchange: threads of a warp
    that have the same channels join theirs before.
    """
    alike = max(1, WARP // block_x) if block_x & (block_x - 1) == 0 else 1
    whole, others = work.channels * work.states, cluster if cluster > 1 else 0
    return whole * (-(-block_y // alike) + 1 + others) + work.groups * work.states


def time_us(work: Work, params: OuterGroupsParams, target: Target) -> float:
    """Predicted time, launch included: what memory and instructions take together, and what
    threads, blocks and groups of channels exchange.
    """
    grid = grid_of(work, params, target)
    waves = math.ceil(grid.waves)
    accesses = params.threads * params.unroll
    turn = accesses * params.vector * work.loaded
    loaded = work.images * grid.splits * grid.turns * turn
    again = work.images * grid.splits * max(0, grid.turns - params.kept - 1) * turn
    held = grid.images * grid.splits / target.sm_count
    busy = min(1.0, held / (ENOUGH_BLOCKS * params.blocks_per_sm))
    flight = turn * min(params.blocks_per_sm, max(1.0, held))
    slow: float = min(1.0, flight / FLIGHT_BYTES) ** FLIGHT_POWER
    moved = loaded + again + work.moved * work.stored / (work.loaded + work.stored)
    each = ELEMENT_INSTRUCTIONS * params.vector * (work.inputs + work.moments)
    issued = 2 * waves * grid.fullest * grid.turns * accesses / WARP * each
    rate = MEMORY_SHARE * target.rates.memory * busy * slow
    return (
        FIXED_US
        + (
            _exchanges_us(work, params, grid)
            + waves * (WAVE_US + EXCHANGE_US * math.log2(params.cluster))
            if params.cluster
            else waves * (_exchanges_us(work, params, grid) + ROUND_US) - ROUND_US
        )
        + together(SHARPNESS, moved / rate, issued / target.sm_issues)
    )


def _exchanges_us(work: Work, params: OuterGroupsParams, grid: Grid) -> float:
    """What threads get from each other: of channels, and of groups of these."""
    joins = work.channels / params.joining * work.states / 4
    each = THREADS_US * params.block_y + BLOCKS_US * grid.splits
    return each * work.states * work.channels + JOIN_US * joins
