"""Choice of the tile that a block multiplies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.exprs import Matmul
from warpsmith.ir.fusion import Fusion
from warpsmith.schedulers.matmul.heuristic import product_of
from warpsmith.schedulers.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulByThreadsParams:
    """A schedule of a matrix product.

    Attributes:
        tile: rows, columns and depth of what a block multiplies at a time.
        threads: of a block along rows and along columns.
        swapped: rows are those of the second operand, and columns of the first: threads that lie
            side by side have the columns, and the result is the fastest along them.
    """

    tile: tuple[int, int, int]
    threads: tuple[int, int]
    swapped: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """The root axes of a product that are no broadcast ones, by what they are to its operands."""

    batches: tuple[IterDomain, ...]
    rows: tuple[IterDomain, ...]
    columns: tuple[IterDomain, ...]
    summed: IterDomain


def shape_of(product: Matmul, *, swapped: bool = False) -> Shape:
    """Rows are the first operand's alone, columns the second one's, or the other way round."""
    of_a, of_b = (set(axes) for axes in (product.axes[::-1] if swapped else product.axes))
    *kept, summed = product.output.root
    axes = [(place, axis) for place, axis in enumerate(kept) if not axis.is_broadcast]
    return Shape(
        tuple(axis for place, axis in axes if place in of_a and place in of_b),
        tuple(axis for place, axis in axes if place not in of_b),
        tuple(axis for place, axis in axes if place not in of_a),
        summed,
    )


LARGE = ((128, 128, 16), (16, 16))
MEDIUM = ((64, 64, 16), (16, 16))
SMALL = ((16, 16, 16), (16, 16))
FLAT = ((4, 256, 16), (1, 128))
TALL = ((256, 4, 16), (128, 1))


def choose(fusion: Fusion, problem: Problem) -> MatmulByThreadsParams:
    """A tile of one of few classes."""
    product = product_of(fusion)
    swapped = _swapped(fusion, product)
    shape = shape_of(product, swapped=swapped)
    m, n = (_size(axes, problem) for axes in (shape.rows, shape.columns))
    tile, threads = SMALL
    if min(m, n) >= 1024:
        tile, threads = LARGE
    elif min(m, n) > 32:
        tile, threads = MEDIUM
    elif m <= 4 < n:
        tile, threads = FLAT
    elif n <= 4 < m:
        tile, threads = TALL
    if not shape.rows:
        tile, threads = (1, *tile[1:]), (1, threads[1])
    if not shape.columns:
        tile, threads = (tile[0], 1, tile[2]), (threads[0], 1)
    return MatmulByThreadsParams(tile=tile, threads=threads, swapped=swapped)


def _size(axes: Sequence[IterDomain], problem: Problem) -> int:
    return prod(problem.size(axis.extent) for axis in axes)


def _swapped(fusion: Fusion, product: Matmul) -> bool:
    """Whether the result is the fastest along the rows of the first operand."""
    return False
