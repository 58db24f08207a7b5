"""Parts of k of one tile: which blocks have them, and how what each has summed is added up."""

from __future__ import annotations

from warpsmith.ir.domains import ParallelType
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import rfactor
from warpsmith.schedule.inline import inline_at
from warpsmith.schedule.transforms import parallelize, reorder, split
from warpsmith.schedulers.matmul.epilogue import fragments
from warpsmith.schedulers.matmul.params import MatmulParams
from warpsmith.targets.atoms import ROWS
from warpsmith.values import dataclass


def shared(params: MatmulParams) -> list[tuple[int, ParallelType]]:
    """How many have parts of k of one tile: blocks of the grid, or clusters; and blocks of each."""
    ways = (params.parts, ParallelType.grid_y), (params.splits, ParallelType.cluster_x)
    return [way for way in ways if way[0] > 1]


def own_steps(tensor: TensorView, at: int, params: MatmulParams) -> int:
    """Loop `at` over steps of k is two where scales of several come at once; a block has some of
    these, of the last tiles (stream-K): `[part, k tiles, k tile]`. How many stand before the last.
    """
    if params.scaled:
        split(tensor, at, params.scaled)
    if params.stream:
        split(tensor, at, 1, inner_split=False)
        parallelize(tensor, at, ParallelType.part)
    return at + params.stream + (params.scaled > 0)


@dataclass(frozen=True, slots=True)
class Join:
    """What each block has summed of a tile, on the way to the whole sums.

    Attributes:
        sums: over all of k.
        parts: what one block has; `sums` where it has all.
        of_cluster: what the blocks of one cluster have, where several clusters have a tile.
    """

    sums: TensorView
    parts: TensorView
    of_cluster: TensorView | None

    @staticmethod
    def of(sums: TensorView, parts: TensorView, params: MatmulParams) -> Join:
        """With the shares of the results that blocks of a cluster have; `sums` has the loops
        `[turn, grid, blocks with parts of k, rows, columns]`.
        """
        at, of_cluster = params.outer, None
        if not params.in_parts:
            return Join(sums, sums, None)
        if len(shared(params)) > 1:
            (of_cluster,) = rfactor(sums, [at + 1])
            share_out(of_cluster, at + 1, params)
        share_out(sums, at, params)
        return Join(sums, parts, of_cluster)

    def lay(self, params: MatmulParams) -> None:
        """Threads have of each what they have of the product."""
        at, before = params.outside, self.parts
        for joined, inside in ((self.of_cluster, 1), (self.sums, 0)):
            if joined is None or joined is before:
                continue
            split(joined, at + inside, ROWS)
            fragments(joined, at + inside + 1, params)
            inline_at(joined, params.outer, selected_tensors=[before])
            before = joined


def share_out(tensor: TensorView, at: int, params: MatmulParams) -> None:
    """Loops `[turn, grid, cluster_x, rows, columns, parts]`: blocks have columns of one tile, if
    each has a share.

    Args:
        at: how many loops stand before the rows, or the parts.
    """
    if tensor.loop[at].is_reduction:
        reorder(tensor, {at: -1})
    if params.kept == params.tile[1]:
        return
    split(tensor, at + 1, params.kept)
    reorder(tensor, {at + 1: at})
    parallelize(tensor, at, ParallelType.cluster_x)
