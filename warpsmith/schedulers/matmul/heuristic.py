"""Choice of tiles and slots for a matrix product, by predicted time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from warpsmith.ir.exprs import Matmul, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.schedulers.problem import Problem

ROWS = 128
DEPTH = 64
"""Rows of a block's tile, 64 for each of two warp groups, and elements of k that a slot holds: rows
of 128 bytes, which is what a swizzle permutes."""

COLUMNS = (256, 192, 128, 64)
"""Columns that a tile may have: half as many registers a thread hold its sums."""

SHARED_BYTES = 226 * 1024
"""Shared memory of a block, less what barriers and alignment take."""

MOST_STAGES = 8

CHUNK = 64
STORE_STAGES = 2
"""Columns of the result that are staged at once, 128 bytes of each row, and slots for them."""

GROUP = 16
"""Most tiles along m that are computed beside each other, so that operands are met in L2 again."""

# Fitted to one H200, 2026-11-21: docs/lessons/matmul.md.

COLUMN_US = 0.0028
"""Microseconds in which two warp groups multiply 128 rows by one column, over 64 of k."""

TRAFFIC = 11.2e6
"""Bytes a microsecond that all multiprocessors together load, mostly from L2."""

UNALIGNED = 1.5
"""So much more is loaded where rows do not start at multiples of 128 bytes."""

START_US = 5.8
"""A launch, the first loads, and storing the last tile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulParams:
    """A schedule of a matrix product.

    Attributes:
        tile: rows, columns and depth of a block's tile.
        stages: slots for tiles of the operands.
        chunk: columns of the result that are staged at once.
        store_stages: slots for them.
        group: tiles along m that follow each other before the next column of tiles.
        blocks: of the grid, which go round the tiles.
    """

    tile: tuple[int, int, int]
    stages: int
    chunk: int
    store_stages: int
    group: int
    blocks: int


def product_of(fusion: Fusion) -> Matmul:
    """The one product of a fusion."""
    return next(op for op in fusion.operations if isinstance(op, Matmul))


def choose(fusion: Fusion, problem: Problem) -> MatmulParams:
    """The candidate of the smallest predicted time."""
    product = product_of(fusion)
    m, n, k = (problem.size(axis.extent) for axis in product.output.root)
    return min(candidates(m, problem), key=lambda params: predicted_us(params, m, n, k))


def candidates(m: int, problem: Problem) -> Iterator[MatmulParams]:
    """A schedule for each number of columns, the most first."""
    for columns in COLUMNS:
        tile = (ROWS, columns, DEPTH)
        yield MatmulParams(
            tile=tile,
            stages=stages(tile),
            chunk=CHUNK,
            store_stages=STORE_STAGES,
            group=_group(_tiles(m, ROWS)),
            blocks=problem.target.sm_count,
        )


def predicted_us(params: MatmulParams, m: int, n: int, k: int) -> float:
    """Microseconds of a product of 16-bit operands: as many rounds of tiles as blocks go.

    A step over k takes as long as its products or, where all blocks load at once, its loads.
    """
    rows, columns, depth = params.tile
    groups = _tiles(_tiles(m, rows), params.group)
    tiles = groups * params.group * _tiles(n, columns)
    loaded = 2.0 * (rows + columns) * depth * min(tiles, params.blocks)
    if 2 * k % 128:
        loaded *= UNALIGNED
    step = max(columns * COLUMN_US, loaded / TRAFFIC)
    return START_US + _tiles(tiles, params.blocks) * _tiles(k, depth) * step


def stages(tile: tuple[int, int, int], element: int = 2) -> int:
    """Slots for tiles of both operands that shared memory holds beside the staged result."""
    rows, columns, depth = tile
    staged = STORE_STAGES * rows * CHUNK * element
    return min((SHARED_BYTES - staged) // ((rows + columns) * depth * element), MOST_STAGES)


def _group(tiles: int) -> int:
    """Tiles along m of one group: many, yet so that few places of the last group are empty."""
    least, most = (max(min(tiles, bound), 1) for bound in (GROUP // 2, GROUP))
    return min(range(least, most + 1), key=lambda group: (_tiles(tiles, group) * group, -group))


def _tiles(extent: int, edge: int) -> int:
    return -(-extent // edge)


def misfit(fusion: Fusion, problem: Problem) -> str:
    """Why the TMA unit, which feeds tensor cores, cannot copy the operands, or the result, of a
    call: it takes rows that start at multiples of 16 bytes. Empty where it can.
    """
    product = product_of(fusion)
    copies = (product.a.definition, product.b.definition)
    operands = [tensor for copy in copies if copy is not None for tensor in tensor_inputs(copy)]
    for tensor in (*operands, fusion.outputs[0].value):
        fastest = tensor.memory_order()[-1]
        elements = problem.size(tensor.shape_axes[fastest].extent)
        size = tensor.dtype.size
        aligned = problem.alignment.get(tensor.name, 16)
        strides = [
            problem.values[f"{tensor.name}_stride{d}"]
            for d, contiguous in enumerate(tensor.contiguity)
            if contiguous is False
        ]
        what = ""
        if aligned % 16:
            what = f"an address that is a multiple of {aligned} bytes"
        elif elements * size % 16:
            what = f"rows of {elements} elements, {elements * size} bytes"
        elif any(stride * size % 16 for stride in strides):
            what = f"rows {' and '.join(map(str, strides))} elements of {size} bytes apart"
        if what:
            return f"{tensor.name} has {what}, and the TMA unit takes multiples of 16"
    return ""
