"""Schedule scans by their parameters."""

from __future__ import annotations

from warpsmith.ir.domains import ParallelType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.schedule.inline import inline_most
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import parallelize, split
from warpsmith.schedulers.caching import Cached, vectorize
from warpsmith.schedulers.cover import merge_all, order_loops
from warpsmith.schedulers.reads import reads
from warpsmith.schedulers.scan.applicability import scans
from warpsmith.schedulers.scan.heuristic import ScanParams, axes_of, run_of

INNER = (
    ParallelType.grid_x,
    ParallelType.block_y,
    ParallelType.serial,
    ParallelType.block_x,
    ParallelType.unroll,
)
OUTER = (
    ParallelType.grid_x,
    ParallelType.block_x,
    ParallelType.serial,
    ParallelType.block_y,
    ParallelType.unroll,
)


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: ScanParams) -> None:
    """Loops, of kept dimensions K and the scanned one S:

    inner: `[K grid_x, K block_y, S serial, S cluster_x, S block_x, S unroll]`
    outer: `[K grid_x, K block_x, S serial, S block_y, S unroll]`
    over the grid: `[K grid_y, K block_y, S grid_x, S unroll, S block_x, S unroll]`, or outer alike

    A block has a row, or its share of one, some rows, or some columns; it carries their states
    round the serial loop.
    """
    domains = map_of(fusion)
    run = run_of(fusion, domains, caches)
    order = axes_of(fusion, caches, domains)
    output = scans(fusion)[0].output
    order_loops(output, domains, {domains.group(axis): place for place, axis in enumerate(order)})
    if params.vectorized:
        fusion.divisors |= {(run.extent, params.elements)}
    along = params.block_x if params.inner else params.block_y
    kept = len(output.loop) - 1
    kinds: tuple[ParallelType, ...] = INNER if params.inner else OUTER
    if params.grid:
        split(output, -1, params.turns * along * params.elements)
        kinds = (
            ParallelType.grid_y,
            kinds[1],
            ParallelType.grid_x,
            ParallelType.unroll,
            *kinds[3:],
        )
    if params.blocks > 1:
        split(output, -1, params.blocks * along * params.elements)
        kinds = (*kinds[:3], ParallelType.cluster_x, *kinds[3:])
    split(output, -1, along * params.elements)
    split(output, -1, params.elements)
    if kept:
        merge_all(output, 0, kept)
        split(output, 0, params.block_y if params.inner else params.block_x)
    for position, kind in enumerate(kinds[0 if kept else 2 :]):
        parallelize(output, position, kind)
    transform_like(output)
    parallelize_like(output)
    vectorize(caches, params.vectorized)
    early = {cached.register for cached in caches if cached.load}
    early |= {read.output for read in reads(fusion)}
    # A thread asks for its elements together: none of them waits for what another one stores.
    inline_most(fusion, limits=dict.fromkeys(early, len(output.loop) - 1))
