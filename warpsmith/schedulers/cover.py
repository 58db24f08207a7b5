"""How the threads of blocks cover a row: passes of one vector of each thread."""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, Group, map_of
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.transforms import merge, reorder, split


def merge_all(tensor: TensorView, start: int, end: int) -> None:
    """Merge the loops `start .. end - 1` into one."""
    for _ in range(end - start - 1):
        merge(tensor, start)


def order_loops(tensor: TensorView, domains: DomainMap, order: Mapping[Group, int]) -> int:
    """Bring kept dimensions before reduced ones, in the order of their groups' places; returns how
    many are kept. Broadcast dimensions have one element and need no loop.
    """
    assert tensor.definition is not None
    for output in tensor.definition.outputs:
        output.loop = [axis for axis in output.loop if not axis.is_broadcast]

    def key(position: int) -> tuple[bool, int]:
        axis = tensor.loop[position]
        return axis.is_reduction, order.get(domains.group(axis), -1)

    wanted = sorted(range(len(tensor.loop)), key=key)
    reorder(tensor, {old: new for new, old in enumerate(wanted)})
    return sum(not axis.is_reduction for axis in tensor.loop)


def full_passes(vectors: int, threads: int, passes: int, blocks: int = 1) -> int:
    """Passes over a row that all threads have a vector for, those of the last of its blocks too; 0
    where that is so of all passes.
    """
    full = max(0, vectors - (blocks - 1) * threads * passes) // threads
    return full if full < passes else 0


def divide_row(
    fusion: Fusion,
    tensor: TensorView,
    start: int,
    passes: int,
    threads: int,
    *,
    cluster: int = 1,
    exact: bool = False,
    full: int = 0,
) -> None:
    """From a loop over vectors at `start` to `[cluster, part, passes, threads]`.

    The first is there for several blocks; the part is one. The call's vectors are `exact`ly those,
    or so many passes are `full`.
    """
    vectors = map_of(fusion).extent_of(tensor.loop[start])
    each = passes * threads
    fusion.limits |= {(vectors, cluster * each)}
    if exact:
        fusion.divisors |= {(vectors, cluster * each)}
    if full:
        fusion.least |= {(vectors, (cluster - 1) * each + full * threads)}
    split(tensor, start, cluster * each)
    split(tensor, divide_cluster(tensor, start, each, cluster), threads)


def divide_cluster(tensor: TensorView, start: int, each: int, cluster: int) -> int:
    """From `[part, all]` at `start` to `[cluster, part, each]`; the place of the last of them."""
    if cluster == 1:
        return start + 1
    split(tensor, start + 1, each)
    reorder(tensor, {start + 1: start})
    return start + 2
