"""Windows of images side by side, as convolutions by products have them, and sums of such."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from warpsmith import ops
from warpsmith.ir import integers
from warpsmith.ir.reads import at as own
from warpsmith.ir.scalar import Const, Expr
from warpsmith.ops.broadcasting import axis_of
from warpsmith.ops.promotion import fresh_axes
from warpsmith.torch_backend.meanings import At, NotTaken
from warpsmith.torch_backend.pools import read_inside, sizes_of, sum_inside, windows_having
from warpsmith.torch_backend.windows import Even

_KIND = "columns"
"""Of reads that give more elements than they have, or fewer."""


def columns(at: At, x: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """`im2col`: `[.., C, H, W]` as `[.., C * elements of a window, windows]`."""
    windows = _windows(sizes_of(2, x), kernel, dilation, padding, stride)
    lead, dims = x.rank - 2, len(windows)
    lengths = [axis_of(Const(each.most)) for each in windows]
    axes = [*fresh_axes(x)[:lead], *lengths, *(axis_of(Const(each.count)) for each in windows)]
    places: list[Expr] = [*map(own, range(lead))]
    insides: list[Expr] = []
    for k, each in enumerate(windows):
        step = integers.mul(own(lead + k), each.dilation)
        begin = each.start(own(lead + dims + k))
        place = integers.add(begin, step)
        last = (each.count - 1) * each.stride - each.padding + (each.most - 1) * each.dilation
        insides += [] if not each.padding else [integers.less(-1, place)]
        insides += [] if last < each.size else [integers.less(place, each.size)]
        places.append(place)
    return ops.reshape(read_inside(x, places, insides, axes, 0, _KIND), at.shape)


def images(at: At, x: Any, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """`col2im`, of as many windows for each pixel: their sum."""
    if not all(type(each) is int for each in size):
        raise NotTaken("windows in dimensions whose sizes a call says")
    windows = _windows(size, kernel, dilation, padding, stride)
    lengths, counts = zip(*((Const(each.most), Const(each.count)) for each in windows), strict=True)
    lead = [axis.extent for axis in x.shape_axes[:-2]]
    channels = integers.floordiv(x.shape_axes[-2].extent, prod(each.most for each in windows))
    apart = ops.reshape(x, [*lead, channels, *lengths, *counts])
    outside = [*map(own, range(len(lead) + 1))]
    having = windows_having(windows, len(outside))
    reads = (([*outside, *elements, *places], insides) for places, elements, insides in having)
    return sum_inside(apart, reads, [*map(axis_of, at.shape)], _KIND)


def unfolded(at: At, x: Any, dim: int, size: int, step: int) -> Any:
    """`unfold`: windows along one dimension, whose elements have a new last one."""
    places: list[Expr] = [*map(own, range(x.rank))]
    if x.rank:
        along = dim % x.rank
        places[along] = integers.add(integers.mul(own(along), step), own(x.rank))
    return read_inside(x, places, [], [*map(axis_of, at.shape)], 0, _KIND)


def unfolded_gradient(at: At, x: Any, shape: Any, dim: int, size: int, step: int) -> Any:
    """`unfold_backward`: of windows along one dimension, whose elements have the last one."""
    place = dim % len(at.shape) if at.shape else 0
    extent, count = (integers.constant(e) for e in (at.shape[place], x.shape_axes[place].extent))
    if not extent or not count:
        raise NotTaken("windows in dimensions whose sizes a call says")
    before, behind = [*map(own, range(place))], [*map(own, range(place + 1, x.rank - 1))]
    having = windows_having([Even(extent, count, size, step)], place)
    reads = (([*before, *window, *behind, *number], insides) for window, number, insides in having)
    return sum_inside(x, reads, [*map(axis_of, at.shape)], _KIND)


def _windows(
    size: Sequence[int], kernel: Any, dilation: Any, padding: Any, stride: Any
) -> list[Even]:
    found = []
    for n, k, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True):
        if not all(type(number) is int for number in (k, d, p, s)):
            raise NotTaken("windows of sizes that a call says")
        found.append(Even(n, (n + 2 * p - (k - 1) * d - 1) // s + 1, k, s, p, d))
    return found
