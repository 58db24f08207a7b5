"""Copies of whole tiles between global and shared memory, by the TMA unit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.exprs import Operation, tensor_inputs
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.tiles import TileDim, TileNeeds
from warpsmith.lower.access import MemoryDim
from warpsmith.lower.places import Places, constant_of
from warpsmith.lower.predicates import Predicates

MAX_RANK = 5
MAX_BOX = 256
MAX_STEP = 8
"""Dimensions of a tensor map, elements that its box spans along each, and how far apart those that
it takes may lie (CUDA driver API)."""

TENSOR_START = 128
BULK_START = 16
"""Bytes that a copy's place in shared memory is a multiple of, with a tensor map and without (PTX
ISA, "cp.async.bulk")."""


class TileCopies:
    """Makes the tile copies of one kernel."""

    def __init__(self, places: Places, predicates: Predicates) -> None:
        self._places = places
        self._predicates = predicates

    def emit(self, operation: Operation, indices: list[Expr]) -> list[Statement]:
        """The copy of the tile that the remaining loops of `operation` walk."""
        output, source = operation.outputs[0], tensor_inputs(operation)[0]
        stores = output.is_output
        shared, memory = (source, output) if stores else (output, source)
        if not stores and not source.is_input:
            raise ScheduleError(
                f"{output.name} is loaded by {output.copied_by.value} from {source.name}, which "
                f"is in {source.memory.value} memory",
                code="WS0296",
                remedy="use such copies from inputs of the fusion, or to its outputs",
            )
        walking = self._walking(output, len(indices))
        lanes = [index for index in walking if isinstance(index, Symbol)]
        access = self._places.access(operation, [*indices, *walking])
        start = self._places.access(operation, [*indices, *(integers.ZERO for _ in walking)])
        if stores:
            place = self._places.index_row_major(access, source)
            dims = access.output_dims()
            order = [d for d in output.memory_order() if not output.shape_axes[d].is_broadcast]
        else:
            place = self._places.own_row_major(access, output)
            dims = access.input_dims(source)
            order = [d for d in source.memory_order() if not source.shape_axes[d].is_broadcast]
        ranks = {d: rank for rank, d in enumerate(sorted(order))}
        in_order = [dims[ranks[d]] for d in order]
        tile = _Tile.of(output, in_order, lanes)
        self._check_packed(output, shared, place, tile)
        condition = self._predicates.of_tile(start, operation)
        bounds = integers.conjuncts(self._predicates.of_tile(access, operation))
        copy = TileCopy(
            shared=self._places.buffer(shared),
            index=_without(place, lanes),
            memory=self._places.buffer(memory),
            dims=tile.dims,
            inside=_inside(output, tile, [b for b in bounds if _touches(b, lanes)]),
            condition=condition,
            how=output.copied_by,
            swizzle=shared.swizzle,
            stores=stores,
        )
        return [self._feasible(copy, output, memory)]

    def _walking(self, output: TensorView, depth: int) -> list[Expr]:
        """Indices of the loops that walk the tile: 0 of those with one iteration, or symbols."""
        extents = [constant_of(self._places.extent(axis)) for axis in output.loop[depth:]]
        return [
            integers.ZERO if extent == 1 else Symbol(f"lane{number}", extent=Const(extent))
            for number, extent in enumerate(extents)
        ]

    def _check_packed(
        self, output: TensorView, shared: TensorView, place: Expr, tile: _Tile
    ) -> None:
        """The tile fills consecutive elements of shared memory, in memory's order."""
        expected: Expr = integers.ZERO
        step = 1
        for lane in tile.lanes_fastest_first:
            expected = integers.add(expected, integers.mul(lane, step))
            step *= _length(lane)
        start = _without(place, list(tile.lanes_fastest_first))
        if integers.sub(integers.sub(place, start), expected) != integers.ZERO:
            raise ScheduleError(
                f"the tile of {output.name} does not lie in {shared.name} as it lies in memory "
                f"(elements {place!r}, wanted {expected!r} from its start)",
                code="WS0297",
                remedy="order the loops bound to tma as memory's dimensions, the fastest last, "
                "without padding",
            )

    def _feasible(self, copy: TileCopy, output: TensorView, memory: TensorView) -> TileCopy:
        """The copy with what its unit needs noted, or left to the threads where it cannot be."""
        size = memory.dtype.size
        fastest = copy.dims[-1]
        if copy.how is LoadStoreOpType.tma:
            _check_box(copy, output, size)
        elif any(dim.box > 1 for dim in copy.dims[:-1]) or fastest.step > 1:
            raise ScheduleError(
                f"{output.name} is copied by bulk, and its tile {[d.box for d in copy.dims]} is "
                "not contiguous in memory",
                code="WS0298",
                remedy="bind one loop to tma, or copy by LoadStoreOpType.tma",
            )
        made, granule = self._places.made, self._places.rings.granule(output)
        start = TENSOR_START if copy.how is LoadStoreOpType.tma else BULK_START
        needed, row = self._needed(copy, size), integers.mul(fastest.size, size)
        if fastest.stride != integers.ONE or fastest.step > 1:
            why = f"neighbours in {memory.name}'s fastest dimension are not adjacent in memory"
            granule = size
        elif needed is None:
            why = f"tiles of {memory.name} do not start and end at multiples of 16 bytes"
            granule = size
        elif not integers.divides(start // size, copy.index, self._places.facts):
            why = (
                f"tiles lie in {copy.shared.name} at places that are not multiples of {start} bytes"
            )
            granule = size
        else:
            why = f"addresses in {memory.name} are multiples of {granule} bytes, and TMA takes 16"
            made.needs[output.name] = TileNeeds(output.name, memory.name, tuple(needed), row)
        if granule >= 16:
            return copy
        made.left_to_threads[output.name] = why
        return _by_threads(copy, size, granule)

    def _needed(self, copy: TileCopy, size: int) -> list[Expr] | None:
        """Bytes that must be multiples of 16; None where no launch can make them so."""
        *outer, fastest = copy.dims
        wanted = [integers.mul(d.stride, size) for d in outer]
        if copy.how is LoadStoreOpType.bulk:
            wanted.append(integers.mul(fastest.box, size))
            known = isinstance(copy.inside, Const)
            wanted.append(integers.mul(copy.inside if known else fastest.size, size))
            if not integers.divides(max(1, 16 // size), fastest.first, self._places.facts):
                return None
        elif copy.stores:  # whole chunks are written, and so what shares one with a row's end
            wanted.append(integers.mul(fastest.size, size))
        unknown: list[Expr] = []
        for amount in wanted:
            if integers.divides(16, amount, self._places.facts):
                continue
            if isinstance(amount, Const):
                return None
            unknown.append(amount)
        return unknown


@dataclass(frozen=True, slots=True)
class _Tile:
    """Dimensions of a tile, slowest first, and the loops that walk it, fastest first.

    `fastest` are those among them that walk the fastest dimension. `ends` are the conditions under
    which an element is not behind a dimension's end.
    """

    dims: tuple[TileDim, ...]
    lanes_fastest_first: tuple[Symbol, ...]
    fastest: tuple[Symbol, ...]
    ends: tuple[Expr, ...]

    @staticmethod
    def of(output: TensorView, dims: list[MemoryDim], lanes: list[Symbol]) -> _Tile:
        """The tile that `lanes` walk through memory dimensions, given slowest first.

        Raises:
            ScheduleError: it is no box.
        """
        parts = _joined([[dim] for dim in dims or [_ONE_ELEMENT]], lanes)
        found: list[TileDim] = []
        fastest_first: list[Symbol] = []
        for dim in map(_whole, reversed(parts)):
            steps = _steps(dim.index, lanes)
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
            box = math.prod(_length(lane) for _, lane in walked)
            step = walked[0][0] if walked else 1
            first = _without(dim.index, lanes)
            found.append(TileDim(box, first, dim.extent, dim.stride, step))
            fastest_first += [lane for _, lane in walked]
        fastest = _whole(parts[-1])
        ends = [dim for part in parts for dim in (_whole(part), part[0])]
        return _Tile(
            dims=tuple(reversed(found)),
            lanes_fastest_first=tuple(fastest_first),
            fastest=tuple(_steps(fastest.index, lanes) or ()),
            ends=tuple(integers.less(dim.index, dim.extent) for dim in ends),
        )


_ONE_ELEMENT = MemoryDim(integers.ZERO, integers.ONE, integers.ONE)
"""What is left of a tensor all of whose dimensions are broadcast."""


def _joined(parts: list[list[MemoryDim]], lanes: list[Symbol]) -> list[list[MemoryDim]]:
    """Contiguous neighbours together where a loop walks through both, or where there are too many.

    Every list holds what is one dimension then, slowest first.
    """
    while True:
        dims = [_whole(part) for part in parts]
        crossed = [p for p, d in enumerate(dims) if _steps(d.index, lanes) is None]
        if not crossed and len(dims) > MAX_RANK:
            crossed = [
                p + 1
                for p, (a, b) in enumerate(pairwise(dims))
                if not _steps(a.index, lanes) and not _steps(b.index, lanes)
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


def _steps(index: Expr, lanes: list[Symbol]) -> dict[Symbol, int] | None:
    """By how much the index grows with each loop that it depends on; None where not linearly."""
    found: dict[Symbol, int] = {}
    for monomial, coefficient in integers.polynomial(index).items():
        used = [lane for lane in lanes if any(lane in factor.walk() for factor in monomial)]
        if not used:
            continue
        if len(monomial) != 1 or (monomial[0] is not used[0] and monomial[0] != used[0]):
            return None
        found[used[0]] = coefficient
    return found


def _length(lane: Symbol) -> int:
    assert lane.extent is not None
    return constant_of(lane.extent)


def _is_chain(walked: list[tuple[int, Symbol]]) -> bool:
    """Whether loops, by growing step, continue each other: together they are one longer loop."""
    return all(b_step == a_step * _length(a) for (a_step, a), (b_step, _) in pairwise(walked))


def _touches(expr: Expr, lanes: list[Symbol]) -> bool:
    return any(node in lanes for node in expr.walk())


def _inside(output: TensorView, tile: _Tile, bounds: list[Expr]) -> Expr:
    """Elements of the tile's fastest dimension that are inside, given what bounds its loops.

    A box that is loaded may reach beyond its part of a dimension: nobody reads what is there. One
    that is stored may not, for the elements there belong to other tiles.
    """
    fastest = tile.dims[-1]
    bulk = output.copied_by is LoadStoreOpType.bulk
    elsewhere = [bound for bound in bounds if bound not in tile.ends]
    if elsewhere and (bulk or output.is_output):
        raise ScheduleError(
            f"the tile of {output.name} may end at {' and at '.join(map(repr, elsewhere))}, and "
            f"{'bulk copies' if bulk else 'stores'} can only be cut short where memory ends",
            code="WS0257",
            remedy="split by factors that divide"
            + ("" if output.is_output else ", or copy by LoadStoreOpType.tma"),
        )
    if not any(_touches(bound, [*tile.fastest]) for bound in bounds):
        return integers.index(fastest.box)
    return integers.minimum(integers.sub(fastest.size, fastest.first), fastest.box)


def _without(index: Expr, lanes: list[Symbol]) -> Expr:
    """The index where all of these loops are at 0."""
    terms = integers.polynomial(index).items()
    kept = {m: c for m, c in terms if not any(lane in f.walk() for f in m for lane in lanes)}
    return integers.expression(kept)


def _check_box(copy: TileCopy, output: TensorView, size: int) -> None:
    """Refuse a box that no tensor map can have."""
    boxes = [dim.box for dim in copy.dims]
    reason = remedy = ""
    if len(boxes) > MAX_RANK:
        reason = f"has {len(boxes)} dimensions, and a tensor map {MAX_RANK}"
        remedy = "leave dimensions contiguous, so that they can be joined"
    elif any(dim.step > MAX_STEP for dim in copy.dims):
        step = max(dim.step for dim in copy.dims)
        reason = f"takes every {step}th index of a dimension, and TMA every {MAX_STEP}th"
        remedy = f"bind loops to tma that step by {MAX_STEP} or less"
    elif any(_span(dim) > MAX_BOX for dim in copy.dims):
        reason = f"spans {max(map(_span, copy.dims))} elements of a dimension, and a box {MAX_BOX}"
        remedy = f"split loops by {MAX_BOX} or less before binding them to tma"
    if reason:
        raise ScheduleError(
            f"the box {boxes} of {output.name} {reason} at most",
            code="WS0258",
            remedy=remedy,
        )
    inner = boxes[-1] * size
    if inner % 16:
        raise ScheduleError(
            f"the rows of the box {boxes} of {output.name} have {inner} bytes",
            code="WS0259",
            remedy="bind a fastest loop of a multiple of 16 bytes to tma",
        )
    if copy.swizzle and inner != copy.swizzle:
        raise ScheduleError(
            f"the rows of the box {boxes} of {output.name} have {inner} bytes, and its swizzle "
            f"permutes rows of {copy.swizzle}",
            code="WS0260",
            remedy=f"bind a fastest loop of {copy.swizzle // size} elements to tma",
        )


def _span(dim: TileDim) -> int:
    """Elements of a dimension from the box's first to its last."""
    return (dim.box - 1) * dim.step + 1


def _by_threads(copy: TileCopy, size: int, granule: int) -> TileCopy:
    """The copy as all threads of the block make it, in pieces of `granule` bytes or fewer."""
    fastest = copy.dims[-1]
    width = max(granule, size)
    while width > size and (
        fastest.step > 1
        or fastest.box * size % width
        or not integers.divides(width // size, fastest.first)
    ):
        width //= 2
    loads = width >= 4 and not copy.stores
    how = LoadStoreOpType.cp_async if loads else LoadStoreOpType.set
    return replace(copy, how=how, width=width)


def is_tile(output: TensorView, depth: int) -> bool:
    """Whether the loops from `depth` on are the tile of a copy by the TMA unit."""
    rest = output.loop[depth:]
    return output.copied_by.is_tma and all(a.parallel is ParallelType.tma for a in rest)


def bytes_of(copy: TileCopy) -> Expr:
    """Bytes that a copy by the TMA unit moves, and that its barrier counts."""
    size = copy.memory.dtype.size
    if copy.how is LoadStoreOpType.tma:
        return integers.index(copy.elements * size)
    amount = integers.mul(copy.inside, size)
    if copy.condition == integers.TRUE:
        return amount
    return Apply("where", (copy.condition, amount, integers.ZERO), amount.dtype)
