"""Reads of global memory at computed places."""

from __future__ import annotations

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.reads import CHECKS, Part, Read, Search, at, chosen
from warpsmith.ir.scalar import Address, Apply, Const, Expr, Symbol
from warpsmith.ir.strides import strides
from warpsmith.ir.substitution import substitute
from warpsmith.ir.tensor import TensorView
from warpsmith.ir.turns import turn_of
from warpsmith.kernel.nodes import CopyVector, Element, For, If, Let, Statement, Store
from warpsmith.lower.access import Access
from warpsmith.lower.buffers import Buffers
from warpsmith.lower.predicates import Predicates
from warpsmith.lower.turns import turned
from warpsmith.lower.vectors import Vectorizer


class Reads:
    """Makes the reads at computed places of one kernel."""

    def __init__(self, buffers: Buffers, predicates: Predicates, vectors: Vectorizer) -> None:
        self._buffers = buffers
        self._predicates = predicates
        self._vectors = vectors

    def emit(self, operation: Read | Search, indices: list[Expr]) -> list[Statement]:
        """Statements of an operation whose outer loop indices are given."""
        if isinstance(operation, Search):
            return self._search(operation, indices)
        turn = turn_of(operation)
        if turn is not None and operation.sources[0] not in self._buffers.inputs:
            access = self._buffers.access(operation, indices)
            value = turned(self._buffers, access, operation, turn)
            store = Store(self._buffers.buffer(operation.output), self._buffers.own(access), value)
            return self._predicates.guarded(access, operation, store)
        return self._read(operation, indices)

    def _search(self, operation: Search, indices: list[Expr]) -> list[Statement]:
        """The number that bisection finds in the row of the element."""
        output, source = operation.output, operation.source
        if len(output.loop) > len(indices):
            raise ScheduleError(
                f"{output.name} is found by bisection, and only copies can be vectorized",
                code="WS1036",
                remedy=f"vectorize the copy that {output.name}.cache_before() makes",
            )
        self._check_input(output, source)
        access = self._buffers.access(operation, indices)
        extents = [axis.extent for axis in source.shape_axes]
        *outer, step = strides(source, extents)
        rows = zip(source.shape_axes, output.root, outer, strict=False)
        start = integers.add(
            *(integers.mul(access.axis(own), each) for a, own, each in rows if not a.is_broadcast)
        )
        wanted = self._buffers.read(access, operation.wanted)
        found = (Address(source.name), start, step, extents[-1], wanted)
        value = Apply(operation.op, found, output.dtype)
        store = Store(self._buffers.buffer(output), self._buffers.own(access), value)
        return self._predicates.guarded(access, operation, store)

    def _read(self, operation: Read, indices: list[Expr]) -> list[Statement]:
        """The fill, over which each part writes where its predicate holds.

        Before::

            T2 = read of T0 at [chosen0, at1], T1 chooses

        After::

            T2[0] = 0
            if i < T0_size1:
                T2_place0 = place(T1[t], T0_size0)
                T2[0] = T0[T2_place0 * T0_size1 + i]
        """
        output = operation.output
        wide = len(output.loop) > len(indices)
        lane = Symbol("lane", extent=self._buffers.extent(output.loop[-1])) if wide else None
        first = self._buffers.access(operation, [*indices, integers.ZERO] if wide else indices)
        target, own = self._buffers.buffer(output), self._buffers.own(first)
        if lane is not None and target.memory is not MemoryType.local:
            raise ScheduleError(
                f"{output.name} is read at computed places, and vectorized only into registers",
                code="WS1031",
                remedy=f"vectorize the copy that {output.name}.cache_before() makes",
            )
        access = first if lane is None else self._buffers.access(operation, [*indices, lane])
        condition = self._predicates.predicate(first, operation, always=False)
        statements = self._filled(operation, access, lane)
        apart = target.memory is MemoryType.local  # what is there besides is anything
        for number, part in enumerate(operation.parts):
            lets, known = self._checked(operation, first, number)
            place = self._place(operation, access, part, known)
            inside = self._inside(operation, (first, access), part.inside, lane)
            source = self._buffers.buffer(part.source)
            if lane is None:
                read: Statement = Store(target, own, Element(source, place))
            elif (shared := self._shared(place, lane)) is not None:
                one = Store(target, self._buffers.own(access), Element(source, shared))
                read = For(lane, Const(_width(lane)), (one,), unroll=True)
            else:
                read = CopyVector(
                    target, own, source, self._base(operation, part, place, lane), _width(lane)
                )
            asked = integers.conjunction(condition, inside) if apart else inside
            whole = asked == integers.TRUE
            statements += [*lets, read] if whole else [If(asked, (*lets, read))]
        if lane is not None:
            self._check_whole(operation, access, lane)
            self._check_chosen(operation, access, lane)
        if apart or condition == integers.TRUE:
            return statements
        return [If(condition, tuple(statements))]

    def _filled(self, operation: Read, access: Access, lane: Symbol | None) -> list[Statement]:
        """What is there where no part is."""
        output, fill = operation.output, operation.fill
        if fill is None:
            return []
        value = Apply("cast", (fill,), output.dtype) if fill.dtype is not output.dtype else fill
        store = Store(self._buffers.buffer(output), self._buffers.own(access), value)
        if lane is None:
            return [store]
        return [For(lane, Const(_width(lane)), (store,), unroll=True)]

    def _chosen(self, operation: Read, access: Access) -> dict[Expr, Expr]:
        """The elements of the indices, by what stands for them in places."""
        return {
            chosen(k, index.dtype): self._buffers.read(access, index)
            for k, index in enumerate(operation.indices)
        }

    def _checked(
        self, operation: Read, access: Access, number: int
    ) -> tuple[list[Statement], dict[Expr, Expr]]:
        """Names of the indices that memory says, by the expressions that check them."""
        elements = self._chosen(operation, access)
        checks = dict.fromkeys(
            node
            for place in operation.places[number]
            for node in place.walk()
            if isinstance(node, Apply) and node.op in CHECKS
        )
        lets: list[Statement] = []
        known: dict[Expr, Expr] = {}
        for check in checks:
            name = f"{operation.output.name}_place{number}_{len(known)}"
            known[check] = symbol = Symbol(name, low=0)
            lets.append(Let(symbol, substitute(check, elements)))
        return lets, known

    def _place(self, operation: Read, access: Access, part: Part, known: dict[Expr, Expr]) -> Expr:
        """The element of a part's tensor, in memory."""
        source = part.source
        self._check_input(operation.output, source)
        given = {**known, **_indices(operation, access)}
        steps = strides(source, [axis.extent for axis in source.shape_axes])
        return integers.add(
            *(
                integers.mul(substitute(place, given), step)
                for place, step, axis in zip(part.places, steps, source.shape_axes, strict=True)
                if not axis.is_broadcast
            )
        )

    def _check_input(self, output: TensorView, source: TensorView) -> None:
        if source not in self._buffers.inputs:
            raise ScheduleError(
                f"{output.name} reads {source.name} at computed places, which is in "
                f"{source.memory.value} memory",
                code="WS1030",
                remedy=f"read an input of the kernel: without {source.name}.cache_after(), or in a "
                "second kernel",
            )

    def _inside(
        self,
        operation: Read,
        accesses: tuple[Access, Access],
        inside: Expr,
        lane: Symbol | None,
    ) -> Expr:
        """Where a part is read; in all lanes of a vector, or in none.

        Args:
            accesses: of the first lane, in which indices choose for all, and of any.
        """
        first, access = accesses
        elements = self._chosen(operation, first)
        found = substitute(inside, {**elements, **_indices(operation, access)})
        if lane is None:
            return found
        for bound in integers.conjuncts(found):
            if lane in bound.walk() and not self._is_uniform(bound, lane):
                raise ScheduleError(
                    f"{operation.output.name} vectorizes {operation.output.loop[-1]!r}, and "
                    f"{bound!r} ends within a vector",
                    code="WS1032",
                    remedy="read single elements, or vectorize another dimension",
                )
        return substitute(found, {lane: integers.ZERO})

    def _is_uniform(self, bound: Expr, lane: Symbol) -> bool:
        """Whether `a < b` is so in all lanes or in none: `b - a` is the same in all, or changes its
        sign between two vectors.
        """
        if not isinstance(bound, Apply) or bound.op != "lt":
            return False
        gap = integers.sub(bound.args[1], bound.args[0])
        found = self._vectors.linear(gap, lane, _width(lane))
        if found is None or abs(found[1]) > 1:
            return False
        start, step = found
        if not step:
            return True
        return self._vectors.require(integers.sub(start, (1 + step) // 2), _width(lane))

    def _shared(self, place: Expr, lane: Symbol) -> Expr | None:
        """The place of which all lanes of a vector have the element; None where there is none."""
        found = self._vectors.linear(place, lane, _width(lane))
        return found[0] if found is not None and found[1] == 0 else None

    def _base(self, operation: Read, part: Part, place: Expr, lane: Symbol) -> Expr:
        """Where a vector begins in a part's tensor, which needs to be aligned."""
        base, source = self._vectors.base(place, lane, _width(lane)), part.source
        if base is None:
            raise ScheduleError(
                f"{operation.output.name} vectorizes {operation.output.loop[-1]!r}, along which it "
                f"does not read adjacent, aligned elements of {source.name} (index {place!r})",
                code="WS1033",
                remedy="read single elements, or vectorize the fastest contiguous dimension",
            )
        known = self._buffers.made.alignments.get(source.name, 1)
        moved = min(_width(lane) * source.dtype.size, 16)
        self._buffers.made.alignments[source.name] = max(known, moved)
        return base

    def _check_whole(self, operation: Read, access: Access, lane: Symbol) -> None:
        """Refuse vectors that the ends of the dimensions cut short."""
        condition = self._predicates.predicate(access, operation, always=False)
        for bound in integers.conjuncts(condition):
            if lane in bound.walk() and not self._is_uniform(bound, lane):
                raise ScheduleError(
                    f"{operation.output.name} vectorizes {operation.output.loop[-1]!r}, and its "
                    f"last vector is cut short ({bound!r})",
                    code="WS1034",
                    remedy="read single elements, or split by a factor that divides",
                )

    def _check_chosen(self, operation: Read, access: Access, lane: Symbol) -> None:
        """Refuse vectors whose elements indices choose one by one: along what these lack they are
        the same, also where a thread computes one for each lane.
        """
        for index in operation.indices:
            walked = (
                access.axis(axis)
                for axis, own in zip(operation.output.root, index.shape_axes, strict=True)
                if not own.is_broadcast
            )
            found = [self._vectors.linear(place, lane, _width(lane)) for place in walked]
            if any(each is None or each[1] for each in found):
                raise ScheduleError(
                    f"{operation.output.name} vectorizes {operation.output.loop[-1]!r}, and "
                    f"{index.name} chooses each element",
                    code="WS1035",
                    remedy="read single elements, or vectorize a dimension that the indices lack",
                )


def _indices(operation: Read, access: Access) -> dict[Expr, Expr]:
    """Of the result's own element: 0 along what has one, whatever that is repeated along."""
    return {
        at(k): integers.ZERO if axis.is_broadcast else access.axis(axis)
        for k, axis in enumerate(operation.output.root)
    }


def _width(lane: Symbol) -> int:
    width = None if lane.extent is None else integers.constant(lane.extent)
    assert width is not None
    return width
