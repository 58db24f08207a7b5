"""Choice of tiles and slots for a matrix product."""

from __future__ import annotations

from dataclasses import dataclass

from warpsmith.errors import SchedulerRefusal
from warpsmith.ir.exprs import Matmul
from warpsmith.ir.fusion import Fusion
from warpsmith.schedulers.problem import Problem

TILE = (128, 256, 64)
"""Rows, columns and depth of a block's tile: two warp groups with 64 x 256 sums each, which take
128 registers a thread, and rows of 128 bytes of k, which is what a swizzle permutes."""

STAGES = 4
"""Slots of 48 KiB for tiles of the operands; what is left of 227 KiB stages the result."""

CHUNK = 64
STORE_STAGES = 2
"""Columns of the result that are staged at once, 128 bytes of each row, and slots for them."""

GROUP = 16
"""Most tiles along m that are computed beside each other, so that operands are met in L2 again."""


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
    """Of the sizes only the number of tiles along m counts, where it is small.

    Raises:
        SchedulerRefusal: operands, or a result, that the TMA unit cannot copy.
    """
    product = product_of(fusion)
    _check_rows(fusion, product, problem)
    rows = problem.size(product.output.root[0].extent)
    tiles = -(-rows // TILE[0])
    group = GROUP
    while group > max(tiles, 1):
        group //= 2
    return MatmulParams(
        tile=TILE,
        stages=STAGES,
        chunk=CHUNK,
        store_stages=STORE_STAGES,
        group=group,
        blocks=problem.target.sm_count,
    )


def _check_rows(fusion: Fusion, product: Matmul, problem: Problem) -> None:
    """The TMA unit copies rows that start at multiples of 16 bytes."""
    output = fusion.outputs[0].value
    for tensor in (product.a, product.b, output):
        fastest = tensor.memory_order()[-1]
        elements = problem.size(tensor.shape_axes[fastest].extent)
        size = tensor.dtype.size
        aligned = problem.alignment.get(tensor.name, 16)
        if elements * size % 16 or aligned % 16:
            what = (
                f"an address that is a multiple of {aligned} bytes"
                if aligned % 16
                else f"rows of {elements} elements, {elements * size} bytes"
            )
            raise SchedulerRefusal(
                f"{tensor.name} has {what}, and the TMA unit, which feeds tensor cores, takes "
                "multiples of 16",
                remedy=f"pad its last dimension to a multiple of {16 // size} elements",
            )
