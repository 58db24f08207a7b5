"""Which grid and block dimensions a fusion uses, how large they are, and the symbols for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, GRID_TYPES, ParallelType
from warpsmith.ir.exprs import Operation
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.nodes import Launch


@dataclass(frozen=True, slots=True)
class Threads:
    """Extents of the parallel types in use, and the symbol of each thread index.

    `groups_along` is the axis of the block along which groups of warps take turns and do not meet.
    """

    extents: dict[ParallelType, Expr]
    symbols: dict[ParallelType, Symbol]
    groups_along: ParallelType | None = None

    def launch(self) -> Launch:
        grid = [self.extents.get(t, integers.ONE) for t in GRID_TYPES]
        block = [self.extents.get(t, integers.ONE) for t in BLOCK_TYPES]
        return Launch((grid[0], grid[1], grid[2]), (block[0], block[1], block[2]))


def find_threads(operations: Iterable[Operation], domains: DomainMap) -> Threads:
    """Each parallel type is as wide as the widest axis that is bound to it."""
    extents: dict[ParallelType, Expr] = {}
    for operation in operations:
        for axis in operation.outputs[0].loop:
            if not axis.parallel.is_thread:
                continue
            extent = domains.extent(domains.group(axis))
            known = extents.get(axis.parallel)
            extents[axis.parallel] = extent if known is None else integers.maximum(known, extent)
    return _threads(extents)


def find_role_threads(
    own: Iterable[Operation],
    all_threads: Threads,
    domains: DomainMap,
    groups_along: ParallelType | None,
) -> Threads:
    """Threads of a role: its own block, in the grid of all roles."""
    block = {k: e for k, e in find_threads(own, domains).extents.items() if k.is_block}
    grid = {k: e for k, e in all_threads.extents.items() if k.is_grid}
    return replace(_threads({**grid, **block}), groups_along=groups_along)


def _threads(extents: dict[ParallelType, Expr]) -> Threads:
    return Threads(extents, {t: Symbol(t.name, extent=extent) for t, extent in extents.items()})
