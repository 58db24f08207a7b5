"""Which grid and block dimensions a fusion uses, how large they are, and the symbols for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, GRID_TYPES, ParallelType
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.tensor import Operation
from warpsmith.kernel.clusters import rank_among
from warpsmith.kernel.kernel import Launch
from warpsmith.layouts.fragments import QUAD
from warpsmith.lower.stream_k import StreamK
from warpsmith.targets.family import WARP, WARP_GROUP
from warpsmith.values import dataclass

CLUSTER = ParallelType.cluster_x


@dataclass(frozen=True, slots=True)
class BlockOrder:
    """Blocks that take numbers as they start: by these, parts of a row follow each other.

    Attributes:
        along: the axis of the grid along which the parts of a row lie.
        reverse: the last part of a row comes first.
    """

    along: ParallelType
    reverse: bool


@dataclass(frozen=True, slots=True)
class Threads:
    """Extents of the parallel types in use, and the symbol of each thread index.

    `groups_along` is the axis of the block along which groups of warps take turns and do not meet;
    `order` is that of blocks which take numbers, and lie along the grid's x by these; `stream` says
    of which tiles blocks share the last ones.
    """

    extents: dict[ParallelType, Expr]
    symbols: dict[ParallelType, Symbol]
    groups_along: ParallelType | None = None
    order: BlockOrder | None = None
    stream: StreamK | None = None

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return integers.constant(self.extents.get(CLUSTER, integers.ONE)) or 1

    @property
    def number(self) -> Symbol:
        """Of a block among all of the grid, in the order in which they start."""
        blocks = (extent for kind, extent in self.extents.items() if kind.is_grid)
        return Symbol("block_number", low=0, extent=integers.mul(*blocks))

    def along(self, warps: int) -> dict[ParallelType, int]:
        """The axes of the block along which the threads of so many warps lie that multiply
        together, with the distances of neighbours: block_x, or those that have rows along block_y
        and the four that share a row along block_x. Empty where they lie otherwise.
        """
        x, y = (integers.constant(self.extents.get(t, integers.ONE)) for t in BLOCK_TYPES[:2])
        if x == warps * WARP:
            return {BLOCK_TYPES[0]: 1}
        if (x, y) == (QUAD, warps * WARP // QUAD):
            return {BLOCK_TYPES[0]: 1, BLOCK_TYPES[1]: QUAD}
        return {}

    @property
    def of_warps(self) -> dict[ParallelType, int]:
        """The same of threads along which whole warps lie, of a warp group, a warp or block_x."""
        x = integers.constant(self.extents.get(BLOCK_TYPES[0], integers.ONE))
        whole = {BLOCK_TYPES[0]: 1} if x is not None and x % WARP == 0 else {}
        return self.along(WARP_GROUP) or self.along(1) or whole

    @property
    def in_warps(self) -> Expr:
        """A thread's number along these."""
        steps = self.of_warps.items()
        return integers.add(*(integers.mul(self.symbols[axis], step) for axis, step in steps))

    def step_of(self, symbol: Expr) -> int:
        """The distance of neighbours along the axis of a symbol, among these; 0 of another one."""
        found = (step for axis, step in self.of_warps.items() if self.symbols[axis] == symbol)
        return next(found, 0)

    def launch(self) -> Launch:
        """Blocks of a cluster lie along the grid's z, so that the grid is a multiple of it."""
        x, y, z = (self.extents.get(t, integers.ONE) for t in GRID_TYPES)
        block = [self.extents.get(t, integers.ONE) for t in BLOCK_TYPES]
        grid = (x, y, integers.mul(z, self.cluster))
        if self.order is not None:
            grid = (integers.mul(x, y, z), integers.ONE, integers.ONE)
        return Launch(grid, (block[0], block[1], block[2]), cluster=(1, 1, self.cluster))


def threads_of(launch: Launch) -> Threads:
    """The threads of a launch, all of which do the same."""
    kinds = (*GRID_TYPES, *BLOCK_TYPES)
    extents = dict(zip(kinds, (*launch.grid, *launch.block), strict=True))
    if launch.cluster_blocks > 1:
        del extents[ParallelType.grid_z]
        extents[CLUSTER] = integers.index(launch.cluster_blocks)
    return _threads(extents)


def find_threads(
    operations: Iterable[Operation], domains: DomainMap, order: BlockOrder | None = None
) -> Threads:
    """Each parallel type is as wide as the widest axis that is bound to it."""
    extents: dict[ParallelType, Expr] = {}
    for operation in operations:
        for axis in operation.outputs[0].loop:
            if not axis.parallel.is_thread:
                continue
            extent = domains.extent_of(axis)
            known = extents.get(axis.parallel)
            extents[axis.parallel] = extent if known is None else integers.maximum(known, extent)
    _check_cluster(extents)
    return _threads(extents, order)


def _check_cluster(extents: dict[ParallelType, Expr]) -> None:
    blocks = extents.get(CLUSTER, integers.ONE)
    if ParallelType.grid_z in extents and blocks != integers.ONE:
        raise ScheduleError(
            f"{blocks!r} blocks of a cluster lie along the grid's z, and loops are bound to "
            f"{ParallelType.grid_z.name}, too",
            code="WS0289",
            remedy="bind those loops to grid_x or grid_y",
        )


def find_role_threads(
    own: Iterable[Operation],
    all_threads: Threads,
    domains: DomainMap,
    groups_along: ParallelType | None,
) -> Threads:
    """Threads of a role: its own block, in the grid of all roles."""
    block = {k: e for k, e in find_threads(own, domains).extents.items() if k.is_block}
    grid = {k: e for k, e in all_threads.extents.items() if k.is_of_blocks}
    threads = _threads({**grid, **block})
    return replace(threads, groups_along=groups_along, stream=all_threads.stream)


def _threads(extents: dict[ParallelType, Expr], order: BlockOrder | None = None) -> Threads:
    symbols = {t: Symbol(t.name, extent=extent) for t, extent in extents.items()}
    if CLUSTER in extents:
        symbols[CLUSTER] = rank_among(extents[CLUSTER])
    if order is not None:
        symbols |= {
            t: Symbol(f"{t.name}_taken", low=0, extent=extent)
            for t, extent in extents.items()
            if t.is_grid
        }
    return Threads(extents, symbols, order=order)
