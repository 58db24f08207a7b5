"""Schedule rows that the blocks of a grid keep by their parameters."""

from __future__ import annotations

from warpsmith.ir.domains import ParallelType
from warpsmith.ir.exprs import takes_moments
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import rfactor
from warpsmith.schedule.transforms import parallelize, split
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.cover import merge_all
from warpsmith.schedulers.inner_grid.shapes import InnerGridParams
from warpsmith.schedulers.outer_grid.apply import INSIDE, TURN, in_turns
from warpsmith.schedulers.reduction.apply import PARALLEL, SPLITS, Role, split_over_blocks
from warpsmith.schedulers.rows.apply import split_vectors
from warpsmith.schedulers.rows.rows import Rows

LOOPS = (Role.grid, Role.splits, Role.serial, Role.unroll, Role.block_x, Role.vector)
LANES = 5
"""The place of a vector's loop among them."""


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: InnerGridParams) -> None:
    """Loops of every tensor that walks rows, K kept and R reduced:

    `[K grid_x, R grid_y or cluster_x | R serial (turns), R unroll, R block_x, R vector]`

    A thread reduces what it has in its turns, lane by lane of its vectors but for moments, then the
    block and the blocks that share its row. All of these get the result and go through their turns
    again.
    """
    domains = map_of(fusion)
    rows = Rows(fusion, domains, caches)
    order = {domains.group(axis): place for place, axis in enumerate(rows.axes)}
    run = len(rows.run.axes) - rows.run.start
    if not params.across:
        fusion.divisors |= {(rows.run.extent, params.vector)}

    of_cluster = params.cluster > 1
    blocks: Symbol | int = params.cluster if of_cluster else Symbol(SPLITS, low=1)
    if isinstance(blocks, Symbol):
        fusion.launch_symbols.append(blocks)
    kinds = [PARALLEL[role] for role in LOOPS]
    kinds[LOOPS.index(Role.splits)] = ParallelType.cluster_x if of_cluster else ParallelType.grid_y

    def divide(tensor: TensorView, keeps: int) -> TensorView:
        end = len(tensor.loop)
        merge_all(tensor, end - run, end)
        merge_all(tensor, 0, keeps)
        split_vectors(fusion, tensor, params.vector, across=params.across)
        merge_all(tensor, 1, len(tensor.loop) - 1)
        split(tensor, 1, params.block_x)
        split(tensor, 1, params.unroll)
        split_over_blocks(tensor, 1, blocks)
        for position, kind in enumerate(kinds):
            parallelize(tensor, position, kind)
        if takes_moments(tensor.definition):
            return rfactor(tensor, [TURN, INSIDE, LANES])[0]
        first = rfactor(tensor, [TURN, INSIDE])[0]
        rfactor(tensor, [LANES - 2])
        return first

    in_turns(fusion, caches, params, order, divide)
