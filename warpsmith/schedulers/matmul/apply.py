"""Schedule a matrix product by its parameters."""

from __future__ import annotations

from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import cache_after
from warpsmith.schedule.carriers import set_load_store_op
from warpsmith.schedule.inline import inline_at
from warpsmith.schedule.products import ROW_BYTES, ROWS, split_fragments, tensorize
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.rings import circular_buffer
from warpsmith.schedule.transforms import (
    merge,
    parallelize,
    reorder,
    set_allocation_domain,
    set_memory_type,
    set_swizzle,
    split,
)
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.matmul.heuristic import MatmulParams, product_of

SWIZZLE = 128

LOAD = "load"
"""The role whose one thread asks for tiles of the operands."""


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: MatmulParams) -> None:
    """Two roles, each with loops of its own over the tiles that a block goes round.

    ========== ========================================================================
    operands   `[turn, grid_x, k tile | rows, k]`, boxes of the TMA unit, role `load`
    product    `[turn, grid_x, group, k tile, k step | 64, columns, 16]`
    epilogue   `[turn, grid_x, chunk, group, thread, columns / 8, 2, 2]`
    staged     `[turn, grid_x, chunk, group, thread, columns / 16 | 2, 2, 2]`, by stmatrix
    output     `[turn, grid_x, chunk | rows, columns]`, boxes of the TMA unit
    ========== ========================================================================

    A group is a warp group, along block_y; its threads lie along block_x.
    """
    product = product_of(fusion)
    (stored,) = [cached for cached in caches if not cached.load]
    output, result = stored.memory, stored.register
    operands = [product.a, product.b]
    staged = cache_after(result)
    set_memory_type(staged, MemoryType.shared)
    set_swizzle(staged, SWIZZLE)
    set_load_store_op(staged, LoadStoreOpType.stmatrix)
    set_load_store_op(output, LoadStoreOpType.tma)
    for operand in operands:
        set_memory_type(operand, MemoryType.shared)
        set_swizzle(operand, SWIZZLE)
        set_load_store_op(operand, LoadStoreOpType.tma)
    _tiles(output, params)
    transform_like(output)
    parallelize_like(output)
    special = {id(t) for t in (output, staged, product.output, *operands)}
    beside = [t for t in fusion.computed if id(t) not in special]
    for operand in operands:
        _load(operand, params, rows=3 if operand is product.a else 4)
    _multiply(product.output, product.a.dtype.size, params)
    for tensor in (*beside, staged):
        _fragments(tensor, params)
    split(staged, 5, 2)
    tensorize(staged)
    split(output, 3, params.chunk)  # turn, grid, rows, chunk, columns
    reorder(output, {3: 2})
    for axis in (3, 4):
        parallelize(output, axis, ParallelType.tma)
    inline_at(output, 3, selected_tensors=[staged])
    inline_at(staged, 5, selected_tensors=[result])
    others = [tensor for tensor in beside if tensor is not result]
    if others:
        inline_at(result, len(result.loop), selected_tensors=others)
    inline_at(result, 2, selected_tensors=[product.output])
    circular_buffer(staged, params.store_stages)


def _tiles(output: TensorView, params: MatmulParams) -> None:
    """Loops `[turn, grid_x, rows, columns]`: a block goes round the tiles of the output."""
    rows, columns, _ = params.tile
    split(output, 1, columns)
    split(output, 0, rows)
    split(output, 0, params.group)  # of groups, tiles of one, rows, tiles, columns
    reorder(output, {3: 1})
    merge(output, 0)
    merge(output, 0)
    split(output, 0, params.blocks)
    parallelize(output, 1, ParallelType.grid_x)


def _load(operand: TensorView, params: MatmulParams, rows: int) -> None:
    """The ring of an operand's tiles; `rows` is the place of their loop behind that over k."""
    split(operand, 4, params.tile[2])
    reorder(operand, {4: 2})  # turn, grid, k tile, rows of a, rows of b, k
    if rows == 3:
        reorder(operand, {4: 3})  # the loop that the operand lacks stands outside
    for axis in (3, 4, 5):
        parallelize(operand, axis, ParallelType.tma)
    circular_buffer(operand, params.stages, role=LOAD, stage_slice_position=3)


def _multiply(product: TensorView, element: int, params: MatmulParams) -> None:
    split(product, 4, params.tile[2])
    split(product, 5, ROW_BYTES // element)
    split(product, 2, ROWS)  # turn, grid, group, 64, columns, k tile, k step, k
    reorder(product, {5: 3, 6: 4})
    parallelize(product, 2, ParallelType.block_y)
    tensorize(product)


def _fragments(tensor: TensorView, params: MatmulParams) -> None:
    """Loops `[turn, grid_x, chunk, group, thread, columns / 8, 2, 2]`."""
    split(tensor, 3, params.chunk)  # turn, grid, rows, chunk, columns
    if tensor.memory is MemoryType.shared:
        set_allocation_domain(tensor, (tensor.loop[2], tensor.loop[4]))
    split(tensor, 2, ROWS)
    reorder(tensor, {4: 2})
    split_fragments(tensor)
    parallelize(tensor, 3, ParallelType.block_y)
    parallelize(tensor, 4, ParallelType.block_x)
