"""Schedule rows of parts that stay in registers by their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from warpsmith.ir.domains import IterDomain, ParallelType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, map_of
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import rfactor
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import parallelize, reorder, split, split_across
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.cover import divide_row, merge_all
from warpsmith.schedulers.parts.parts import Parts
from warpsmith.schedulers.parts.shapes import PartsParams
from warpsmith.schedulers.rows.apply import spread
from warpsmith.schedulers.rows.recompute import recompute, runs_of
from warpsmith.schedulers.tiles import loads_first

OUTSIDE = 2
"""Loops around the rows of a thread: blocks, and rows side by side."""

SLOWER = (ParallelType.serial, ParallelType.unroll, ParallelType.block_z)
FASTER = (
    ParallelType.serial,
    ParallelType.unroll,
    ParallelType.block_x,
    ParallelType.serial,
)
"""What a block has of each level of a row: its one part, passes of a thread, threads; and elements
of an access."""


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: PartsParams) -> None:
    """Loops of every tensor that walks rows, K kept, S the slower and F the faster of the levels:

    `[K grid_x, K block_y | S cluster_x, S serial, S unroll, S block_z |
    F serial, F unroll, F block_x, F vector]`

    The cluster's loop is there for rows of several blocks; where these share each part, it is the
    first one over F. Each reduction is done within a thread, then across the threads, and blocks,
    that have what it reduces.
    """
    recompute(fusion, runs_of(fusion, again=params.again))
    domains = DomainMap(fusion)
    parts = Parts(fusion, domains, caches)
    full = {cached.register for cached in parts.full}
    if not params.across:
        fusion.divisors |= {(parts.run.extent, params.vector)}
    fusion.blocks_per_sm = params.blocks_per_sm
    loads_first(fusion, caches, full, reload_weights=params.reload_weights)
    first, *others = parts.sums
    levels = (parts.of(parts.levels.kept), parts.outer, parts.inner)
    _divide(fusion, first, domains, levels, params)
    transform_like(first)
    shared, sides = (ParallelType.cluster_x,), [SLOWER, FASTER]
    if params.cluster > 1:
        sides.insert(1 if params.shares_parts else 0, shared)
    kinds = (ParallelType.grid_x, ParallelType.block_y, *chain(*sides))
    for position, kind in enumerate(kinds):
        parallelize(first, position, kind)
    parallelize_like(first)
    for tensor in (first, *others):
        _within_threads(tensor)
    whole = {c.register for c in caches if c.register in full or not params.reload_weights}
    spread(fusion, caches, params.vectorized, first, OUTSIDE, full, whole)


def _divide(
    fusion: Fusion,
    tensor: TensorView,
    domains: DomainMap,
    levels: Sequence[Sequence[IterDomain]],
    params: PartsParams,
) -> None:
    """From the dimensions of a reduction to the loops of every tensor."""
    assert tensor.definition is not None
    for output in tensor.definition.outputs:
        output.loop = [axis for axis in output.loop if not axis.is_broadcast]
    place = {
        domains.group(axis): (level, number)
        for level, axes in enumerate(levels)
        for number, axis in enumerate(axes)
    }
    wanted = sorted(range(len(tensor.loop)), key=lambda p: place[domains.group(tensor.loop[p])])
    reorder(tensor, {old: new for new, old in enumerate(wanted)})
    kept, slower, _ = map(len, levels)
    merge_all(tensor, kept + slower, len(tensor.loop))
    merge_all(tensor, kept, kept + slower)
    merge_all(tensor, 0, kept)
    apart, shared = (1, params.cluster) if params.shares_parts else (params.cluster, 1)
    full = params.full
    if params.across:
        length, passes = map_of(fusion).extent_of(tensor.loop[2]), (shared - 1) * params.unroll
        least = (passes + full) * params.block_x * params.vector
        fusion.least |= {(length, least)} if full else set()
        split_across(tensor, 2, params.vector, 0, 1)
        full = 0
    else:
        split(tensor, 2, params.vector)
    divide_row(
        fusion,
        tensor,
        2,
        params.unroll,
        params.block_x,
        cluster=shared,
        exact=params.exact,
        full=full,
    )
    divide_row(
        fusion,
        tensor,
        1,
        params.passes,
        params.block_z,
        cluster=apart,
        exact=params.exact_outer,
        full=params.full_outer,
    )
    split(tensor, 0, params.block_y)


def _within_threads(tensor: TensorView) -> None:
    """Have each thread reduce what it has: its passes, lane by lane of its vectors, then lanes."""
    loops = [p for p, axis in enumerate(tensor.loop) if axis.is_reduction]
    own = [p for p in loops if not tensor.loop[p].parallel.is_thread]
    passes = [p for p in own if p != len(tensor.loop) - 1]
    if passes:
        rfactor(tensor, passes)
    last = len(tensor.loop) - 1
    lanes = tensor.loop[last]
    if lanes.is_reduction and not lanes.parallel.is_thread:
        rfactor(tensor, [last])
