"""Inputs that lie along another dimension than the output: they go through shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.tensor import TensorView
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.layout import InnerRun, fastest, find_inner_run, parts_of
from warpsmith.schedulers.problem import Problem, widest_vector
from warpsmith.values import dataclass

TILE = 64
"""Edge of the square tile in which inputs are transposed through shared memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transposed:
    """Inputs whose fastest dimension is not the output's: they pass through shared memory.

    Attributes:
        first, dimension: places in the output's memory order of the dimensions that they walk, from
            the first to their fastest one, which are one axis of the tiles.
        columns: place of the first dimension of the other axis, which goes on to the last one.
        names: their names.
        vector: adjacent elements per access along `dimension`.
        apart: what a reshape merged to a dimension of the output counts as dimensions.
    """

    first: int
    dimension: int
    columns: int
    names: tuple[str, ...]
    vector: int
    apart: bool = False


def loop_axes(
    output: TensorView, domains: DomainMap, caches: Sequence[Cached], *, apart: bool
) -> list[tuple[IterDomain, ...]]:
    """The dimensions of an output in its memory order; `apart`, in place of one that a reshape made
    of several these, slowest first, where inputs have them.
    """
    axes = [output.shape_axes[dimension] for dimension in output.concrete_order()]
    read = domains.groups(a for c in caches if c.load for a in c.copy.shape_axes)
    known = read - domains.groups(axes) if apart else frozenset()
    parts = (parts_of(domains, domains.group(axis), known) for axis in axes)
    return [
        (axis,) if len(each) == 1 else tuple(domains.members(part)[0] for part in each)
        for axis, each in zip(axes, parts, strict=True)
    ]


def transposed_of(
    domains: DomainMap, caches: tuple[Cached, ...], problem: Problem, run: InnerRun
) -> Transposed | None:
    """The inputs that walk some other dimension contiguously, if they agree on which. What has not
    the fastest one is read once for all of it, however it lies.
    """
    if not run.axes:
        return None
    places = {domains.group(axis): place for place, axis in enumerate(run.axes)}
    last = domains.group(run.axes[-1])
    found: dict[int, list[Cached]] = {}
    for cached in caches:
        group = fastest(domains, cached) if cached.load else None
        own = domains.groups(a for a in cached.register.shape_axes if not a.is_broadcast)
        parts = (part for each in own for part in parts_of(domains, each, places))
        if group in places and group != last and last in parts:
            found.setdefault(places[group], []).append(cached)
    if len(found) != 1:
        return None
    ((dimension, inputs),) = found.items()
    walked = find_inner_run(domains, run.axes[: dimension + 1], inputs)
    other = problem.size(walked.extent)
    columns = max(run.start, dimension + 1)
    extent = integers.mul(*map(domains.extent_of, run.axes[columns:]))
    if min(problem.size(extent), other) < TILE // 2:
        return None
    width = widest_vector([cached.memory.dtype for cached in inputs])
    while width > 1 and (
        other % width or not all(problem.aligned(c.memory, width) for c in inputs)
    ):
        width //= 2
    strided = any(False in cached.memory.contiguity for cached in inputs)
    return Transposed(
        first=walked.start,
        dimension=dimension,
        columns=columns,
        names=tuple(cached.name for cached in inputs),
        vector=1 if strided else width,
    )


def columns_of(domains: DomainMap, run: InnerRun, transposed: Transposed) -> InnerRun:
    """The run cut down to the columns of tiles."""
    extent = integers.mul(*map(domains.extent_of, run.axes[transposed.columns :]))
    return replace(run, start=transposed.columns, extent=extent, beside=())
