"""The memory format of arrays that exist."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir.memory_format import MemoryFormat


def memory_format_of(shape: Sequence[int], strides: Sequence[int]) -> MemoryFormat:
    """The memory format of an array; strides count elements.

    Repeated dimensions (stride 0) come out as the slowest, where they break no one's contiguity;
    those of extent 1 keep their place before the dimension that follows them. Strides of an empty
    array mean nothing: it is row-major, without gaps.
    """
    rank = len(shape)
    if 0 in shape:
        return MemoryFormat(tuple(None if extent == 1 else True for extent in shape), None)
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
        return MemoryFormat(tuple(contiguity), None)
    ranks = [0] * rank
    for position, d in enumerate(order):
        ranks[d] = rank - 1 - position
    return MemoryFormat(tuple(contiguity), tuple(ranks))
