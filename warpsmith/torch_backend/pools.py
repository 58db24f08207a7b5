"""Pools of images, and their gradients, as operations of a fusion.

A window is read element by element, and joined: nothing is written twice, and of a gradient each
pixel reads the few windows that may have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import product
from math import inf, prod
from typing import Any

from warpsmith import ops
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.polynomials import polynomial
from warpsmith.ir.reads import WINDOW
from warpsmith.ir.reads import at as own
from warpsmith.ir.scalar import Const, Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.broadcasting import axis_of
from warpsmith.ops.numbers import numbers
from warpsmith.ops.promotion import cast_tensor, fresh_axes
from warpsmith.ops.reading import read
from warpsmith.torch_backend.meanings import At, Meaning, NotTaken
from warpsmith.torch_backend.windows import Even, Windows, adaptive, several

MOST_READ = 64
"""Elements of a window that are read one by one, and windows of which a pixel's gradient is."""


# Behind images and gradients are torch's arguments of windows: `kernel`, `stride`, `padding`, of a
# maximum `dilation`, and `ceil_mode`, of which the shape of the result says what it says.


def max_pool(dims: int) -> Meaning:
    """The largest element of each window, and the place of the first such one, NaN the largest."""
    return lambda at, x, *said: _largest(at, x, _even(dims, x, at.shape, *said), in_window=False)


def adaptive_max_pool(at: At, x: Any, counts: Sequence[int]) -> Any:
    return _largest(at, x, _adaptive(len(counts), x, at.shape), in_window=False)


def max_pool_gradient(dims: int) -> Meaning:
    def meaning(at: At, gradient: Any, x: Any, *said: Any) -> Any:
        *how, places = said
        windows = _even(dims, at.shape, gradient, *how)
        return _of_largest(at, gradient, places, windows, in_window=False)

    return meaning


def adaptive_max_pool_gradient(dims: int) -> Meaning:
    def meaning(at: At, gradient: Any, x: Any, places: Any) -> Any:
        windows = _adaptive(dims, at.shape, gradient)
        return _of_largest(at, gradient, places, windows, in_window=False)

    return meaning


def max_pool_in_windows(at: At, x: Any, kernel: Any, *said: Any) -> Any:
    """Beside the largest elements the number that each has in its window."""
    return _largest(at, x, _even(len(kernel), x, at.shape, kernel, *said), in_window=True)


def max_pool_in_windows_gradient(
    at: At, gradient: Any, chosen: Any, size: Any, kernel: Any, *said: Any
) -> Any:
    *how, _channels_last = said
    windows = _even(len(kernel), at.shape, gradient, kernel, *how)
    return _of_largest(at, gradient, chosen, windows, in_window=True)


def avg_pool(dims: int) -> Meaning:
    """The mean of each window; `share` says of how many elements, as `_divisor` takes it."""

    def meaning(
        at: At, x: Any, kernel: Any, stride: Any = (), padding: Any = 0, ceil: Any = 0, *share: Any
    ) -> Any:
        windows = _even(dims, x, at.shape, kernel, stride, padding)
        return ops.truediv(_sum(x, windows), _divisor(at, at.shape, windows, *share))

    return meaning


def avg_pool_gradient(dims: int) -> Meaning:
    def meaning(
        at: At,
        gradient: Any,
        x: Any,
        kernel: Any,
        stride: Any,
        padding: Any,
        ceil: Any,
        *share: Any,
    ) -> Any:
        windows = _even(dims, at.shape, gradient, kernel, stride, padding)
        return _of_mean(at, gradient, windows, *share)

    return meaning


def adaptive_avg_pool(at: At, x: Any, counts: Sequence[int]) -> Any:
    windows = _adaptive(len(counts), x, at.shape)
    return ops.truediv(_sum(x, windows), _divisor(at, at.shape, windows))


def adaptive_avg_pool_gradient(dims: int) -> Meaning:
    return lambda at, gradient, x: _of_mean(at, gradient, _adaptive(dims, at.shape, gradient))


def sizes_of(dims: int, value: Any) -> list[int]:
    """The last sizes of a tensor, or of a shape."""
    shape = [a.extent for a in value.shape_axes] if isinstance(value, TensorView) else value
    known = [size for size in map(integers.constant, shape[-dims:]) if size]
    if len(known) < dims:
        raise NotTaken("windows in dimensions whose sizes a call says")
    return known


def _even(
    dims: int,
    x: Any,
    result: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> list[Windows]:
    """Windows of a tensor, or a shape, as torch says them: one number is that of all dimensions."""
    said = [several(each, dims) for each in (kernel, stride or kernel, padding, dilation)]
    if not all(type(number) is int for each in said for number in each):
        raise NotTaken("windows of sizes that a call says")
    sizes = sizes_of(dims, x), sizes_of(dims, result)
    return [Even(*each) for each in zip(*sizes, *said, strict=True)]


def _adaptive(dims: int, x: Any, result: Any) -> list[Windows]:
    return [*map(adaptive, sizes_of(dims, x), sizes_of(dims, result))]


def _windows_read(
    x: TensorView, windows: Sequence[Windows], fill: float
) -> Iterator[tuple[tuple[int, ...], TensorView]]:
    """For each element of a window its numbers, and its value for all windows."""
    lead = x.rank - len(windows)
    if prod(each.length for each in windows) > MOST_READ:
        raise NotTaken(f"windows that overlap, of more than {MOST_READ} elements")
    axes = [*fresh_axes(x)[:lead], *(axis_of(Const(each.count)) for each in windows)]
    for number in product(*(range(each.length) for each in windows)):
        found = [
            each.element(own(lead + k), n)
            for k, (each, n) in enumerate(zip(windows, number, strict=True))
        ]
        places = [*map(own, range(lead)), *(place for place, _ in found)]
        yield number, read_inside(x, places, [inside for _, inside in found], axes, fill)


def read_inside(
    x: TensorView, places: Any, insides: Sequence[Expr], axes: Any, fill: float, kind: str = WINDOW
) -> TensorView:
    """A read of elements at places, and of `fill` where not all predicates hold."""
    inside = integers.conjunction(*insides)
    outside = None if inside == integers.TRUE else Const(fill, x.dtype)
    return read(kind, [(x, places, inside)], axes, fill=outside)


def sum_inside(
    x: TensorView,
    reads: Iterable[tuple[Sequence[Expr], Sequence[Expr]]],
    axes: Any,
    kind: str = WINDOW,
) -> Any:
    """The sum of elements at several places, of those whose predicates hold, as it is computed."""
    found = (read_inside(x, places, insides, axes, 0, kind) for places, insides in reads)
    return reduce(ops.add, (ops.cast(value, x.dtype.compute) for value in found))


def _largest(at: At, x: TensorView, windows: Sequence[Windows], *, in_window: bool) -> Any:
    lead = x.rank - len(windows)
    if not x.dtype.is_float:
        raise NotTaken(f"a pool of {x.dtype.value}")
    weights = _weights(windows, in_window)
    first: Expr = integers.ZERO
    for k, each in enumerate(windows):
        inside = each.first_inside(own(lead + k))
        first = integers.add(first, integers.mul(inside, weights[k]))
    axes = [axis_of(extent) for extent in at.shape]
    best: Any = None
    chosen: Any = ops.cast(numbers(at.fusion, axes, first), DataType.Int32)
    for number, value in _windows_read(x, windows, -inf):
        if best is None:
            best = value
            continue
        taken = ops.logical_or(ops.gt(value, best), ops.ne(value, value))
        place = sum(n * weight for n, weight in zip(number, weights, strict=True))
        chosen = ops.where(taken, place, chosen)
        best = ops.maximum(best, value)
    if in_window:
        return best, ops.expand(chosen, at.shape)
    base: Expr = integers.ZERO
    for k, (each, row) in enumerate(zip(windows, _rows(windows), strict=True)):
        base = integers.add(base, integers.mul(each.start(own(lead + k)), row))
    return best, ops.expand(ops.add(chosen, numbers(at.fusion, axes, base)), at.shape)


def _rows(windows: Sequence[Windows]) -> list[int]:
    """How many pixels lie between neighbours along each dimension."""
    return [prod(each.size for each in windows[k + 1 :]) for k in range(len(windows))]


def _weights(windows: Sequence[Windows], in_window: bool) -> list[int]:
    """What one more along each dimension adds to a place in the image, or to that in the window."""
    if in_window:
        return [prod(each.length for each in windows[k + 1 :]) for k in range(len(windows))]
    return [row * each.step for row, each in zip(_rows(windows), windows, strict=True)]


def _sum(x: TensorView, windows: Sequence[Windows]) -> Any:
    if not x.dtype.is_float:
        raise NotTaken(f"a pool of {x.dtype.value}")
    if prod(each.length for each in windows) > MOST_READ:
        return ops.sum(*_apart(x, windows), False, x.dtype.compute)
    values = [value for _, value in _windows_read(x, windows, 0)]
    return reduce(ops.add, (ops.cast(value, x.dtype.compute) for value in values))


def _apart(x: TensorView, windows: Sequence[Windows]) -> tuple[TensorView, list[int]]:
    """A tensor with dimensions of its own for windows that do not overlap, and which these are."""
    lead = x.rank - len(windows)
    shape = [axis.extent for axis in x.shape_axes[:lead]]
    for k, each in enumerate(windows):
        if not (isinstance(each, Even) and each.is_apart):
            raise NotTaken(f"windows that overlap, of more than {MOST_READ} elements")
        if each.count * each.most < each.size:
            x = ops.narrow(x, lead + k, 0, each.count * each.most)
        shape += [Const(each.count), Const(each.most)]
    return ops.reshape(x, shape), [lead + 2 * k + 1 for k in range(len(windows))]


def _divisor(
    at: At,
    shape: Sequence[Expr],
    windows: Sequence[Windows],
    padded: bool = True,
    divisor: int | None = None,
) -> Any:
    """What the sum of each window is divided by: a number, or one for each of a plane.

    Args:
        padded: elements of the padding count, too.
        divisor: is it, where it is given.
    """
    if divisor is not None:
        return float(divisor)
    lead = len(shape) - len(windows)
    axes = [axis_of(integers.ONE)] * lead + [axis_of(extent) for extent in shape[lead:]]
    found: list[Any] = []
    for k, each in enumerate(windows):
        lengths = {integers.constant(each.elements(n, padded)) for n in range(each.count)}
        length = each.elements(own(lead + k), padded)
        found.append(lengths.pop() if len(lengths) == 1 else numbers(at.fusion, axes, length))
    plain = prod(number for number in found if isinstance(number, int))
    others = [number for number in found if not isinstance(number, int)]
    if not others:
        return float(plain)
    return ops.cast(reduce(ops.mul, others, plain), DataType.Float)


def windows_having(
    windows: Sequence[Windows], lead: int
) -> Iterator[tuple[list[Expr], list[Expr], list[Expr]]]:
    """For each window that may have a pixel, whose image has its dimensions behind `lead` others:
    where it is, the numbers of its element, and the predicates that it has it.
    """
    if prod(each.reach for each in windows) > MOST_READ:
        raise NotTaken(f"more than {MOST_READ} windows that have a pixel in common")
    for number in product(*(range(each.reach) for each in windows)):
        found = [
            each.having(own(lead + k), n)
            for k, (each, n) in enumerate(zip(windows, number, strict=True))
        ]
        yield [each[0] for each in found], [each[1] for each in found], [each[2] for each in found]


def _of_largest(
    at: At, gradient: TensorView, chosen: TensorView, windows: Sequence[Windows], *, in_window: bool
) -> Any:
    """What pixels get of the windows that chose them."""
    lead = gradient.rank - len(windows)
    axes = [axis_of(extent) for extent in at.shape]
    kind = DataType.Int32 if prod(each.size for each in windows) < 2**31 else DataType.Int
    steps = _weights(windows, True) if in_window else _rows(windows)
    known: dict[Expr, TensorView] = {}
    total: Any = None
    for along, elements, insides in windows_having(windows, lead):
        places = [*map(own, range(lead)), *along]
        given = elements if in_window else [own(lead + k) for k in range(len(windows))]
        wanted = integers.add(*map(integers.mul, given, steps))
        more = polynomial(wanted).get((), 0)
        first = integers.sub(wanted, more)  # most windows have it in common
        if first not in known:
            known[first] = cast_tensor(numbers(at.fusion, axes, first), kind)
        found = ops.cast(read_inside(chosen, places, insides, axes, 0), kind)
        value = ops.cast(read_inside(gradient, places, insides, axes, 0), gradient.dtype.compute)
        mine = ops.eq(ops.sub(found, known[first]), more)
        part = ops.where(mine, value, 0.0)
        total = part if total is None else ops.add(total, part)
    return total


def _of_mean(
    at: At,
    gradient: TensorView,
    windows: Sequence[Windows],
    padded: bool = True,
    divisor: int | None = None,
) -> Any:
    """What pixels get of the windows that have them."""
    shape, lead = [axis.extent for axis in gradient.shape_axes], gradient.rank - len(windows)
    axes = [axis_of(extent) for extent in at.shape]
    share = _divisor(at, shape, windows, padded, divisor)
    alike = isinstance(share, float)
    source = gradient if alike else ops.truediv(gradient, share)
    having = windows_having(windows, lead)
    reads = (([*map(own, range(lead)), *along], insides) for along, _, insides in having)
    total = sum_inside(source, reads, axes)
    return ops.truediv(total, share) if alike else total
