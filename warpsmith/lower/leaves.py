"""Statements of single operations, once all their loops are open."""

from __future__ import annotations

from dataclasses import dataclass, field

from warpsmith.errors import InternalError, ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, GRID_TYPES, IterDomain, MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import (
    Full,
    Iota,
    Move,
    Operation,
    Pointwise,
    Reduction,
    Value,
    Welford,
    tensor_inputs,
)
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol, substitute
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.nodes import (
    Accumulate,
    Buffer,
    CopyVector,
    Declare,
    Element,
    For,
    If,
    Reduce,
    Statement,
    Store,
    WelfordMerge,
    WelfordStep,
)
from warpsmith.kernel.scratch import block_reduce_scratch
from warpsmith.lower.access import Access, layout_of, size_of
from warpsmith.lower.threads import Threads
from warpsmith.lower.vectors import Vectorizer

IDENTITY = {"sum": 0, "prod": 1}
"""Start values of reductions; max and min start from the type's own limits."""

VECTOR_BYTES = (1, 2, 4, 8, 16, 32, 64)
"""Bytes of a vector access; beyond 16 it takes several instructions, 16 bytes each."""


@dataclass(slots=True)
class Made:
    """Buffers that lowering makes besides the tensors', in order of making."""

    shared: dict[str, Buffer] = field(default_factory=dict)
    workspaces: dict[str, Buffer] = field(default_factory=dict)
    alignments: dict[str, int] = field(default_factory=dict)


class Leaves:
    """Makes declarations and statements for the operations of one kernel."""

    def __init__(
        self, fusion: Fusion, domains: DomainMap, threads: Threads, vectors: Vectorizer
    ) -> None:
        self._fusion = fusion
        self._domains = domains
        self._threads = threads
        self._vectors = vectors
        self._inputs = set(map(id, fusion.input_tensors))
        self._outputs = {id(output.value) for output in fusion.outputs}
        self._unused = _independent_axes(fusion, domains)
        self._last: dict[int, tuple[tuple[Symbol, tuple[ParallelType, ...]], ...]] = {}
        self.made = Made()
        self._buffers: dict[int, Buffer] = {}
        self._layouts: dict[int, tuple[IterDomain, ...]] = {}
        for tensor in fusion.tensors:
            self._place(tensor)

    # --- buffers -------------------------------------------------------------------------------

    def _place(self, tensor: TensorView) -> None:
        _check_reduced_in_registers(tensor)
        if id(tensor) in self._inputs or id(tensor) in self._outputs:
            size = integers.mul(*(axis.extent for axis in tensor.shape_axes))
            written = id(tensor) in self._outputs
            buffer = Buffer(tensor.name, tensor.dtype, MemoryType.global_, size, written)
        else:
            layout = layout_of(self._domains, tensor, self._unused[id(tensor)])
            if _is_shared_count(tensor) and layout and layout[-1] is tensor.loop[-1]:
                layout = layout[:-1]
            size = size_of(self._domains, tensor, layout)
            buffer = Buffer(tensor.name, tensor.dtype, tensor.memory, size)
            self._layouts[id(tensor)] = layout
        self._buffers[id(tensor)] = buffer

    def buffer(self, tensor: TensorView) -> Buffer:
        return self._buffers[id(tensor)]

    def declare(self, operation: Operation, depth: int) -> list[Statement]:
        """Declarations (and start values) of the operation's results that live from this depth."""
        statements: list[Statement] = []
        for output in operation.outputs:
            buffer = self.buffer(output)
            if output.compute_at != depth or buffer.memory is MemoryType.global_:
                continue
            if buffer.memory is MemoryType.shared:
                self.made.shared[buffer.name] = buffer
            else:
                statements.append(Declare(buffer))
            if isinstance(operation, Reduction | Welford) and not _is_parallel(operation):
                statements += self._start(operation, buffer)
        return statements

    def _start(self, operation: Reduction | Welford, buffer: Buffer) -> list[Statement]:
        value: Expr = Const(0, buffer.dtype)
        if isinstance(operation, Reduction):
            value = identity(operation.op, buffer.dtype)
        if buffer.size == integers.ONE:
            return [Store(buffer, integers.ZERO, value)]
        symbol = Symbol("e", extent=buffer.size)
        return [For(symbol, buffer.size, (Store(buffer, symbol, value),), unroll=True)]

    # --- which operations are statements -------------------------------------------------------

    def skips(self, operation: Operation, axis: IterDomain) -> bool:
        """Whether the operation's result is the same for every iteration of an own loop."""
        return id(axis) in self._unused[id(operation.outputs[0])]

    def is_leaf(self, operation: Operation, depth: int) -> bool:
        """Whether the operation's remaining loops belong inside one statement."""
        rest = operation.outputs[0].loop[depth:]
        if not rest:
            return True
        if isinstance(operation, Reduction | Welford) and _is_parallel(operation):
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
            self._domains.extent(self._domains.group(axis)), Const
        )

    # --- statements ----------------------------------------------------------------------------

    def emit(self, operation: Operation, indices: list[Expr]) -> list[Statement]:
        """Statements of an operation whose outer loop indices are given."""
        output = operation.outputs[0]
        rest = output.loop[len(indices) :]
        self._inherit_last(operation)
        if isinstance(operation, Reduction | Welford) and _is_parallel(operation):
            return self._parallel_reduction(operation, indices)
        if isinstance(operation, Welford) and len(operation.sources) == 3:
            return self._welford_merge(operation, indices)
        if isinstance(operation, Welford):
            return self._welford_step(operation, indices)
        if rest:
            return self._vector_copy(operation, indices)
        access = Access(self._domains, self._threads, operation, indices)
        value = self._value(operation, access)
        statement: Statement
        if isinstance(operation, Reduction):
            statement = Accumulate(operation.op, self.buffer(output), self._own(access), value)
            return self._guarded(access, operation, statement, always=True)
        statement = Store(self.buffer(output), self._own(access), value)
        return self._guarded(access, operation, statement)

    def _own(self, access: Access, output: TensorView | None = None) -> Expr:
        """Index of the operation's own element in the output's buffer."""
        tensor = access.output if output is None else output
        if self.buffer(tensor).memory is MemoryType.global_:
            return access.of_output()
        return access.allocated(tensor, self._layouts[id(tensor)])

    def _read(self, access: Access, value: Value) -> Expr:
        if not isinstance(value, TensorView):
            return value
        buffer = self.buffer(value)
        if id(value) in self._inputs:
            return Element(buffer, access.of_input(value))
        if buffer.memory is MemoryType.global_:
            raise ScheduleError(
                f"{access.output.name} reads {value.name}, which is written to global memory "
                "by the same kernel",
                code="WS0265",
                remedy=f"call {value.name}.cache_before() so that its value stays in registers",
            )
        access.check_same_threads(value, self._unused[id(value)])
        return Element(buffer, access.allocated(value, self._layouts[id(value)]))

    def _value(self, operation: Operation, access: Access) -> Expr:
        match operation:
            case Pointwise(op="set", inputs=(source,)) | Move(source=source):
                return self._read(access, source)
            case Reduction(source=source):
                return self._read(access, source)
            case Pointwise(op=op, inputs=inputs, output=output):
                args = tuple(self._read(access, value) for value in inputs)
                return Apply(op, args, output.dtype)
            case Full(value=value, output=output):
                return Apply("cast", (value,), output.dtype)
            case Iota(start=start, step=step, output=output):
                position = Apply("cast", (access.axis(output.logical[0]),), output.dtype)
                scaled = Apply("mul", (position, step), output.dtype)
                return Apply("add", (start, scaled), output.dtype)
        raise InternalError(f"no value for {operation!r}")

    def _guarded(
        self, access: Access, operation: Operation, statement: Statement, always: bool = False
    ) -> list[Statement]:
        """The statement under the predicate that it needs, if any."""
        condition = self._predicate(access, operation, always=always)
        return [statement] if condition == integers.TRUE else [If(condition, (statement,))]

    def _predicate(self, access: Access, operation: Operation, *, always: bool) -> Expr:
        """Registers may hold anything out of range; memory and reductions may not.

        Shared memory is read where its buffer ends, not where the tensor does. Global stores also
        exclude threads that hold copies of one element, and blocks that hold an unfinished grid
        reduction.
        """
        output = access.output
        stores = id(output) in self._outputs
        loads = any(id(source) in self._inputs for source in tensor_inputs(operation))
        conditions: list[Expr] = []
        if stores or loads or always:
            conditions.append(access.bounds(output.root, self._facts))
            if output.root is not output.logical:
                conditions.append(access.bounds(output.logical, self._facts))
        for tensor in (output, *tensor_inputs(operation)):
            layout = self._layouts.get(id(tensor), ())
            if self.buffer(tensor).memory is MemoryType.shared:
                conditions.append(access.bounds(layout, self._facts))
            elif tensor is not output:  # its producer may have shorter loops
                conditions.append(access.inside(layout, self._facts))
        if stores:
            conditions += self._once(access)
        elif self.buffer(output).memory is MemoryType.shared:
            conditions += self._first_copy(output)
        return integers.conjunction(*conditions)

    @property
    def _facts(self) -> frozenset[tuple[Expr, int]]:
        return self._fusion.divisors

    def _once(self, access: Access) -> list[Expr]:
        """Conditions under which exactly one thread of the grid stores each element, once."""
        output = access.output
        bound = {axis.parallel for axis in output.loop if not self._is_copy(output, axis)}
        conditions: list[Expr] = []
        finished: set[ParallelType] = set()
        for symbol, axes in self._last.get(id(output), ()):
            conditions.append(symbol)
            finished |= set(axes)
        for kind, symbol in self._threads.symbols.items():
            if self._threads.extents[kind] == integers.ONE:
                continue
            if kind not in bound and kind not in finished:
                conditions.append(Apply("eq", (symbol, integers.ZERO), DataType.Bool))
        for index in map(access.index, self._repeated(output)):
            if index != integers.ZERO:
                conditions.append(Apply("eq", (index, integers.ZERO), DataType.Bool))
        return conditions

    def _first_copy(self, output: TensorView) -> list[Expr]:
        """Conditions that keep other threads' copies of an element, which may be out of range."""
        return [
            Apply("eq", (self._threads.symbols[axis.parallel], integers.ZERO), DataType.Bool)
            for axis in output.loop
            if axis.parallel.is_block
            and id(axis) in self._unused[id(output)]
            and self._threads.extents[axis.parallel] != integers.ONE
        ]

    def _repeated(self, output: TensorView) -> list[Group]:
        """Groups that the loops walk and the output lacks: its elements come again for each."""
        axes = (axis for axis in (*output.root, *output.logical) if not axis.is_broadcast)
        own = set(map(self._domains.group, axes))
        found: dict[Group, None] = {}
        for axis in output.loop:
            if id(axis) not in self._unused[id(output)]:
                origins = _origins(self._domains, self._domains.group(axis), own)
                found.update(dict.fromkeys(g for g in origins if g not in own))
            elif not axis.parallel.is_thread:
                found[self._domains.group(axis)] = None
        return list(found)

    def _is_copy(self, output: TensorView, axis: IterDomain) -> bool:
        return id(axis) in self._unused[id(output)] or axis.is_reduction

    def _inherit_last(self, operation: Operation) -> None:
        """Results of a grid reduction are only valid in the last block: so is what follows."""
        flags: dict[Symbol, tuple[ParallelType, ...]] = {}
        for source in tensor_inputs(operation):
            flags.update(dict(self._last.get(id(source), ())))
        kinds = {axis.parallel for axis in operation.outputs[0].loop if axis.is_reduction}
        if flags and any(kind.is_grid for kind in kinds):
            raise ScheduleError(
                f"{operation.outputs[0].name} reduces over the grid what was reduced over the grid "
                "before, which only one block has",
                code="WS0277",
                remedy="reduce over all grid axes in one step: rfactor none of them",
            )
        for output in operation.outputs:
            for symbol, axes in flags.items():
                for axis in output.loop:
                    if axis.parallel in axes and not self._is_copy(output, axis):
                        raise ScheduleError(
                            f"{output.name} is computed on {axis.parallel.name}, but needs a "
                            f"result that was reduced over it, which only one block has",
                            code="WS0266",
                            remedy="keep that axis within a block, or use a second kernel",
                        )
                self._last[id(output)] = (*self._last.get(id(output), ()), (symbol, axes))

    # --- vector copies -------------------------------------------------------------------------

    def _vector_copy(self, operation: Operation, indices: list[Expr]) -> list[Statement]:
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
        extent = self._domains.extent(self._domains.group(axis))
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
        access = Access(self._domains, self._threads, operation, [*indices, lane])
        at_zero = Access(self._domains, self._threads, operation, [*indices, integers.ZERO])
        element = self._read(access, source)
        assert isinstance(element, Element)
        sides = []
        for tensor, index in ((output, self._own(access)), (source, element.index)):
            base = self._vectors.base(index, lane, width)
            if base is None:
                raise ScheduleError(
                    f"{output.name} vectorizes {axis!r}, along which {tensor.name} is not "
                    f"contiguous (index {index!r})",
                    code="WS0269",
                    remedy="vectorize the fastest contiguous dimension",
                )
            if self.buffer(tensor).memory is MemoryType.global_:
                known = self.made.alignments.get(tensor.name, 1)
                bytes_moved = min(width * tensor.dtype.size, 16)
                self.made.alignments[tensor.name] = max(known, bytes_moved)
            sides.append((self.buffer(tensor), base))
        (target, target_index), (origin, origin_index) = sides
        statement = CopyVector(target, target_index, origin, origin_index, width, output.streaming)
        uneven = self._uneven_bound(operation, access, lane, width)
        if uneven is None:
            return self._guarded(at_zero, operation, statement)
        rest = self._predicate(at_zero, operation, always=False)
        return _with_tail(statement, uneven, rest, lane)

    def _uneven_bound(
        self, operation: Operation, access: Access, lane: Symbol, width: int
    ) -> Apply | None:
        """The bound `index < extent` that may end within a vector, if there is one."""
        condition = self._predicate(access, operation, always=False)
        bounds = [
            node
            for node in integers.conjuncts(condition)
            if isinstance(node, Apply)
            and node.op == "lt"
            and lane in node.args[0].walk()
            and not integers.divides(width, node.args[1], self._facts)
        ]
        if len(bounds) > 1:  # the outer one's index would not be a multiple of the width
            raise InternalError(f"{access.output.name}: two bounds end within a vector")
        return bounds[0] if bounds else None

    # --- reductions ----------------------------------------------------------------------------

    def _parallel_reduction(
        self, operation: Reduction | Welford, indices: list[Expr]
    ) -> list[Statement]:
        """Copy the parts into the result's buffers, then combine them across threads."""
        output = operation.outputs[0]
        kinds = [axis.parallel for axis in output.loop if axis.is_reduction]
        if not all(kind.is_thread for kind in kinds):
            raise ScheduleError(
                f"{output.name} reduces over threads and in a loop of its own at once",
                code="WS0270",
                remedy="rfactor the loop axes first",
            )
        in_loop = any(isinstance(i, Symbol) and not self._is_thread(i) for i in indices)
        if in_loop and any(kind.is_grid for kind in kinds):
            raise ScheduleError(
                f"{output.name} is reduced over the grid inside a loop, but its blocks can meet "
                "once only",
                code="WS0274",
                remedy="inline its producer less deep, so that all its values are reduced together",
            )
        statements, depth = self._parts(operation, indices)
        firsts = [self._first_index(axis) for axis in output.loop[depth:]]
        access = Access(self._domains, self._threads, operation, [*indices, *firsts])
        inner = [a for a in self._layouts[id(output)] if a in output.loop[depth:]]
        extents = [self._domains.extent(self._domains.group(a)) for a in inner]
        statements.append(
            self._reduce(
                operation, kinds, self._own(access), int(_constant(integers.mul(*extents)))
            )
        )
        return statements

    def _is_thread(self, symbol: Symbol) -> bool:
        return symbol in self._threads.symbols.values()

    def _first_index(self, axis: IterDomain) -> Expr:
        """This thread's index on a thread axis, 0 on a loop."""
        if not axis.parallel.is_thread:
            return integers.ZERO
        single = self._domains.extent(self._domains.group(axis)) == integers.ONE
        return integers.ZERO if single else self._threads.symbols[axis.parallel]

    def _parts(
        self, operation: Reduction | Welford, indices: list[Expr]
    ) -> tuple[list[Statement], int]:
        """This thread's share of each value, or the identity where it has none."""
        output = operation.outputs[0]
        depth = len(indices)
        opened = list(indices)
        loops: list[Symbol] = []
        for position, axis in enumerate(output.loop[depth:]):
            extent = self._domains.extent(self._domains.group(axis))
            if extent == integers.ONE or self.skips(operation, axis):
                opened.append(integers.ZERO)
            elif axis.parallel.is_thread:
                opened.append(self._threads.symbols[axis.parallel])
            else:
                loops.append(Symbol(f"e{position}", extent=extent))
                opened.append(loops[-1])
        access = Access(self._domains, self._threads, operation, opened)
        condition = self._predicate(access, operation, always=True)
        body: list[Statement] = []
        for target, source, start in self._shares(operation):
            own = self._own(access, target)
            value = source if isinstance(source, Const) else self._read(access, source)
            if condition != integers.TRUE:
                value = Apply("where", (condition, value, start), target.dtype)
            body.append(Store(self.buffer(target), own, value))
        statements: tuple[Statement, ...] = tuple(body)
        for symbol in reversed(loops):
            assert symbol.extent is not None
            statements = (For(symbol, symbol.extent, statements, unroll=True),)
        return list(statements), depth

    def _shares(self, operation: Reduction | Welford) -> list[tuple[TensorView, Value, Const]]:
        """(result, its part, identity) for each result of a parallel reduction."""
        if isinstance(operation, Reduction):
            start = identity(operation.op, operation.output.dtype)
            return [(operation.output, operation.source, start)]
        zero = Const(0, operation.mean.dtype)
        if len(operation.sources) == 3:
            return [
                (target, source, zero)
                for target, source in zip(operation.outputs, operation.sources, strict=True)
            ]
        one = Const(1, operation.mean.dtype)
        return [
            (operation.mean, operation.sources[0], zero),
            (operation.m2, zero, zero),
            (operation.count, one, zero),
        ]

    def _reduce(
        self,
        operation: Reduction | Welford,
        kinds: list[ParallelType],
        index: Expr,
        elements: int,
    ) -> Reduce:
        output = operation.outputs[0]
        op = operation.op if isinstance(operation, Reduction) else "welford"
        parts = 1 if isinstance(operation, Reduction) else 3
        block = tuple(kind for kind in BLOCK_TYPES if kind in kinds)
        grid = tuple(kind for kind in GRID_TYPES if kind in kinds)
        threads = integers.mul(*(self._threads.extents.get(t, integers.ONE) for t in BLOCK_TYPES))
        scratch = Buffer(
            f"{output.name}_scratch",
            output.dtype,
            MemoryType.shared,
            self._scratch_size(block, elements, parts),
        )
        self.made.shared[scratch.name] = scratch
        buffers = tuple(self.buffer(out) for out in operation.outputs)
        if not grid:
            return Reduce(op, buffers, index, elements, block, scratch)
        splits = integers.mul(*(self._threads.extents[t] for t in grid))
        segments = integers.mul(
            *(extent for t, extent in self._threads.extents.items() if t.is_grid and t not in grid)
        )
        workspace = Buffer(
            f"{output.name}_parts",
            output.dtype,
            MemoryType.global_,
            integers.mul(threads, elements * parts, splits, segments),
        )
        semaphore = Buffer(f"{output.name}_arrivals", DataType.Int32, MemoryType.global_, segments)
        self.made.workspaces[workspace.name] = workspace
        self.made.workspaces[semaphore.name] = semaphore
        last = Symbol(f"{output.name}_last", DataType.Bool)
        for out in operation.outputs:
            self._last[id(out)] = (*self._last.get(id(out), ()), (last, grid))
        return Reduce(
            op, buffers, index, elements, block, scratch, grid, last, workspace, semaphore
        )

    def _scratch_size(self, reduced: tuple[ParallelType, ...], elements: int, parts: int) -> Expr:
        """Elements of shared memory for a reduction: exact for a constant block, else enough."""
        extents = [self._threads.extents.get(t, integers.ONE) for t in BLOCK_TYPES]
        known = [integers.constant(extent) for extent in extents]
        x, y, z = known
        if x is None or y is None or z is None:
            return integers.mul(*extents, elements * parts)
        gone = [kind in reduced for kind in BLOCK_TYPES]
        count = block_reduce_scratch(elements, (gone[0], gone[1], gone[2]), (x, y, z))
        return Const(max(1, count * parts))

    def _welford_merge(self, operation: Welford, indices: list[Expr]) -> list[Statement]:
        """Combine one rfactored part into the running triple."""
        access = Access(self._domains, self._threads, operation, indices)
        mean, m2, count = (self._read(access, source) for source in operation.sources)
        merge = WelfordMerge(
            self.buffer(operation.mean),
            self.buffer(operation.m2),
            self.buffer(operation.count),
            self._own(access),
            (mean, m2, count),
        )
        return self._guarded(access, operation, merge, always=True)

    def _welford_step(self, operation: Welford, indices: list[Expr]) -> list[Statement]:
        """Add the values of the last loop: to a result each, under one count, or to one result."""
        output = operation.mean
        width = 1
        if len(output.loop) > len(indices):
            group = self._domains.group(output.loop[-1])
            width = int(_constant(self._domains.extent(group)))
        opened = [
            [*indices, integers.index(k)] if len(output.loop) > len(indices) else indices
            for k in range(width)
        ]
        accesses = [Access(self._domains, self._threads, operation, at) for at in opened]
        predicates = [self._predicate(a, operation, always=True) for a in accesses]
        steps: list[Statement] = []
        if len(set(predicates)) != 1:
            raise ScheduleError(
                f"the last loop of {output.name} runs past the end of the reduced dimension",
                code="WS0272",
                remedy="make the innermost loop divide the extent",
            )
        step = WelfordStep(
            self.buffer(operation.mean),
            self.buffer(operation.m2),
            self.buffer(operation.count),
            self._own(accesses[0], operation.mean),
            self._own(accesses[0], operation.count),
            tuple(self._read(access, operation.sources[0]) for access in accesses),
            joined=width > 1 and output.loop[-1].is_reduction,
        )
        steps += [step] if predicates[0] == integers.TRUE else [If(predicates[0], (step,))]
        return steps


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


def identity(op: str, dtype: DataType) -> Const:
    """The value that changes nothing in a reduction."""
    if op in IDENTITY:
        return Const(IDENTITY[op], dtype)
    if dtype.is_float:
        return Const(float("-inf") if op == "max" else float("inf"), dtype)
    if dtype is DataType.Bool:
        return Const(op == "min", dtype)
    bits = dtype.size * 8 - 1
    return Const(-(2**bits) if op == "max" else 2**bits - 1, dtype)


def _is_parallel(operation: Reduction | Welford) -> bool:
    loops = operation.outputs[0].loop
    return any(axis.is_reduction and axis.parallel.is_thread for axis in loops)


def _check_reduced_in_registers(tensor: TensorView) -> None:
    """Refuse results of reductions elsewhere: threads that share one would all update it."""
    if not isinstance(tensor.definition, Reduction | Welford):
        return
    if tensor.is_output:
        copied = isinstance(tensor.definition, Welford)
        remedy = "make a copy by ops.set the output" if copied else "call its cache_before"
        raise ScheduleError(
            f"{tensor.name} is reduced in place, and as an output lives in global memory",
            code="WS0275",
            remedy=remedy,
        )
    if tensor.memory is not MemoryType.local:
        raise ScheduleError(
            f"{tensor.name} is reduced in {tensor.memory.value} memory, and only registers can be "
            "reduced into",
            code="WS0276",
            remedy="set the memory type of its cache_after",
        )


def _is_shared_count(tensor: TensorView) -> bool:
    """Whether the tensor counts for a Welford step whose last loop walks results, not values."""
    definition = tensor.definition
    return (
        isinstance(definition, Welford)
        and len(definition.sources) == 1
        and tensor is definition.count
        and not _is_parallel(definition)
        and bool(tensor.loop)
        and not tensor.loop[-1].is_reduction
        and all(source.compute_at < len(tensor.loop) for source in definition.sources)
    )


def _constant(expr: Expr) -> int:
    value = integers.constant(expr)
    if value is None:
        raise InternalError(f"{expr!r} should be a constant")
    return value


def _independent_axes(fusion: Fusion, domains: DomainMap) -> dict[int, frozenset[int]]:
    """Per tensor, its loop axes that none of its own dimensions depends on.

    Such a loop comes from a dimension that the tensor lacks; its value is the same in every
    iteration.
    """
    result: dict[int, frozenset[int]] = {}
    for tensor in fusion.tensors:
        own = {
            domains.group(axis) for axis in (*tensor.root, *tensor.logical) if not axis.is_broadcast
        }
        result[id(tensor)] = frozenset(
            id(axis) for axis in tensor.loop if not _connected(domains, axis) & own
        )
    return result


def _origins(domains: DomainMap, group: Group, own: set[Group]) -> set[Group]:
    """The groups that a group was made from, back to those that nothing made or that are `own`."""
    found: set[Group] = set()
    stack = [group]
    while stack:
        current = stack.pop()
        if current in found:
            continue
        found.add(current)
        made_by = [
            t
            for t in domains.touching(current)
            if current not in own and any(domains.group(a) == current for a in t.results)
        ]
        for transform in made_by:
            found.discard(current)
            parts = {transform.axis, transform.outer, transform.inner}
            stack += [domains.group(a) for a in parts - set(transform.results)]
    return found


def _connected(domains: DomainMap, axis: IterDomain) -> set[int]:
    """Groups that the axis is made from, and groups made from it."""
    found: set[int] = set()
    for upwards in (True, False):
        stack = [domains.group(axis)]
        seen: set[int] = set()
        while stack:
            group = stack.pop()
            if group in seen:
                continue
            seen.add(group)
            for transform in domains.touching(group):
                results = {domains.group(a) for a in transform.results}
                whole = {transform.axis, transform.outer, transform.inner}
                sources = {domains.group(a) for a in whole - set(transform.results)}
                if upwards and group in results:
                    stack += sources
                elif not upwards and group in sources:
                    stack += results
        found |= seen
    return found
