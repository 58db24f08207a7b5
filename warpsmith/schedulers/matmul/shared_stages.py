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


def with_shared_stages(ways: Ways, loaded: Numbers, moved: Beside, limits: Limits) -> Ways:
    """These schedules; those of blocks alone whose groups share a tile load chunks behind the last
    step over k, through the stages of the operands, and store wider ones in the memory that these
    took.

    A residual at 2048 x 4096 x 4096 took 98.2 us with stages of its own, two of eight chunks, and
    95.8 so; the product alone 93.3 (an H200, 2026-11-26). Groups that take turns wait for nothing,
    and blocks of a cluster that load for each other cannot tell whose stage is free.

    Args:
        loaded: columns that a stage holds of each one's tiles.
    """
    planes, tensors = len(moved.planes), len(moved.loaded)
    if not (planes and tensors <= TILES and moved.like_operands):
        return ways
    own = (ways.ping_pong == 0) & (ways.down * ways.across * ways.splits * ways.parts == 1)
    own = own & (ways.stream == 0) & (ways.passes == 1) & (ways.chunk > 0)
    stored = replace(moved, planes=(), row=0, column=0)
    room = Room((ways.rows, loaded), limits, stored, lines=ways.lines)
    chunk, stages, ahead = room.best(ways.columns)
    least = np.minimum if planes == TILES else np.maximum
    holds = ways.rows * chunk <= least(ways.rows, ways.columns) * ways.depth
    own = own & holds & (chunk > 0) & (ahead >= ways.stages)
    own = own & (ways.columns > chunk)  # a stage of one chunk is around the whole tile

    def where(new: Numbers, old: Numbers) -> Numbers:
        return np.where(own, new, old)

    return replace(
        ways,
        chunk=where(chunk, ways.chunk),
        store_stages=where(stages, ways.store_stages),
        stages=where(ahead, ways.stages),
        load_stages=where(np.zeros_like(chunk), ways.load_stages),
    )
