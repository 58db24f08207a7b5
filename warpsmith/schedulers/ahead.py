"""Loads that run ahead: inputs that reach registers by way of a ring in shared memory."""

from __future__ import annotations

from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import cache_after
from warpsmith.schedule.propagate import transform_like
from warpsmith.schedule.rings import circular_buffer
from warpsmith.schedule.transforms import parallelize, set_memory_type
from warpsmith.schedulers.caching import Cached


def through_tiles(
    cached: Cached, reference: TensorView, tile: int, op_type: LoadStoreOpType
) -> TensorView:
    """Put a tile in shared memory between an input and its register copy.

    It has the loops of `reference` as they are now, the last `tile` of them copied at once by the
    TMA unit.
    """
    shared = cache_after(cached.memory, cached_uses=[cached.register], op_type=op_type)
    set_memory_type(shared, MemoryType.shared)
    transform_like(reference, [shared])
    for axis in range(-tile, 0):
        parallelize(shared, axis, ParallelType.tma)
    return shared


def run_ahead(tiles: list[TensorView], stages: int) -> None:
    """Give tiles their stages, once they are inlined; the loop that they share turns them."""
    for tile in tiles:
        circular_buffer(tile, stages)
