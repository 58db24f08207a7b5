"""Schedules of a matrix product in which blocks of the grid have parts of k."""

from __future__ import annotations

import numpy as np

from warpsmith.schedulers.matmul.params import Flags, Numbers
from warpsmith.schedulers.matmul.threads import GROUP_THREADS, at_start, of_each
from warpsmith.schedulers.matmul.ways import Ways, joined
from warpsmith.targets.family import Limits

PARTS = (2, 3, 4, 6, 8, 12, 16)
"""Parts of k that blocks of the grid may have, or clusters, beside as many as one round has room
for; the last one adds them up, so more of them cost more."""

LEAST_STEPS = 4
"""Of k in such a part, for each block that has one."""

MOST_LAST_ROUNDS = 8
"""Rounds of whole tiles behind which parts of the last ones are worth their while: behind more, the
last round is too little of the time."""

JOINING_REGISTERS = 48
"""Of a thread besides its sums, of those it starts with, where it adds up parts and stores them
itself: with less, 128 sums of two groups and 96 of three spill."""


FEW_SUMS = 32
"""Those of a thread that adds up parts and stores them itself, which leave registers for all else:
of tiles that have few rows of a product as columns."""


def with_parts(ways: Ways, tiles: Numbers, k: int, limits: Limits) -> Ways:
    """These schedules, each before those where blocks of the grid, or clusters, have parts of k: of
    all tiles, in one round, or of those that are left for less than half a round behind others.

    Args:
        tiles: that blocks load, of all batches.
    """
    steps = -(-k // ways.depth) // (LEAST_STEPS * ways.splits)
    room = np.minimum(ways.blocks // (np.maximum(tiles, 1) * ways.splits), steps)
    room = np.minimum(room, PARTS[-1])
    sums = ways.rows * ways.columns // (GROUP_THREADS * ways.groups)
    fits = (ways.chunk > 0) | (sums + JOINING_REGISTERS <= of_each(at_start, limits, ways.groups))
    fits &= ways.ping_pong == 0
    found, places = [ways], [np.arange(len(ways))]
    for most in (*PARTS, 0):
        parts = np.full_like(room, most) if most else room
        (place,) = np.nonzero(fits & (room > 1) & ((parts < room) | (most == 0)))
        found.append(ways.at(place, parts=parts[place]))
        places.append(place)
    few = _leaves_few(ways, tiles) & (tiles < MOST_LAST_ROUNDS * ways.blocks)
    (place,) = np.nonzero(fits & few & (ways.splits == 1))
    found.append(ways.at(place, stream=np.ones_like(place)))
    return joined(found, np.concatenate([*places, place]))


def with_last_parts(
    ways: Ways, tiles: Numbers | None = None, places: Numbers | None = None
) -> Ways:
    """Schedules, each before that where blocks have parts of the last tiles: of groups all; of
    products with scales along k where tiles are left for less than half a round, or are no more, or
    where blocks that loop over tiles alone go a round less, without the empty places of the last
    group.

    Args:
        tiles: as of `with_parts`; None of products by group.
        places: for these, with the empty ones.
    """
    shared = (ways.chunk > 0) & (ways.splits == 1)
    if tiles is not None and places is not None:
        sums = ways.rows * ways.columns // (GROUP_THREADS * ways.groups)
        shared |= (ways.splits == 1) & (sums <= FEW_SUMS)
        fewer = -(-tiles // ways.blocks) < -(-places // ways.blocks)
        few = (tiles > 0) & (2 * tiles <= ways.blocks)
        shared &= (ways.passes == 1) & (fewer | few | _leaves_few(ways, tiles))
    (place,) = np.nonzero(shared)
    sharing = ways.at(place, stream=np.ones_like(place))
    return joined([ways, sharing], np.concatenate([np.arange(len(ways)), place]))


def _leaves_few(ways: Ways, tiles: Numbers) -> Flags:
    """Those that leave tiles for less than half a round behind others."""
    rounds, rest = np.divmod(tiles, ways.blocks)
    return np.asarray((rounds > 0) & (rest > 0) & (2 * rest <= ways.blocks))
