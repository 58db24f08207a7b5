"""Choice of vector width, unrolling and block size for pointwise fusions."""

from __future__ import annotations

from dataclasses import dataclass

from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.layout import InnerRun, find_inner_run
from warpsmith.schedulers.pointwise.can import reference
from warpsmith.schedulers.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseParams:
    """A pointwise schedule.

    Attributes:
        vector: adjacent elements per thread and access.
        unroll: accesses per thread, a block's width apart, issued before the first use.
        threads: threads per block.
        vectorized: names of the global tensors accessed in vectors.
    """

    vector: int
    unroll: int
    threads: int
    vectorized: tuple[str, ...]


def inner_run(fusion: Fusion, domains: DomainMap, caches: tuple[Cached, ...]) -> InnerRun:
    """The inner run of the reference output, dimensions in its memory order."""
    output = reference(fusion, domains)
    assert output is not None
    axes = [output.shape_axes[d] for d in output.memory_order()]
    return find_inner_run(domains, axes, caches)


def choose(
    fusion: Fusion, domains: DomainMap, caches: tuple[Cached, ...], problem: Problem
) -> PointwiseParams:
    """Nothing here depends on sizes except whether vectors divide the inner run."""
    run = inner_run(fusion, domains, caches)
    vector = run.vector(problem)
    loads = sum(cached.load for cached in caches)
    return PointwiseParams(
        vector=vector,
        unroll=2 if loads <= 2 else 1,
        threads=256,
        vectorized=run.vectorized(problem, vector),
    )
