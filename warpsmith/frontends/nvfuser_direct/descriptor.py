"""How a tensor lies in memory, as nvFuser describes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def compute_tensor_descriptor(
    sizes: Sequence[int], strides: Sequence[int]
) -> tuple[list[bool | None], list[int]]:
    """(Contiguity from the slowest dimension on, rank of each dimension in memory; 0 the fastest).

    A dimension with stride 0 keeps its place; of it, and of one with a single element, nothing is
    said.
    """
    rank = len(sizes)
    order = sorted((d for d in range(rank) if strides[d] != 0), key=lambda d: -strides[d])
    for d in range(rank):
        if strides[d] == 0:
            order.insert(d, d)
    contiguity: list[bool | None] = []
    expected = 1
    for d in reversed(order):
        if sizes[d] == 1 or strides[d] == 0:
            contiguity.append(None)
        else:
            contiguity.append(strides[d] == expected)
            expected = strides[d] * sizes[d]
    ranks = [0] * rank
    for place, d in enumerate(order):
        ranks[d] = rank - 1 - place
    return contiguity[::-1], ranks


def repeated_first(
    shape: Sequence[int], flags: Sequence[Any], order: Sequence[int]
) -> tuple[list[Any], Sequence[int]]:
    """Contiguity and ranks with dimensions of which nothing is said as the slowest ones.

    Of more than one element they are repeated, and are between no others in memory.
    """
    rank = len(shape)
    if rank != len(flags) or None not in flags:
        return list(flags), order
    ranks = list(order) or [rank - 1 - d for d in range(rank)]
    places = sorted(range(rank), key=lambda d: -ranks[d])
    said = dict(zip(places, flags, strict=True))
    repeated = [d for d in places if said[d] is None and shape[d] != 1]
    if not repeated:
        return list(flags), order
    places = [*repeated, *(d for d in places if d not in repeated)]
    ranks = [rank - 1 - places.index(d) for d in range(rank)]
    is_usual = places == list(range(rank))
    return [False if d in repeated else said[d] for d in places], () if is_usual else ranks
