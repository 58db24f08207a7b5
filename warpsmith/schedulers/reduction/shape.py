"""The dimensions of a reduction as they lie in memory, and which of them are kept."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.layout import InnerRun, beside_run, find_inner_run
from warpsmith.schedulers.reduction.applicability import after_reduction, reductions
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """The domain of the reductions: its dimensions in memory order and what is kept of it."""

    axes: tuple[IterDomain, ...]
    run: InnerRun
    inner: bool

    @property
    def kept(self) -> Expr:
        return integers.mul(*(a.extent for a in self.axes if not a.is_reduction))

    @property
    def reduced(self) -> Expr:
        return integers.mul(*(a.extent for a in self.axes if a.is_reduction))


def shape_of(fusion: Program, domains: DomainMap, caches: tuple[Cached, ...]) -> Shape:
    """Order the dimensions as the largest input has them in memory, and find the inner run."""
    first = reductions(fusion)[0]
    axes = memory_ordered(domains, first, caches)
    after = after_reduction(fusion)
    before = [c for c in caches if c.register not in after]
    inner = bool(axes) and axes[-1].is_reduction
    alike = len(axes)
    while alike and axes[alike - 1].is_reduction == inner:
        alike -= 1
    run = find_inner_run(domains, axes[alike:], before)
    if not inner:
        before += [c for c in caches if c.register in after]
        run = find_inner_run(domains, axes[alike:], before)
    return Shape(axes, replace(run, beside=beside_run(domains, run, before)), inner)


def memory_ordered(
    domains: DomainMap, first: TensorView, caches: tuple[Cached, ...]
) -> tuple[IterDomain, ...]:
    """The reduction's dimensions, slowest first, as the input of the highest rank stores them."""
    axes = [axis for axis in first.logical if not axis.is_broadcast]
    place = {domains.group(axis): axis for axis in axes}
    loads = sorted((c for c in caches if c.load), key=lambda c: -c.memory.rank)
    for cached in loads:
        mirror = [cached.register.shape_axes[d] for d in cached.memory.memory_order()]
        groups = [domains.group(axis) for axis in mirror if not axis.is_broadcast]
        found = [place[group] for group in groups if group in place]
        if len(found) == len(axes):
            return tuple(found)
    return tuple(axes)


def rows_and_rest(
    domains: DomainMap, shape: Shape
) -> tuple[tuple[Cached, ...], tuple[Cached, ...]]:
    """Of the inputs that walk the reduced dimensions of rows, those that are different from row to
    row, and those that all rows read alike.
    """
    kept = {domains.group(axis) for axis in shape.axes if not axis.is_reduction}
    own: list[Cached] = []
    same: list[Cached] = []
    for cached in shape.run.walkers:
        if cached.load:
            axes = {domains.group(a) for a in cached.register.shape_axes if not a.is_broadcast}
            (same if kept.isdisjoint(axes) else own).append(cached)
    return tuple(own), tuple(same)
