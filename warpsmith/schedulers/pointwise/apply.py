"""Schedule a pointwise fusion by its parameters."""

from __future__ import annotations

from warpsmith.ir.domains import ParallelType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.schedule.inline import inline_at, inline_most
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import merge, parallelize, reorder, split
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.pointwise.can import reference
from warpsmith.schedulers.pointwise.heuristic import PointwiseParams, inner_run


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: PointwiseParams) -> None:
    """Loops of every tensor: `[grid_x, unroll, block_x, vector]` over the reference's elements."""
    domains = DomainMap(fusion)
    output = reference(fusion, domains)
    assert output is not None
    if output.rank == 0:
        return  # one element: one thread computes it without loops
    start = inner_run(fusion, domains, caches).start
    order = output.memory_order()
    reorder(output, {dimension: place for place, dimension in enumerate(order)})
    while len(output.loop) > start + 1:
        merge(output, start)
    split(output, start, params.vector)
    while len(output.loop) > 2:
        merge(output, 0)
    split(output, 0, params.threads)
    split(output, 0, params.unroll)
    parallelize(output, 0, ParallelType.grid_x)
    parallelize(output, 1, ParallelType.unroll)
    parallelize(output, 2, ParallelType.block_x)
    transform_like(output)
    parallelize_like(output)
    for cached in caches:
        if cached.memory.name in params.vectorized:
            parallelize(cached.copy, -1, ParallelType.vectorize)
    loads = [cached.register for cached in caches if cached.load]
    others = [t for t in fusion.tensors if t not in fusion.input_tensors and t not in loads]
    inline_most(fusion, others)
    if loads:
        inline_at(output, 1, best_effort=True, selected_tensors=loads)
