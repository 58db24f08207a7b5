"""Statements of single operations, once all their loops are open."""

from __future__ import annotations

from warpsmith.errors import InternalError
from warpsmith.ir.domains import IterDomain, MemoryType, ParallelType
from warpsmith.ir.exprs import Full, Iota, Move, Operation, Pointwise, Reduction, Welford
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.scalar import Apply, Const, Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.nodes import Buffer, Declare, Statement, Store
from warpsmith.lower.access import Access
from warpsmith.lower.places import Made, Places, is_parallel
from warpsmith.lower.predicates import Predicates
from warpsmith.lower.reductions import Reductions
from warpsmith.lower.threads import Threads
from warpsmith.lower.vector_copies import VectorCopies
from warpsmith.lower.vectors import Vectorizer


class Leaves:
    """Makes declarations and statements for the operations of one kernel."""

    def __init__(
        self, fusion: Fusion, domains: DomainMap, threads: Threads, vectors: Vectorizer
    ) -> None:
        self._places = Places(fusion, domains, threads)
        self._predicates = Predicates(self._places)
        self._reductions = Reductions(self._places, self._predicates)
        self._vector_copies = VectorCopies(self._places, self._predicates, vectors)

    @property
    def made(self) -> Made:
        """Buffers and requirements that came up besides the tensors' own."""
        return self._places.made

    def buffer(self, tensor: TensorView) -> Buffer:
        return self._places.buffer(tensor)

    def skips(self, operation: Operation, axis: IterDomain) -> bool:
        """Whether the operation's result is the same for every iteration of an own loop."""
        return self._places.skips(operation, axis)

    def declare(self, operation: Operation, depth: int) -> list[Statement]:
        """Declarations (and start values) of the operation's results that live from this depth."""
        statements: list[Statement] = []
        for output in operation.outputs:
            buffer = self._places.buffer(output)
            if output.compute_at != depth or buffer.memory is MemoryType.global_:
                continue
            if buffer.memory is MemoryType.shared:
                self._places.made.shared[buffer.name] = buffer
            else:
                statements.append(Declare(buffer))
            if isinstance(operation, Reduction | Welford):
                statements += self._reductions.start(operation, buffer)
        return statements

    def is_leaf(self, operation: Operation, depth: int) -> bool:
        """Whether the operation's remaining loops belong inside one statement."""
        rest = operation.outputs[0].loop[depth:]
        if not rest:
            return True
        if isinstance(operation, Reduction | Welford) and is_parallel(operation):
            return all(
                axis.parallel.is_thread or (not axis.is_reduction and self._is_short(axis))
                for axis in rest
            )
        if len(rest) > 1:
            return False
        if isinstance(operation, Welford) and len(operation.sources) == 1:
            return self._is_short(rest[0])
        return rest[0].parallel is ParallelType.vectorize

    def _is_short(self, axis: IterDomain) -> bool:
        return not axis.parallel.is_thread and isinstance(
            self._places.domains.extent(self._places.domains.group(axis)), Const
        )

    def emit(self, operation: Operation, indices: list[Expr]) -> list[Statement]:
        """Statements of an operation whose outer loop indices are given."""
        output = operation.outputs[0]
        self._predicates.inherit_last(operation)
        if isinstance(operation, Reduction | Welford):
            return self._reductions.emit(operation, indices)
        if len(output.loop) > len(indices):
            return self._vector_copies.emit(operation, indices)
        access = self._places.access(operation, indices)
        value = self._value(operation, access)
        statement = Store(self._places.buffer(output), self._places.own(access), value)
        return self._predicates.guarded(access, operation, statement)

    def _value(self, operation: Operation, access: Access) -> Expr:
        match operation:
            case Pointwise(op="set", inputs=(source,)) | Move(source=source):
                return self._places.read(access, source)
            case Pointwise(op=op, inputs=inputs, output=output):
                args = tuple(self._places.read(access, value) for value in inputs)
                return Apply(op, args, output.dtype)
            case Full(value=value, output=output):
                return Apply("cast", (value,), output.dtype)
            case Iota(start=start, step=step, output=output):
                position = Apply("cast", (access.axis(output.logical[0]),), output.dtype)
                scaled = Apply("mul", (position, step), output.dtype)
                return Apply("add", (start, scaled), output.dtype)
        raise InternalError(f"no value for {operation!r}")
