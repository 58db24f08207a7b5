"""What blocks that loop over rows load: to registers, or through shared memory, turns ahead."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir.domains import ParallelType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.rings import circular_buffer
from warpsmith.schedule.transforms import parallelize
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.layout import in_lines
from warpsmith.schedulers.rows.columns import rows_alone
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.recompute import recompute, runs_of
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.schedulers.tiles import (
    divide_rows,
    divide_weights,
    fill_ahead,
    loads_first,
    through_shared,
)
from warpsmith.values import dataclass

GRID, TURN, SIDE = 0, 1, 2
"""Places of the loops over blocks, over a block's turns, and over rows side by side or groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What is loaded to registers, and what of it lies in shared memory before.

    Attributes:
        full: rows.
        weights: what rows share.
        of_some: the weights that differ from row to row.
        tiles: rows in shared memory, brought some turns ahead.
        kept: weights in shared memory.
    """

    full: frozenset[TensorView]
    weights: frozenset[TensorView]
    of_some: frozenset[TensorView]
    tiles: tuple[TensorView, ...]
    kept: tuple[TensorView, ...]


def loaded_by(rows: Rows, params: RowParams) -> Loaded:
    """Takes rows and weights through shared memory where the parameters say so."""
    tiles: tuple[TensorView, ...] = ()
    if params.ring:
        tiles = through_shared(rows.loads, by_threads=params.by_threads, chunks=params.chunks)
    return Loaded(
        full=frozenset(cached.register for cached in rows.full),
        weights=frozenset(cached.register for cached in rows.weights),
        of_some=frozenset(c.register for c in rows.weights if rows.differs(c)),
        tiles=tiles,
        kept=through_shared(rows.weights) if params.weights_in_shared else (),
    )


def put_in_order(
    fusion: Fusion,
    caches: tuple[Cached, ...],
    columns: Sequence[TensorView],
    loaded: Loaded,
    params: RowParams,
) -> None:
    """What is computed again stands where it is used, and loads stand first."""
    there = set(loaded.kept) or set(loaded.weights)
    there |= set(loaded.tiles) if params.reread else set()
    recompute(fusion, runs_of(rows_alone(fusion, columns), again=params.again, there=there))
    readers = [reader for tile in loaded.kept for reader in fusion.consumers(tile)]
    late = params.reload_weights or params.weights_in_shared
    loads_first(fusion, caches, loaded.full, readers, reload_weights=late)


def divide_tiles(
    fusion: Fusion, first: TensorView, loaded: Loaded, params: RowParams
) -> tuple[TensorView, ...]:
    """The loops of what copies bring to shared memory whole. Returns the rows among it."""
    elements = params.row or params.unroll * params.block_x * params.vector
    brought = () if params.by_threads else loaded.tiles
    for tile in brought:
        size, whole = tile.dtype.size, params.uneven or elements
        tile.in_lines = in_lines(elements, whole, size, chunks=params.chunks)
    divide_rows(
        fusion,
        brought,
        first,
        elements,
        params.cluster,
        uneven=params.uneven > 0,
        divided=params.across,
    )
    divide_weights(fusion, loaded.kept, elements, specialize=True)
    return brought


def place(register: TensorView, loaded: Loaded, row: int, params: RowParams) -> None:
    """Where in the loops something is loaded to registers; those of a row begin at `row`."""
    if register in loaded.full:
        register.streaming = not loaded.tiles
        register.evict_last = params.evict_last and not loaded.tiles
        if not params.reread:
            register.compute_at = min(register.compute_at, row)
    elif register in loaded.weights:
        again = params.reload_weights or bool(loaded.kept)
        if not again and register not in loaded.of_some:
            register.compute_at = min(register.compute_at, TURN)
    elif register.compute_at > TURN:  # one of a row, such as its statistics
        register.compute_at = min(register.compute_at, row)
        circular_buffer(register, 2)


def run_ahead(tile: TensorView, params: RowParams) -> None:
    """Copies of rows run ahead of their readers by the stages of a ring."""
    if params.by_threads and params.vector > 1:
        parallelize(tile, -1, ParallelType.vectorize)
    tile.evict_last = params.evict_last and not params.by_threads
    tile.evict_first = params.streaming and not (params.by_threads or params.chunks)
    tile.compute_at = SIDE
    fill_ahead(tile, params.ring, SIDE, specialize=params.warp_specialize, interval=params.interval)
