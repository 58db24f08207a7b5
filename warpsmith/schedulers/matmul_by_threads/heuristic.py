"""Choice of the tile that a block multiplies, and of how threads reach memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Self

from warpsmith.ir.atoms import atoms_for
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.exprs import Matmul
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.ir.tensor import TensorView
from warpsmith.layouts.matrices import WORD
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.layout import InnerRun, fastest
from warpsmith.schedulers.matmul.applicability import MAP_RANK
from warpsmith.schedulers.matmul.heuristic import product_of
from warpsmith.schedulers.matmul.memory import unfit_rows
from warpsmith.schedulers.matmul_by_threads.model import shared_us
from warpsmith.schedulers.matmul_by_threads.sides import computed_for
from warpsmith.schedulers.matmul_by_threads.tiles import (
    DEEP,
    DEPTH_BYTES,
    FEW,
    FLAT,
    MEDIUM,
    OF_WORDS,
    SHORT,
    SMALL,
    TALL,
    VECTOR_BYTES,
    Reads,
    Tile,
    WarpTile,
)
from warpsmith.schedulers.params import Params
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.traffic import Traffic, instructions
from warpsmith.targets.atoms import Unit
from warpsmith.targets.family import WARP, Limits
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulByThreadsParams(Params):
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

    @property
    def words(self) -> str:
        """The schedule in a few words."""
        tile = self.tile
        threads = f"{tile.rows}x{tile.columns}x{tile.depth}, {prod(tile.threads)} threads"
        ahead = f", {tile.stages} stages" if any(read.ahead for read in self.reads) else ""
        return f"{threads}{ahead}{', parts of k' if self.shared else ''}"

    def without_vectors(self) -> Self | None:
        if not self.vectorized:
            return None
        first, second = (replace(each, vector=1) for each in self.reads)
        return replace(self, reads=(first, second), vectorized=())


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


OTHER_REGISTERS = 48
"""Of a thread, beside its sums and what it loads: what it multiplies, and addresses."""

COPIED_BYTES = (4, 8)
"""Sizes of elements that `cp.async` can copy one at a time."""


def choose(
    fusion: Program, domains: DomainMap, caches: tuple[Cached, ...], problem: Problem
) -> MatmulByThreadsParams:
    """The candidate of the smallest predicted time."""
    return ranked(fusion, domains, caches, problem)[0][0]


def ranked(
    fusion: Program, domains: DomainMap, caches: tuple[Cached, ...], problem: Problem
) -> list[tuple[MatmulByThreadsParams, float]]:
    """All candidates with the microseconds that they are predicted to take, fastest first."""
    product = product_of(fusion)
    swapped = _swapped(domains, product, caches)
    shape = shape_of(product, swapped=swapped)
    found = [
        _with_tile(fusion, domains, caches, problem, swapped, tile)
        for tile in _tiles(product, shape, problem)
    ]
    kept = [params for params in found if params.tile != DEEP or _fits_deep(params.reads)]
    times = [(params, _us(fusion, params, shape, problem)) for params in kept]
    return sorted(times, key=lambda each: each[1])


def _us(fusion: Program, params: MatmulByThreadsParams, shape: Shape, problem: Problem) -> float:
    """Microseconds of tiles of words, with what computes operands; 0 of others, of which none are
    known.
    """
    _, us = _shared_us(params, shape, problem)
    return us and us + _computing_us(fusion, params, shape, problem)


def _computing_us(
    fusion: Program, params: MatmulByThreadsParams, shape: Shape, problem: Problem
) -> float:
    """Microseconds in which the operands are computed, which each tile does again."""
    product, tile = product_of(fusion), params.tile
    operands = (product.b, product.a) if params.swapped else (product.a, product.b)
    across = (_size(shape.columns, problem) / tile.columns, _size(shape.rows, problem) / tile.rows)
    issued = sum(
        instructions(operation) * problem.elements(operand) * math.ceil(tiles)
        for operand, tiles in zip(operands, across, strict=True)
        for operation in fusion.depends_on([operand])
    )
    return Traffic(0, 0.0, issued).busy(problem.target)["instructions"]


def _fits_deep(reads: Sequence[Reads]) -> bool:
    """Whether a deep tile pays: for lines of 128 bytes, and where nothing comes through registers,
    which would double its loop, as long as it is, in the cache of instructions.
    """
    return all(read.ahead for read in reads) and any(read.lines for read in reads)


def _with_tile(
    fusion: Program,
    domains: DomainMap,
    caches: tuple[Cached, ...],
    problem: Problem,
    swapped: bool,
    tile: Tile,
) -> MatmulByThreadsParams:
    """The parameters of a tile, with vectors where strides and addresses allow them."""
    product = product_of(fusion)
    shape = shape_of(product, swapped=swapped)
    operands = (product.b, product.a) if swapped else (product.a, product.b)
    reads: list[Reads] = []
    names: list[str] = []
    leading: set[TensorView] = set()
    held = 0
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
        if isinstance(tile, WarpTile):  # lines of a tile begin at multiples of 16 bytes
            length = min(length, VECTOR_BYTES // operand.dtype.size)
        vector = max(min(run.vector(problem), share, length), 1)
        carrier = LoadStoreOpType.set
        plain = shape.grouped is None and not isinstance(tile, WarpTile)
        if plain and _as_it_is(product, operand, loads):
            carrier = _carrier(domains, loads[0], axes, shape.summed, problem)
            if tile.pairs == 1 or (inward and not tile.lines):
                carrier = LoadStoreOpType.cp_async
        if carrier.is_tma or (carrier is LoadStoreOpType.cp_async and inward):
            vector = 1  # of the latter, a column of the tile is a line in shared memory
        reads.append(Reads(inward=inward, vector=vector, carrier=carrier))
        if carrier is LoadStoreOpType.set:
            held += tile.stages * share * sum(load.memory.dtype.size for load in loads) // WORD
        names += run.vectorized(problem, vector)
    apart = reads[1].lines or not shape.columns or shape.columns[-1] is shape.grouped
    if not apart:
        others = [c for c in caches if c.register not in leading]
        run = _run(domains, others, shape.columns[-1])
        vector = tile.adjacent(product.output.dtype.size)
        if problem.size(run.extent) % vector == 0:
            names += run.vectorized(problem, vector)
    params = MatmulByThreadsParams(
        tile=_with_room(tile, held, problem.target.family.limits),
        reads=(reads[0], reads[1]),
        vectorized=tuple(names),
        swapped=swapped,
    )
    return replace(params, shared=_shared_us(params, shape, problem)[0] > 1)


def _with_room(tile: Tile, held: int, limits: Limits) -> Tile:
    """A tile, of as many blocks a multiprocessor as have registers for what threads load."""
    needed = prod(tile.sums) + held + OTHER_REGISTERS
    room = limits.sm_registers // (limits.allotted(needed) * prod(tile.threads))
    if isinstance(tile, WarpTile) or not held or room >= tile.blocks_per_sm:
        return tile
    return replace(tile, blocks_per_sm=max(room, 1))


def sharing(fusion: Program, params: MatmulByThreadsParams, problem: Problem) -> int:
    """Blocks that share a result."""
    shape = shape_of(product_of(fusion), swapped=params.swapped)
    return _shared_us(params, shape, problem)[0]


def _shared_us(params: MatmulByThreadsParams, shape: Shape, problem: Problem) -> tuple[int, float]:
    sizes = [_size(axes, problem) for axes in (shape.batches, shape.rows, shape.columns)]
    k = problem.size(shape.summed.extent)
    return shared_us(params.tile, (*sizes, k), problem.target, params.reads)


def _tiles(product: Matmul, shape: Shape, problem: Problem) -> tuple[Tile, ...]:
    """Those to choose from: of few rows or columns, or of long sums, there is one."""
    m, n = _size(shape.rows, problem), _size(shape.columns, problem)
    by_warps = _by_warps(product, min(m, n), problem)
    if by_warps is not None:
        return (by_warps,)
    if min(m, n) <= FEW:
        tile = SHORT if max(m, n) <= FEW else FLAT if m <= FEW else TALL
        rows, columns = tile.rows if shape.rows else 1, tile.columns if shape.columns else 1
        return (replace(tile, rows=rows, columns=columns),)
    if product.output.dtype.size <= WORD:
        return OF_WORDS
    return (SMALL if min(m, n) <= SMALL.rows else MEDIUM,)


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


def _as_it_is(product: Matmul, operand: TensorView, loads: Sequence[Cached]) -> bool:
    """Whether the operand is a copy of an input, of the type of the sums and of words."""
    alone = len(loads) == 1 and loads[0].register is operand
    return alone and operand.dtype is product.output.dtype and operand.dtype.size in COPIED_BYTES


def _carrier(
    domains: DomainMap,
    load: Cached,
    axes: Sequence[IterDomain],
    summed: IterDomain,
    problem: Problem,
) -> LoadStoreOpType:
    """The TMA unit, where it can copy a tile of an operand that lies so in memory."""
    memory = load.memory
    boxes = len(axes) == 1 and memory.rank <= MAP_RANK and memory.dtype.size == WORD
    along = fastest(domains, load) in [domains.group(axis) for axis in (summed, *axes)]
    if not boxes or not along or unfit_rows(memory, problem):
        return LoadStoreOpType.cp_async
    return LoadStoreOpType.tma


def _run(domains: DomainMap, caches: Sequence[Cached], axis: IterDomain) -> InnerRun:
    """The one dimension, and what is contiguous along it."""
    group = domains.group(axis)
    walkers = tuple(cached for cached in caches if fastest(domains, cached) == group)
    return InnerRun((axis,), 0, walkers, domains.extent(group), domains.extent(group))
