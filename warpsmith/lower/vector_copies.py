"""Copies of several adjacent elements in one access."""

from __future__ import annotations

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.exprs import Move, Pointwise, tensor_inputs
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.kernel.nodes import Buffer, CopyVector, Element, For, If, Statement, Store
from warpsmith.layouts.swizzle import HARDWARE
from warpsmith.lower.access import Access
from warpsmith.lower.buffers import Buffers
from warpsmith.lower.predicates import Predicates
from warpsmith.lower.vectors import Vectorizer

ACCESS_BYTES = 16
"""Bytes of one instruction, at most."""

VECTOR_BYTES = (1, 2, 4, 8, 16, 32, 64)
"""Bytes of a vector access; beyond 16 it takes several instructions, 16 bytes each."""

LEAST_WORD = 4
"""Bytes of a register."""

CP_ASYNC_BYTES = (4, 8, 16)
"""Bytes of one `cp.async` (PTX ISA, "cp.async")."""


class VectorCopies:
    """Makes the vector accesses of one kernel."""

    def __init__(self, buffers: Buffers, predicates: Predicates, vectors: Vectorizer) -> None:
        self._buffers = buffers
        self._predicates = predicates
        self._vectors = vectors

    def emit(self, operation: Operation, indices: list[Expr]) -> list[Statement]:
        output = operation.outputs[0]
        if not isinstance(operation, Pointwise | Move) or (
            isinstance(operation, Pointwise) and operation.op != "set"
        ):
            raise ScheduleError(
                f"{output.name} is computed, and only copies can be vectorized",
                code="WS0267",
                remedy="vectorize its cache_before or cache_after",
            )
        axis = output.loop[-1]
        extent = self._buffers.extent(axis)
        width = integers.constant(extent)
        if width is None:
            raise ScheduleError(
                f"{axis!r} of {output.name} has the extent {extent!r}, which is not a constant",
                code="WS0209",
                remedy="split it by 2, 4, 8 or 16 first",
            )
        if width * output.dtype.size not in VECTOR_BYTES:
            raise ScheduleError(
                f"{output.name} vectorizes {width} elements of {output.dtype.size} bytes: "
                f"{width * output.dtype.size} bytes are not moved at once",
                code="WS0268",
                remedy=f"use one of {', '.join(map(str, VECTOR_BYTES))} bytes",
            )
        source = tensor_inputs(operation)[0]
        lane = Symbol("lane", extent=Const(width))
        access = self._buffers.access(operation, [*indices, lane])
        at_zero = self._buffers.access(operation, [*indices, integers.ZERO])
        read_from = self._buffers.index_row_major(access, source)
        begun = self._begun(operation, access, lane)
        around = output.around and self._goes_around(operation, read_from, lane, width)
        anywhere = around or (
            begun is not None and self._from_anywhere(source, read_from, lane, width)
        )
        sides = []
        for tensor, index in (
            (output, self._buffers.own_row_major(access, output)),
            (source, read_from),
        ):
            base: Expr | None = substitute(index, {lane: integers.ZERO})
            if not (anywhere and tensor is source):
                base = self._vectors.base(index, lane, width)
            if base is None:
                raise ScheduleError(
                    f"{output.name} vectorizes {axis!r}, along which {tensor.name} is not "
                    f"contiguous (index {index!r})",
                    code="WS0269",
                    remedy="vectorize the fastest contiguous dimension",
                )
            if self._buffers.buffer(tensor).memory is MemoryType.global_:
                known = self._buffers.made.alignments.get(tensor.name, 1)
                bytes_moved = 16 if anywhere else min(width * tensor.dtype.size, 16)
                self._buffers.made.alignments[tensor.name] = max(known, bytes_moved)
            unit = HARDWARE[tensor.swizzle].unit
            if unit and width * tensor.dtype.size > unit:
                raise ScheduleError(
                    f"{output.name} vectorizes {width * tensor.dtype.size} bytes of {tensor.name}, "
                    f"whose chunks of {unit} bytes are permuted (swizzle {tensor.swizzle})",
                    code="WS0295",
                    remedy=f"vectorize {unit} bytes or fewer",
                )
            sides.append((self._buffers.buffer(tensor), self._buffers.swizzled(tensor, base)))
        (target, target_index), (origin, origin_index) = sides
        statement = CopyVector(
            target,
            target_index,
            origin,
            origin_index,
            width,
            output.streaming,
            output.evict_last,
            asynchronous=self._is_asynchronous(output, source, width),
            anywhere=self._whole(output if around else source) if anywhere else integers.ZERO,
            around=around,
            by_pairs=self._is_by_pairs(target, target_index, width),
        )
        if around:
            return [statement]  # threads behind the last element are inside of what they read, too
        if begun is not None:
            return self._across(statement, operation, (access, at_zero), begun, lane)
        facts = self._buffers.facts
        if output in self._buffers.filled:  # no lane can have zeros
            facts |= frozenset(self._vectors.requirements)
        uneven = self._uneven_bound(operation, access, lane, width, facts)
        if uneven is None:
            return self._predicates.guarded(at_zero, operation, statement)
        rest = self._predicates.predicate(at_zero, operation, always=False)
        return _with_tail(statement, uneven, rest, lane)

    def _is_by_pairs(self, target: Buffer, index: Expr, width: int) -> bool:
        """Whether lanes store vectors of several accesses one behind the other, in pairs of which
        the first lane has an even number.
        """
        threads = self._buffers.threads
        place = threads.symbols.get(ParallelType.block_x)
        count = integers.constant(threads.extents.get(ParallelType.block_x, integers.ONE))
        if target.memory is not MemoryType.global_ or width * target.dtype.size < 2 * ACCESS_BYTES:
            return False
        if place is None or count is None or count % 2:
            return False
        behind = substitute(index, {place: integers.add(place, 1)})
        return integers.sub(behind, index) == integers.index(width)

    def _begun(self, operation: Operation, access: Access, lane: Symbol) -> Apply | None:
        """The condition that a row has begun within a vector, if there is one: what stands before
        it in its first vector is below a place.
        """
        condition = self._predicates.predicate(access, operation, always=False)
        for node in integers.conjuncts(condition):
            if isinstance(node, Apply) and node.op == "lt" and lane in node.args[1].walk():
                return node
        return None

    def _from_anywhere(self, source: TensorView, index: Expr, lane: Symbol, width: int) -> bool:
        """Whether vectors of an input begin between multiples of their size, as those of a weight
        do where vectors of rows begin at such, wherever the rows begin.
        """
        if self._buffers.buffer(source).memory is not MemoryType.global_:
            return False
        if False in source.contiguity or width * source.dtype.size < LEAST_WORD:
            return False
        return not self._vectors.knows(index, lane, width)

    def _goes_around(self, copy: Operation, index: Expr, lane: Symbol, width: int) -> bool:
        """Whether lanes read one element after the other of a whole input, and the first after the
        last.
        """
        if not (isinstance(copy, Pointwise) and isinstance(index, Apply) and index.op == "mod"):
            return False
        walked = self._vectors.linear(index.args[0], lane, width)
        whole = index.args[1] == self._whole(copy.outputs[0])
        return whole and walked is not None and walked[1] == 1

    def _whole(self, tensor: TensorView) -> Expr:
        """Elements of all of a contiguous tensor."""
        axes = (axis for axis in tensor.shape_axes if not axis.is_broadcast)
        return integers.mul(*(self._buffers.extent(axis) for axis in axes))

    def _across(
        self,
        vector: CopyVector,
        operation: Operation,
        accesses: tuple[Access, Access],
        begun: Apply,
        lane: Symbol,
    ) -> list[Statement]:
        """A vector of a row that begins anywhere, which may have elements of the rows before and
        behind: registers get these, too, and memory none of them.

        Args:
            accesses: of any lane, and of lane 0.
            begun: the condition that the row has begun.
        """
        at, at_zero = (
            integers.conjuncts(self._predicates.predicate(a, operation, always=False))
            for a in accesses
        )
        starts = _at(begun, lane, 0)
        rest = [c for c in at_zero if c != starts]
        if vector.target.memory is not MemoryType.global_:
            inside = vector.anywhere != integers.ZERO  # whatever is asked for
            return [vector if inside else If(integers.conjunction(*rest), (vector,))]
        (end,) = (c for c in at if lane in c.walk() and c != begun)
        assert isinstance(end, Apply)
        ends = _at(end, lane, vector.width - 1)
        lanes = _lanes(vector, integers.conjunction(begun, end), lane)
        rest = [c for c in rest if c != _at(end, lane, 0)]
        some = integers.conjunction(*rest, _at(end, lane, 0))
        return [
            If(integers.conjunction(*rest, starts, ends), (vector,)),
            If(integers.conjunction(some, integers.negated(starts)), (lanes,)),
            If(integers.conjunction(some, starts, integers.negated(ends)), (lanes,)),
        ]

    def single(self, operation: Operation, access: Access) -> list[Statement]:
        """One element by `cp.async`, or by a load and a store where it is too short for that."""
        output, source = operation.outputs[0], tensor_inputs(operation)[0]
        value = self._buffers.read(access, source)
        assert isinstance(value, Element)
        target, index = self._buffers.buffer(output), self._buffers.own(access)
        statement: Statement = Store(target, index, value)
        if self._is_asynchronous(output, source, 1):
            statement = CopyVector(target, index, value.buffer, value.index, 1, asynchronous=True)
        return self._predicates.guarded(access, operation, statement)

    def _is_asynchronous(self, output: TensorView, source: TensorView, width: int) -> bool:
        """Whether `cp.async` carries the vector: it is asked to, and can, 4, 8 or 16 bytes."""
        return (
            output.copied_by is LoadStoreOpType.cp_async
            and self._buffers.buffer(source).memory is MemoryType.global_
            and width * output.dtype.size in CP_ASYNC_BYTES
        )

    def _uneven_bound(
        self, operation: Operation, access: Access, lane: Symbol, width: int, facts: integers.Facts
    ) -> Apply | None:
        """The bound `index < extent` that may end within a vector, if there is one."""
        condition = self._predicates.predicate(access, operation, always=False)
        bounds = [
            node
            for node in integers.conjuncts(condition)
            if isinstance(node, Apply)
            and node.op == "lt"
            and lane in node.args[0].walk()
            and not integers.divides(width, node.args[1], facts)
        ]
        if len(bounds) > 1:
            axis = access.output.loop[-1]
            raise ScheduleError(
                f"{access.output.name} vectorizes {axis!r}, and two bounds end within its vectors: "
                f"{' and '.join(map(repr, bounds))}",
                code="WS1013",
                remedy=f"first split by {width}, and then the outer loop as often as you like",
            )
        return bounds[0] if bounds else None


def _with_tail(vector: CopyVector, bound: Apply, rest: Expr, lane: Symbol) -> list[Statement]:
    """The vector where all its lanes are in bounds; at the end, lane by lane.

    `bound` is `index < extent` with the lane in the index, `rest` the predicate of lane 0.
    """
    index, extent = bound.args
    past = substitute(index, {lane: Const(vector.width)})
    inside = integers.less(past, integers.add(extent, 1))
    outside = integers.less(extent, past)
    lanes = _lanes(vector, bound, lane)
    first = substitute(bound, {lane: integers.ZERO})
    others = [condition for condition in integers.conjuncts(rest) if condition != first]
    return [
        If(integers.conjunction(*others, inside), (vector,)),
        If(integers.conjunction(*others, outside, first), (lanes,)),
    ]


def _lanes(vector: CopyVector, condition: Expr, lane: Symbol) -> For:
    """Lane by lane where the condition holds."""
    one = Store(
        vector.target,
        integers.add(vector.target_index, lane),
        Element(vector.source, integers.add(vector.source_index, lane)),
    )
    return For(lane, Const(vector.width), (If(condition, (one,)),), unroll=True)


def _at(condition: Apply, lane: Symbol, number: int) -> Expr:
    """A comparison in one lane."""
    a, b = (substitute(each, {lane: Const(number)}) for each in condition.args)
    return integers.less(a, b)
