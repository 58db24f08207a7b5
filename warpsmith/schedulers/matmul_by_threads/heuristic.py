"""Choice of the tile that a block multiplies, and of how threads reach memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from warpsmith.ir.atoms import atoms_for
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.exprs import Matmul
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.ir.tensor import TensorView
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.layout import InnerRun, fastest
from warpsmith.schedulers.matmul.heuristic import product_of
from warpsmith.schedulers.matmul_by_threads.sides import computed_for
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.atoms import Unit
from warpsmith.targets.family import WARP

VECTOR_BYTES = 16
"""What a thread reads from shared memory at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """What a block multiplies at a time.

    Attributes:
        rows, columns, depth: of the summed dimension the depth.
        threads: of a block along columns, along rows, and along the depth.
    """

    rows: int
    columns: int
    depth: int
    threads: tuple[int, int, int]

    def adjacent(self, size: int) -> int:
        """Adjacent columns of sums of so many bytes that a thread has."""
        return adjacent(size, self.columns, self.threads[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpTile(Tile):
    """What warps multiply at a time by `mma.sync`: each all rows, and some of the columns.

    Attributes:
        threads: of a warp, warps along columns, and warps along the depth.
        atom: rows, columns and depth of the instruction.
    """

    atom: tuple[int, int, int]

    def adjacent(self, size: int) -> int:
        return PAIR


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """How threads fill a tile of an operand.

    Attributes:
        inward: threads that lie side by side read along the summed dimension.
        vector: adjacent elements per thread and access.
    """

    inward: bool
    vector: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulByThreadsParams:
    """A schedule of a matrix product.

    Attributes:
        tile: what a block multiplies at a time.
        reads: of the operand that has the rows, and of the one that has the columns.
        vectorized: names of the global tensors accessed in vectors.
        swapped: rows are those of the second operand, and columns of the first: threads that lie
            side by side have columns, and the result is the fastest along them.
        shared: blocks share a result, each with some of what is summed.
    """

    tile: Tile
    reads: tuple[Reads, Reads]
    vectorized: tuple[str, ...]
    swapped: bool
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """The root axes of a product that are no broadcast ones, by what they are to its operands.

    Attributes:
        grouped: the rows or columns of a grouped product of which each group has some.
    """

    batches: tuple[IterDomain, ...]
    rows: tuple[IterDomain, ...]
    columns: tuple[IterDomain, ...]
    summed: IterDomain
    grouped: IterDomain | None = None


def shape_of(product: Matmul, *, swapped: bool) -> Shape:
    """Rows are the first operand's alone, columns the second one's, or the other way round."""
    of_rows, of_columns = product.axes[::-1] if swapped else product.axes
    *kept, summed = product.output.root
    axes = [(place, axis) for place, axis in enumerate(kept) if not axis.is_broadcast]
    return Shape(
        tuple(axis for place, axis in axes if place in of_rows and place in of_columns),
        tuple(axis for place, axis in axes if place not in of_columns),
        tuple(axis for place, axis in axes if place not in of_rows),
        summed,
        (product.rows_and_groups or (None,))[0],
    )


LARGE = Tile(rows=128, columns=128, depth=16, threads=(16, 16, 1))
MEDIUM = Tile(rows=64, columns=64, depth=16, threads=(16, 16, 1))
SMALL = Tile(rows=32, columns=32, depth=32, threads=(8, 8, 4))
FLAT = Tile(rows=4, columns=128, depth=32, threads=(32, 1, 8))
TALL = Tile(rows=128, columns=4, depth=32, threads=(1, 32, 8))
SHORT = Tile(rows=4, columns=4, depth=512, threads=(2, 1, 64))
"""Few tiles, since each is a kernel of its own. A thread of the large one has 8 x 8 sums, which
take half of its registers; those of the others have 4 x 4: they read half an element from shared
memory for each product."""

DEPTH_BYTES = 128
PAIR = 2
"""Bytes along the depth of a tile of warps, four instructions; adjacent columns of a thread."""

FEW = 4
"""Rows, or columns, up to which a tile is flat, tall, or both."""

BLOCKS_PER_SM = 2
FEWEST_TURNS = 4
"""Blocks that a multiprocessor is given where blocks share results, as long as each has so many
tiles to multiply."""


def choose(
    fusion: Program, domains: DomainMap, caches: tuple[Cached, ...], problem: Problem
) -> MatmulByThreadsParams:
    """A tile of one of few classes, and vectors where strides and addresses allow them."""
    product = product_of(fusion)
    swapped = _swapped(domains, product, caches)
    shape = shape_of(product, swapped=swapped)
    tile = _tile(product, shape, problem)
    operands = (product.b, product.a) if swapped else (product.a, product.b)
    reads: list[Reads] = []
    names: list[str] = []
    leading: set[TensorView] = set()
    for operand, edge, axes in zip(
        operands, (tile.rows, tile.columns), (shape.rows, shape.columns), strict=True
    ):
        computed = computed_for(fusion, operand)
        leading |= set(computed)
        loads = [c for c in caches if c.load and c.register in computed]
        inward = _inward(domains, loads, axes, shape.summed)
        run = _run(domains, loads, shape.summed if inward else axes[-1])
        share = edge * tile.depth // prod(tile.threads)
        length = tile.depth if inward else edge
        if not inward and axes[-1] is shape.grouped:  # groups begin anywhere
            length = 1
        vector = max(min(run.vector(problem), share, length), 1)
        reads.append(Reads(inward=inward, vector=vector))
        names += run.vectorized(problem, vector)
    if shape.columns and shape.columns[-1] is not shape.grouped:
        others = [c for c in caches if c.register not in leading]
        run = _run(domains, others, shape.columns[-1])
        vector = tile.adjacent(product.output.dtype.size)
        if problem.size(run.extent) % vector == 0:
            names += run.vectorized(problem, vector)
    return MatmulByThreadsParams(
        tile=tile,
        reads=(reads[0], reads[1]),
        vectorized=tuple(names),
        swapped=swapped,
        shared=_sharing(tile, shape, problem) > 1,
    )


def sharing(fusion: Program, params: MatmulByThreadsParams, problem: Problem) -> int:
    """Blocks that share a result."""
    shape = shape_of(product_of(fusion), swapped=params.swapped)
    return _sharing(params.tile, shape, problem)


def _sharing(tile: Tile, shape: Shape, problem: Problem) -> int:
    turns = -(-_size((shape.summed,), problem) // tile.depth)
    wanted = BLOCKS_PER_SM * problem.target.sm_count // max(_tiles(tile, shape, problem), 1)
    return max(min(wanted, turns // FEWEST_TURNS), 1)


def adjacent(size: int, edge: int, threads: int) -> int:
    """Adjacent sums of so many bytes that a thread has of so many that some threads share."""
    return max(min(VECTOR_BYTES // size, edge // threads), 1)


def _tile(product: Matmul, shape: Shape, problem: Problem) -> Tile:
    m, n = _size(shape.rows, problem), _size(shape.columns, problem)
    by_warps = _by_warps(product, min(m, n), problem)
    if by_warps is not None:
        return by_warps
    large = product.output.dtype.size <= 4 and (
        _tiles(LARGE, shape, problem) >= problem.target.sm_count
    )
    if max(m, n) <= FEW:
        tile = SHORT
    elif m <= FEW:
        tile = FLAT
    elif n <= FEW:
        tile = TALL
    elif min(m, n) <= SMALL.rows:
        tile = SMALL
    else:
        tile = LARGE if large else MEDIUM
    rows, columns = tile.rows if shape.rows else 1, tile.columns if shape.columns else 1
    return replace(tile, rows=rows, columns=columns)


def _by_warps(product: Matmul, least: int, problem: Problem) -> WarpTile | None:
    """A tile for `mma.sync`, where there is one for the types and enough rows and columns."""
    atoms = atoms_for(product, problem.target.family.atoms)
    atom = next((atom for atom in atoms if atom.unit is Unit.MMA), None)
    if atom is None or least <= FEW:
        return None
    edge, threads = (32, (WARP, 2, 4)) if least <= SMALL.rows else (64, (WARP, 4, 1))
    depth = DEPTH_BYTES // atom.size
    shape = atom.rows, atom.columns[0], atom.depth
    return WarpTile(rows=edge, columns=edge, depth=depth, threads=threads, atom=shape)


def _tiles(tile: Tile, shape: Shape, problem: Problem) -> int:
    """Tiles of the result."""
    batches, m, n = (_size(axes, problem) for axes in (shape.batches, shape.rows, shape.columns))
    return batches * -(-m // tile.rows) * -(-n // tile.columns)


def _size(axes: Sequence[IterDomain], problem: Problem) -> int:
    return prod(problem.size(axis.extent) for axis in axes)


def _swapped(domains: DomainMap, product: Matmul, caches: Sequence[Cached]) -> bool:
    """Whether the first result is the fastest along the rows of the first operand."""
    stored = next(cached for cached in caches if not cached.load)
    rows = shape_of(product, swapped=False).rows
    return fastest(domains, stored) in [domains.group(axis) for axis in rows]


def _inward(
    domains: DomainMap, loads: Sequence[Cached], axes: Sequence[IterDomain], summed: IterDomain
) -> bool:
    """Whether the largest tensor of which the operand is made is contiguous as it is summed."""
    ordered = sorted(loads, key=lambda cached: -cached.memory.rank)
    walked = [fastest(domains, cached) for cached in ordered[:1]]
    return not axes or walked == [domains.group(summed)]


def _run(domains: DomainMap, caches: Sequence[Cached], axis: IterDomain) -> InnerRun:
    """The one dimension, and what is contiguous along it."""
    group = domains.group(axis)
    walkers = tuple(cached for cached in caches if fastest(domains, cached) == group)
    return InnerRun((axis,), 0, walkers, domains.extent(group), domains.extent(group))
