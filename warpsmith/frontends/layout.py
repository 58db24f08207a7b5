"""How an array lies in memory, as a definition states it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Layout(NamedTuple):
    """Order and gaps of an array's dimensions.

    Attributes:
        contiguity: per dimension, whether its stride is the product of the faster extents; None
            where the extent is 1.
        stride_order: rank of each dimension in memory, 0 the fastest; None for row-major.
    """

    contiguity: tuple[bool | None, ...]
    stride_order: tuple[int, ...] | None


def layout_of(shape: Sequence[int], strides: Sequence[int]) -> Layout:
    """The layout of an array; strides count elements.

    Repeated dimensions (stride 0) come out as the slowest, where they break no one's contiguity;
    those of extent 1 keep their place before the dimension that follows them. Strides of an empty
    array mean nothing: it is row-major, without gaps.
    """
    rank = len(shape)
    if 0 in shape:
        return Layout(tuple(None if extent == 1 else True for extent in shape), None)
    place = list(strides)
    for d in reversed(range(rank)):
        if shape[d] == 1:
            place[d] = place[d + 1] * shape[d + 1] if d + 1 < rank else 1
    repeated = [strides[d] == 0 and shape[d] != 1 for d in range(rank)]
    order = sorted(range(rank), key=lambda d: (not repeated[d], -place[d], d))
    contiguity: list[bool | None] = [None] * rank
    expected = 1
    for d in reversed(order):
        if shape[d] != 1:
            contiguity[d] = strides[d] == expected
            expected = strides[d] * shape[d]
    if order == list(range(rank)):
        return Layout(tuple(contiguity), None)
    ranks = [0] * rank
    for position, d in enumerate(order):
        ranks[d] = rank - 1 - position
    return Layout(tuple(contiguity), tuple(ranks))
