"""Rows and weights on their way through shared memory, where the TMA unit brings them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.ir.program import Program
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import cache_after
from warpsmith.schedule.inline import inline_at, inline_most
from warpsmith.schedule.propagate import transform_like
from warpsmith.schedule.rings import circular_buffer
from warpsmith.schedule.roles import LOAD, set_role
from warpsmith.schedule.transforms import parallelize, set_memory_type, split
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.cover import merge_all


def through_shared(
    loads: Iterable[Cached], *, by_threads: bool = False, chunks: bool = False
) -> tuple[TensorView, ...]:
    """Put a tile in shared memory between each input and its copy in registers.

    The TMA unit brings it, in whole `chunks` if they are asked for; or `by_threads` those that use
    it, with `cp.async`.
    """
    carrier = LoadStoreOpType.cp_async if by_threads else LoadStoreOpType.bulk
    tiles = tuple(cache_after(c.memory, cached_uses=[c.register], op_type=carrier) for c in loads)
    for tile in tiles:
        set_memory_type(tile, MemoryType.shared)
        tile.chunks = chunks
    return tiles


def copies_of(fusion: Program, cached: Cached, tiles: Iterable[TensorView]) -> list[TensorView]:
    """The tensors whose definitions are the accesses of threads to what is cached."""
    if not cached.load:
        return [cached.memory]
    direct = fusion.consumers(cached.memory)
    between = [tile for tile in tiles if any(tile is reader for reader in direct)]
    return [reader for tile in between for reader in fusion.consumers(tile)] or [cached.register]


def divide_rows(
    fusion: Fusion,
    tiles: Iterable[TensorView],
    reference: TensorView,
    whole: int,
    cluster: int,
    *,
    uneven: bool = False,
    divided: bool = False,
) -> None:
    """The rows of a turn, of which one copy moves what a block has of each: `whole` elements, or
    `uneven`, fewer of them in the last block of a cluster; or what the reference is already
    `divided` in.
    """
    for tile in tiles:
        transform_like(reference, [tile])
        if not divided:
            _divide(fusion, tile, whole, cluster, uneven=uneven)
        _bind(tile, cluster)
        parallelize(tile, 0, ParallelType.grid_x)


def divide_weights(
    fusion: Fusion,
    tiles: Iterable[TensorView],
    whole: int,
    cluster: int = 1,
    *,
    uneven: bool = False,
    specialize: bool,
) -> None:
    """What all rows share, of which one copy each moves what a block has: `whole` elements, or
    `uneven`, fewer of them in the last block of a cluster.
    """
    for tile in tiles:
        merge_all(tile, 0, len(tile.loop))
        _divide(fusion, tile, whole, cluster, uneven=uneven)
        _bind(tile, cluster)
        if specialize:
            set_role(tile, LOAD)


def _bind(tile: TensorView, cluster: int) -> None:
    """Let one copy of each block move what the last loop walks."""
    if cluster > 1:
        parallelize(tile, -2, ParallelType.cluster_x)
    parallelize(tile, -1, ParallelType.tma)


def _divide(
    fusion: Fusion, tile: TensorView, whole: int, cluster: int = 1, *, uneven: bool = False
) -> None:
    extent = map_of(fusion).extent_of(tile.loop[-1])
    if not uneven:
        fusion.divisors |= {(extent, cluster * whole)}
    fusion.limits |= {(extent, cluster * whole)}
    split(tile, -1, cluster * whole)
    if cluster > 1:
        split(tile, -1, whole)


def fill_ahead(
    tile: TensorView, stages: int, side: int, *, specialize: bool, interval: int = 0
) -> None:
    """Give a tile its stages. Specialized, a stage is what one group has in a turn; else a fill
    does not begin before so many nanoseconds are over for each that came before it.
    """
    if specialize:
        circular_buffer(tile, stages, role=LOAD, stage_slice_position=side + 1)
    else:
        circular_buffer(tile, stages, interval=interval)


def loads_first(
    fusion: Fusion,
    caches: tuple[Cached, ...],
    full: Collection[TensorView],
    before: Iterable[TensorView] = (),
    *,
    reload_weights: bool,
) -> None:
    """Bring copies of inputs to the front: those that come `before`, as what waits in shared memory
    does, whole rows, and what all rows share after them, unless it is loaded where it is used.
    """
    loads = [c for c in caches if c.load and (c.register in full or not reload_weights)]
    ordered = sorted(loads, key=lambda c: c.register not in full)
    copies = [*before, *(c.register for c in ordered)]
    fusion.bring_first(copy.definition for copy in copies if copy.definition is not None)


def inline_rows(
    fusion: Fusion,
    reference: TensorView,
    position: int,
    early: Iterable[TensorView] = (),
    *,
    together: bool = True,
) -> None:
    """As deep as it goes, but for what is computed `early`. `Together`, everything shares the
    reference's loops up to a position, and reductions across threads take all rows of a thread.
    """
    apart = set(early)
    if together:
        for operation in fusion.operations:
            loop = operation.outputs[0].loop
            if any(axis.is_reduction and axis.parallel.is_thread for axis in loop):
                apart.update(operation.outputs, tensor_inputs(operation))
        inline_at(reference, position, best_effort=True)
    inline_most(fusion, [t for t in fusion.computed if t not in apart])
