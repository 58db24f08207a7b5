"""Copies of several adjacent elements in one access."""

from __future__ import annotations

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.exprs import Move, Pointwise, tensor_inputs
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.kernel.nodes import CopyVector, Element, For, If, Statement, Store
from warpsmith.layouts.swizzle import HARDWARE
from warpsmith.lower.access import Access
from warpsmith.lower.buffers import Buffers
from warpsmith.lower.predicates import Predicates
from warpsmith.lower.vectors import Vectorizer

VECTOR_BYTES = (1, 2, 4, 8, 16, 32, 64)
"""Bytes of a vector access; beyond 16 it takes several instructions, 16 bytes each."""

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
        sides = []
        for tensor, index in (
            (output, self._buffers.own_row_major(access, output)),
            (source, read_from),
        ):
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
                bytes_moved = min(width * tensor.dtype.size, 16)
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
        )
        uneven = self._uneven_bound(operation, access, lane, width)
        if uneven is None:
            return self._predicates.guarded(at_zero, operation, statement)
        rest = self._predicates.predicate(at_zero, operation, always=False)
        return _with_tail(statement, uneven, rest, lane)

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
        self, operation: Operation, access: Access, lane: Symbol, width: int
    ) -> Apply | None:
        """The bound `index < extent` that may end within a vector, if there is one."""
        condition = self._predicates.predicate(access, operation, always=False)
        bounds = [
            node
            for node in integers.conjuncts(condition)
            if isinstance(node, Apply)
            and node.op == "lt"
            and lane in node.args[0].walk()
            and not integers.divides(width, node.args[1], self._buffers.facts)
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
    one = Store(
        vector.target,
        integers.add(vector.target_index, lane),
        Element(vector.source, integers.add(vector.source_index, lane)),
    )
    lanes = For(lane, Const(vector.width), (If(bound, (one,)),), unroll=True)
    first = substitute(bound, {lane: integers.ZERO})
    others = [condition for condition in integers.conjuncts(rest) if condition != first]
    return [
        If(integers.conjunction(*others, inside), (vector,)),
        If(integers.conjunction(*others, outside, first), (lanes,)),
    ]
