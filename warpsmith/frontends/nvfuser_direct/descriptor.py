"""How a tensor lies in memory, as nvFuser describes it."""

from __future__ import annotations

from collections.abc import Sequence


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
