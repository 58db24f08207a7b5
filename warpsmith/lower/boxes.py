"""Which box of memory the loops of a tile walk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.polynomials import expression, polynomial
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.tiles import TileDim
from warpsmith.lower.access import MemoryDim
from warpsmith.lower.buffers import constant_of
from warpsmith.values import dataclass

MAX_RANK = 5
"""Dimensions of a tensor map (CUDA driver API)."""


@dataclass(frozen=True, slots=True)
class Box:
    """Dimensions of a tile, slowest first, and the loops that walk it, fastest first.

    `indices` are those of an element along each dimension, `fastest` the loops among all that walk
    the fastest dimension, and `ends` the conditions under which an element is not behind an end of
    a dimension.
    """

    dims: tuple[TileDim, ...]
    indices: tuple[Expr, ...]
    lanes_fastest_first: tuple[Symbol, ...]
    fastest: tuple[Symbol, ...]
    ends: tuple[Expr, ...]

    @staticmethod
    def of(output: TensorView, dims: list[MemoryDim], lanes: list[Symbol]) -> Box:
        """The tile that `lanes` walk through memory dimensions, given slowest first.

        Raises:
            ScheduleError: it is no box.
        """
        parts = _joined([[dim] for dim in dims or [_ONE_ELEMENT]], lanes)
        found: list[TileDim] = []
        indices: list[Expr] = []
        fastest_first: list[Symbol] = []
        for dim in map(_whole, reversed(parts)):
            steps = steps_of(dim.index, lanes)
            walked = sorted(
                ((step, lane) for lane, step in (steps or {}).items()), key=itemgetter(0)
            )
            if steps is None or not _is_chain(walked):
                raise ScheduleError(
                    f"the tma loops of {output.name} walk no box of memory: one of its dimensions "
                    f"has the index {dim.index!r}",
                    code="WS0299",
                    remedy="bind loops that are split off whole dimensions, or off merged "
                    "contiguous ones",
                )
            box = _box([lane for _, lane in walked])
            step = walked[0][0] if walked else 1
            first = without(dim.index, lanes)
            found.append(TileDim(box, first, dim.extent, dim.stride, step))
            indices.append(dim.index)
            fastest_first += [lane for _, lane in walked]
        fastest = _whole(parts[-1])
        ends = [dim for part in parts for dim in (_whole(part), part[0])]
        return Box(
            dims=tuple(reversed(found)),
            indices=tuple(reversed(indices)),
            lanes_fastest_first=tuple(fastest_first),
            fastest=tuple(steps_of(fastest.index, lanes) or ()),
            ends=tuple(integers.less(dim.index, dim.extent) for dim in ends),
        )

    def ended(self, bounds: Iterable[Expr]) -> Box:
        """The tile of which nothing is taken behind these bounds either, which memory says.

        A dimension with such an end is two. The slower one says where the tile is to end, at most
        its own elements behind its first; the faster one has as many indices as the tile, and its
        last is the one before that end. So what is behind it is outside, as the unit sees it.
        """
        dims, ends = list(self.dims), list(self.ends)
        for index, end in filter(None, map(integers.sides, bounds)):
            if index not in self.indices:
                continue
            dim = self.dims[self.indices.index(index)]
            last = integers.minimum(end, integers.add(dim.first, dim.box))
            first = integers.add(integers.sub(dim.first, last), dim.box)
            place = dims.index(dim)
            dims[place : place + 1] = [
                TileDim(1, last, integers.add(dim.size, 1), dim.stride),
                TileDim(dim.box, first, integers.index(dim.box), dim.stride, before=dim.length),
            ]
            ends.append(integers.less(index, end))
        return replace(self, dims=tuple(dims), ends=tuple(ends))


_ONE_ELEMENT = MemoryDim(integers.ZERO, integers.ONE, integers.ONE)
"""What is left of a tensor all of whose dimensions are broadcast."""


def _joined(parts: list[list[MemoryDim]], lanes: list[Symbol]) -> list[list[MemoryDim]]:
    """Contiguous neighbours together where a loop walks through both, or where there are too many.

    Every list holds what is one dimension then, slowest first.
    """
    while True:
        dims = [_whole(part) for part in parts]
        crossed = [p for p, d in enumerate(dims) if steps_of(d.index, lanes) is None]
        if not crossed and len(dims) > MAX_RANK:
            crossed = [
                p + 1
                for p, (a, b) in enumerate(pairwise(dims))
                if not steps_of(a.index, lanes) and not steps_of(b.index, lanes)
            ]
        pairs = [(p - 1, p) for p in crossed if p > 0] + [(p, p + 1) for p in crossed]
        pairs.sort(key=lambda pair: not {*pair} <= {*crossed})  # one loop walks through both
        inside = [(p, q) for p, q in pairs if q < len(dims)]
        joined = next((p for p, q in inside if _contiguous(dims[p], dims[q])), None)
        if joined is None:
            return parts
        parts[joined : joined + 2] = [parts[joined] + parts[joined + 1]]


def _whole(part: list[MemoryDim]) -> MemoryDim:
    """Contiguous dimensions as one, given slowest first."""
    whole, *rest = part
    for fast in rest:
        index = integers.add(integers.mul(whole.index, fast.extent), fast.index)
        whole = MemoryDim(index, integers.mul(whole.extent, fast.extent), fast.stride)
    return whole


def _contiguous(slow: MemoryDim, fast: MemoryDim) -> bool:
    return slow.stride == integers.mul(fast.extent, fast.stride)


def steps_of(index: Expr, lanes: list[Symbol]) -> dict[Symbol, int] | None:
    """By how much the index grows with each loop that it depends on; None where not linearly."""
    found: dict[Symbol, int] = {}
    for monomial, coefficient in polynomial(index).items():
        used = [lane for lane in lanes if any(lane in factor.walk() for factor in monomial)]
        if not used:
            continue
        if len(monomial) != 1 or (monomial[0] is not used[0] and monomial[0] != used[0]):
            return None
        found[used[0]] = coefficient
    return found


def extent_of(lane: Symbol) -> Expr:
    assert lane.extent is not None
    return lane.extent


def length(lane: Symbol) -> int:
    return constant_of(extent_of(lane))


def _is_chain(walked: list[tuple[int, Symbol]]) -> bool:
    """Whether loops, by growing step, continue each other: together they are one longer loop."""
    known = all(isinstance(lane.extent, Const) for _, lane in walked[: len(walked) - 1])
    return known and all(
        b_step == a_step * length(a) for (a_step, a), (b_step, _) in pairwise(walked)
    )


def _box(lanes: list[Symbol]) -> int | Expr:
    """Elements that loops walk together."""
    extent = integers.mul(*(extent_of(lane) for lane in lanes))
    known = integers.constant(extent)
    return extent if known is None else known


def without(index: Expr, lanes: list[Symbol]) -> Expr:
    """The index where all of these loops are at 0."""
    terms = polynomial(index).items()
    kept = {m: c for m, c in terms if not any(lane in f.walk() for f in m for lane in lanes)}
    return expression(kept)
