"""Statements of single operations, once all their loops are open."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.errors import InternalError, ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.domains import IterDomain, MemoryType, ParallelType
from warpsmith.ir.exprs import Full, Iota, Matmul, Move, Pointwise, Reduction, Scan, tensor_inputs
from warpsmith.ir.places import checked_place, place_of
from warpsmith.ir.reads import Read, Search
from warpsmith.ir.scalar import Apply, Const, Expr
from warpsmith.ir.scans import opened_loops
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.kernel.nodes import Buffer, CopyVector, Declare, Element, Let, Statement, Store
from warpsmith.kernel.pipelines import Drain, Fill
from warpsmith.kernel.traversal import walk
from warpsmith.lower.access import Access
from warpsmith.lower.across_threads import AcrossThreads
from warpsmith.lower.buffers import Buffers, is_parallel
from warpsmith.lower.changes import Changes
from warpsmith.lower.fills import copies, is_tensorized
from warpsmith.lower.matrices import MatrixCopies
from warpsmith.lower.pipelines.carriers import carrier
from warpsmith.lower.predicates import Predicates
from warpsmith.lower.products import Products, is_instruction
from warpsmith.lower.random import counts_places, drawn
from warpsmith.lower.reads import Reads
from warpsmith.lower.reductions import Reductions
from warpsmith.lower.scans import Scans
from warpsmith.lower.tiles import TileCopies, is_tile
from warpsmith.lower.vector_copies import VectorCopies
from warpsmith.lower.vectors import Vectorizer


class Emitter:
    """Makes declarations and statements for the operations of one kernel."""

    def __init__(self, buffers: Buffers, vectors: Vectorizer) -> None:
        self._buffers = buffers
        self._predicates = Predicates(self._buffers)
        across = AcrossThreads(self._buffers, self._predicates)
        self._reductions = Reductions(self._buffers, self._predicates, across)
        self._scans = Scans(self._buffers, across)
        self._vector_copies = VectorCopies(self._buffers, self._predicates, vectors)
        self._reads = Reads(self._buffers, self._predicates, vectors)
        self._tiles = TileCopies(self._buffers, self._predicates)
        self._products = Products(self._buffers)
        self._matrices = MatrixCopies(self._buffers, self._predicates)
        self._changes = Changes(self._buffers)

    def buffer(self, tensor: TensorView) -> Buffer:
        return self._buffers.buffer(tensor)

    def skips(self, operation: Operation, axis: IterDomain) -> bool:
        """Whether the operation's result is the same for every iteration of an own loop."""
        return self._buffers.skips(operation, axis)

    def declare(self, operation: Operation, depth: int) -> list[Statement]:
        """Declarations (and start values) of the operation's results that live from this depth."""
        statements: list[Statement] = []
        if isinstance(operation, Scan) and self._scans.loops(operation).start == depth:
            statements += self._scans.start(operation)
        for output in operation.outputs:
            buffer = self._buffers.buffer(output)
            if self._buffers.rings.home(output) != depth or buffer.memory is MemoryType.global_:
                continue
            if buffer.memory is MemoryType.shared:
                self._check_groups(output)
                self._buffers.made.shared[buffer.name] = buffer
            else:
                statements.append(Declare(buffer))
            if isinstance(operation, Scan):
                continue
            if isinstance(operation, Matmul) and is_tensorized(output):
                statements += self._products.start(operation, buffer)
            elif isinstance(operation, Reduction | Matmul):
                statements += self._reductions.start(operation, output)
        return statements

    def _check_groups(self, output: TensorView) -> None:
        """Each group of warps has shared memory of its own, but for what passes between roles."""
        along = self._buffers.threads.groups_along
        if along is None or self._buffers.rings.crosses(output):
            return
        unused = self._buffers.unused[output]
        if not any(a.parallel is along and a not in unused for a in output.loop):
            raise ScheduleError(
                f"{output.name} is in shared memory, one for all groups of warps, which take turns "
                f"along {along.name} and do not meet",
                code="WS0255",
                remedy=f"let another role fill it: {output.name}.set_role('load')",
            )

    def turns(self, operation: Operation, depth: int) -> list[str]:
        """Names of the operation's results whose stages the loop at `depth` turns."""
        rings = self._buffers.rings
        return [output.name for output in operation.outputs if rings.axis(output) == depth]

    def is_staging(self, operation: Operation) -> bool:
        """Whether the operation's result is what the TMA unit stores: registers are written to it,
        and their places must be known when the kernel is compiled.
        """
        return all(map(self._buffers.rings.is_drained, operation.outputs))

    def leaves_shared(self, operation: Operation) -> bool:
        """Whether threads copy what is in shared memory to global memory."""
        homes = (operation.outputs, tensor_inputs(operation))
        memories = [{self._buffers.buffer(t).memory for t in each} for each in homes]
        return memories == [{MemoryType.global_}, {MemoryType.shared}]

    def indexes_registers(self, operation: Operation, depth: int) -> bool:
        """Whether the loop at `depth` says which registers, that outlive it, the operation uses."""
        buffers, loops = self._buffers, operation.outputs[0].loop
        groups = [buffers.domains.group(axis) for axis in loops]
        derivation = Derivation(buffers.domains, dict.fromkeys(groups, integers.ZERO))
        for tensor in (*operation.outputs, *tensor_inputs(operation)):
            buffer = buffers.buffer(tensor)
            if buffer.memory is not MemoryType.local or buffers.rings.home(tensor) > depth:
                continue
            held = [buffers.domains.group(axis) for axis in buffers.layouts[tensor]]
            told = (group for group in held if derivation.reaches(group))
            if any(groups[depth] in derivation.needs(group) for group in told):
                return True
        return False

    def carries(self, operation: Operation, depth: int) -> bool:
        """Whether the loop at `depth` carries a state from each iteration to the next."""
        return isinstance(operation, Scan) and depth in self._scans.loops(operation).carried

    def runs_backwards(self, operation: Operation, depth: int) -> bool:
        """Whether the loop at `depth` carries a state from its last iteration to its first."""
        return isinstance(operation, Scan) and operation.reverse and self.carries(operation, depth)

    def is_leaf(self, operation: Operation, depth: int) -> bool:
        """Whether the operation's remaining loops belong inside one statement."""
        rest = operation.outputs[0].loop[depth:]
        output = operation.outputs[0]
        if not rest or is_tile(output, depth) or is_instruction(output, depth):
            return True
        if isinstance(operation, Scan):
            return depth >= opened_loops(operation)
        way = self._changes.way(operation)
        loading = self._matrices.loading(operation)
        if depth in (each.depth for each in (way, loading) if each is not None):
            return True
        if isinstance(operation, Reduction) and is_parallel(operation):
            return all(
                axis.parallel.is_thread or (not axis.is_reduction and self._is_short(axis))
                for axis in rest
            )
        if len(rest) > 1:
            return False
        if isinstance(operation, Reduction) and operation.counts_elements:
            return self._is_short(rest[0])
        return rest[0].parallel is ParallelType.vectorize

    def _is_short(self, axis: IterDomain) -> bool:
        return not axis.parallel.is_thread and isinstance(self._buffers.extent(axis), Const)

    def emit(self, operation: Operation, indices: list[Expr]) -> list[Statement]:
        """Statements of an operation whose outer loop indices are given."""
        output, rings = operation.outputs[0], self._buffers.rings
        self._predicates.inherit_last(operation)
        if output.copied_by.is_tma:
            body = tuple(self._tiles.emit(operation, indices))
            if not output.is_output:
                return [self._fill(output, body)]
            (source,) = tensor_inputs(operation)
            return [Drain(self._buffers.note(self._buffers.pipeline(source)), body)]
        statements = self._threads(operation, indices)
        if rings.is_filled(output):
            return [self._fill(output, tuple(statements))]
        return [*self._placed(output), *statements]

    def _placed(self, output: TensorView) -> list[Statement]:
        """The name of the element of a dimension of an input that an output is written into."""
        placed = self._buffers.placed.get(output)
        if placed is None or placed.place is None:
            return []
        index = Element(self._buffers.buffer(placed.place.index), integers.ZERO)
        return [Let(place_of(placed), checked_place(placed, index))]

    def _fill(self, output: TensorView, body: tuple[Statement, ...]) -> Fill:
        """Statements that fill a stage of a tensor's pipeline, which by them is known in full."""
        pipeline = self._buffers.pipeline(output)
        by = carrier(self.buffer(output), body)
        return Fill(self._buffers.note(replace(pipeline, by=by)), body)

    def _threads(self, operation: Operation, indices: list[Expr]) -> list[Statement]:
        """Statements that every thread runs for its own elements."""
        output = operation.outputs[0]
        if is_instruction(output, len(indices)):
            if isinstance(operation, Matmul):
                return [self._products.emit(operation, indices)]
            return [self._matrices.store(operation, indices)]
        if self._matrices.loading(operation) is not None:
            return self._matrices.load(operation, indices)
        if self._changes.way(operation) is not None:
            return self._changes.emit(operation, indices)
        if isinstance(operation, Reduction | Matmul):
            return self._reductions.emit(operation, indices)
        if isinstance(operation, Scan):
            return self._scans.emit(operation, indices)
        statements = self._computed(operation, indices)
        known = output in self._buffers.filled or output in self._buffers.beside
        if known and any(map(_is_asynchronous, walk(tuple(statements)))):
            return self._predicates.or_zeros(operation, indices, statements)
        if output in self._buffers.filled or output in self._buffers.ends:
            return [*self._predicates.zeros(operation, indices, statements), *statements]
        return statements

    def _computed(self, operation: Operation, indices: list[Expr]) -> list[Statement]:
        """Statements that give every element that a thread has its value."""
        output = operation.outputs[0]
        if isinstance(operation, Read | Search):
            return self._reads.emit(operation, indices)
        if len(output.loop) > len(indices):
            return self._vector_copies.emit(operation, indices)
        access = self._buffers.access(operation, indices)
        if output.copied_by is LoadStoreOpType.cp_async:
            return self._vector_copies.single(operation, access)
        value = self._value(operation, access)
        statement = Store(self._buffers.buffer(output), self._buffers.own(access), value)
        begins = output in self._buffers.filled and not copies(operation)
        return self._predicates.guarded(access, operation, statement, always=begins)

    def _value(self, operation: Operation, access: Access) -> Expr:
        match operation:
            case Pointwise(op="set", inputs=(source,)) | Move(source=source):
                return self._buffers.read(access, source)
            case Pointwise(op=op, inputs=inputs, output=output):
                args = tuple(self._buffers.read(access, value) for value in inputs)
                if counts_places(operation):
                    return drawn(operation, access, args[1:], self._buffers.facts)
                return Apply(op, args, output.dtype)
            case Full(value=value, output=output):
                return Apply("cast", (value,), output.dtype)
            case Iota(start=start, step=step, output=output):
                position = Apply("cast", (access.axis(output.logical[0]),), output.dtype)
                scaled = Apply("mul", (position, step), output.dtype)
                return Apply("add", (start, scaled), output.dtype)
        raise InternalError(f"no value for {operation!r}")


def _is_asynchronous(statement: Statement) -> bool:
    return isinstance(statement, CopyVector) and statement.asynchronous
