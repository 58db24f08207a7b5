"""Schedule columns that the blocks of a grid keep by their parameters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from warpsmith.ir.domains import MemoryType
from warpsmith.ir.exprs import Reduction
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import Group, map_of
from warpsmith.ir.scalar import Apply, Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import rfactor
from warpsmith.schedule.inline import inline_most
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import parallelize
from warpsmith.schedulers.caching import Cached, vectorize
from warpsmith.schedulers.cover import order_loops
from warpsmith.schedulers.kept import AT_ONCE, BEHIND, TurnsParams
from warpsmith.schedulers.outer_grid.shapes import OuterGridParams
from warpsmith.schedulers.outer_persistent.heuristic import Columns
from warpsmith.schedulers.reduction.applicability import after_reduction, reductions
from warpsmith.schedulers.reduction.apply import (
    PARALLEL,
    SPLITS,
    keep_reductions_whole,
    keep_vectors_apart,
    split_columns,
)
from warpsmith.schedulers.reduction.aside import walks_reduced

TURN, INSIDE = 2, 3
"""Loops around the turns of a block, and around what a thread has in one."""


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: OuterGridParams) -> None:
    """Loops of every tensor that walks columns, K kept and R reduced:

    `[K grid_x, R grid_y | R serial (turns), R unroll, R block_y, K block_x, K vector]`

    A thread reduces what it has in its turns, then the block and the blocks that share its columns.
    All of these get the result and go through their turns again.
    """
    domains = map_of(fusion)
    columns = Columns(fusion, domains, caches)
    order = {domains.group(axis): place for place, axis in enumerate(columns.axes)}
    run = len(columns.run.axes) - columns.run.start
    fusion.divisors |= {(columns.run.extent, params.vector)}

    count = Symbol(SPLITS, low=1)
    fusion.launch_symbols.append(count)

    def divide(tensor: TensorView, keeps: int) -> TensorView:
        roles = split_columns(tensor, keeps, run, params, count)
        for position, role in enumerate(roles):
            parallelize(tensor, position, PARALLEL[role])
        return rfactor(tensor, [TURN, INSIDE])[0]

    reference = in_turns(fusion, caches, params, order, divide)
    blocks = map_of(fusion).extent_of(reference.loop[0])
    if params.even and isinstance(blocks, Apply) and blocks.op == "ceildiv":
        fusion.divisors |= {(blocks.args[0], params.block_x)}


def in_turns(
    fusion: Fusion,
    caches: tuple[Cached, ...],
    params: TurnsParams,
    order: Mapping[Group, int],
    divide: Callable[[TensorView, int], TensorView],
    aside: Collection[TensorView] = (),
) -> TensorView:
    """Lay loops on all tensors; returns the first reduction of a thread.

    Args:
        order: the place in memory of each dimension.
        divide: gives a reduction, of which so many loops are kept, those of blocks and threads, and
            returns what a thread reduces.
        aside: tensors that have other loops. What is in shared memory is the way between them.
    """
    domains = map_of(fusion)
    fusion.blocks_per_sm = params.blocks_per_sm
    fusion.kept_turns = params.kept
    if params.rounds:
        fusion.at_once = Symbol(AT_ONCE, low=1)
        fusion.behind = Symbol(BEHIND, low=0)
        fusion.launch_symbols += [fusion.at_once, fusion.behind]
    reduced = [tensor for tensor in reductions(fusion) if tensor not in aside]
    partials = [divide(t, order_loops(t, domains, order)) for t in reduced]
    reference = partials[0]
    results = {out for op in fusion.operations if isinstance(op, Reduction) for out in op.outputs}
    others = [t for t in fusion.computed if t not in results and t not in aside]
    transform_like(reference, others)
    parallelize_like(reference, selected_tensors=others)
    vectorize(caches, params.vectorized)
    inline_most(fusion, [t for t in fusion.computed if t.memory is not MemoryType.shared])
    after, walks = after_reduction(fusion), walks_reduced(fusion, map_of(fusion), partials)
    keep_vectors_apart(reference, [tensor for tensor in others if tensor not in after])
    for cached in caches:
        if cached.load:
            position = INSIDE if cached.register in walks else TURN
            cached.register.compute_at = min(cached.register.compute_at, position)
            cached.register.streaming = cached.register in walks
    keep_reductions_whole(fusion)
    return reference
