"""Schedules of a matrix product whose chunks are loaded through the stages of its operands."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from warpsmith.schedulers.matmul.memory import Beside
from warpsmith.schedulers.matmul.params import Numbers
from warpsmith.schedulers.matmul.room import Room
from warpsmith.schedulers.matmul.ways import Ways
from warpsmith.targets.family import Limits

TILES = 2
"""Tiles in a stage, each of which holds one tensor's chunk at most."""


def with_shared_stages(ways: Ways, loaded: Numbers, k: int, moved: Beside, limits: Limits) -> Ways:
    """These schedules; those of blocks alone whose groups share a tile load chunks behind the last
    step over k, through the stages of the operands, and store wider ones in the memory that these
    took.

    A residual at 2048 x 4096 x 4096 took 98.2 us with stages of its own, two of eight chunks, and
    95.8 so; the product alone 93.3 (an H200, 2026-11-26). Groups that take turns wait for nothing,
    and blocks of a cluster that load for each other cannot tell whose stage is free: of tiles of
    two parts these are left out. With stages of their own, for chunks, they have three for the
    operands, not four: 2048 x 2496 x 3520 57.5 us, 57.3 and 58.3 in clusters, and 54.4 so; 3648 x
    1216 x 5952 86.6, 85.5 and 87.1, and 82.8 (2026-11-27).

    Args:
        loaded: columns that a stage holds of each one's tiles.
        k: that the product sums over.
    """
    planes, tensors = len(moved.planes), len(moved.loaded)
    if not (planes and tensors <= TILES and moved.like_operands):
        return ways
    stored = replace(moved, planes=(), row=0, column=0)
    room = Room((ways.rows, loaded), limits, stored, lines=ways.lines)
    chunk, stages, ahead = room.best(ways.columns)
    least = np.minimum if planes == TILES else np.maximum
    holds = ways.rows * chunk <= least(ways.rows, ways.columns) * ways.depth
    may = holds & (ways.chunk > 0) & (chunk > 0) & (ahead >= ways.stages)
    several = (ways.columns > chunk) & (k > ways.depth)
    may = may & several  # a stage of one chunk, or of one step, is around the whole tile
    may = may & (ways.ping_pong == 0) & (ways.splits * ways.parts == 1) & (ways.stream == 0)
    own = may & (ways.down * ways.across == 1)

    def where(new: Numbers, old: Numbers) -> Numbers:
        return np.where(own, new, old)

    shared = replace(
        ways,
        chunk=where(chunk, ways.chunk),
        store_stages=where(stages, ways.store_stages),
        stages=where(ahead, ways.stages),
        load_stages=where(np.zeros_like(chunk), ways.load_stages),
    )
    return shared.at(~may | own | (ways.passes == 1))
