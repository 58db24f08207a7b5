"""Under which conditions an operation's statement runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.domains import IterDomain, MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.mapping import Group
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.kernel.nodes import CopyVector, For, If, Statement, Store
from warpsmith.lower.access import Access
from warpsmith.lower.buffers import Buffers
from warpsmith.lower.independence import lacking, origins


class Predicates:
    """Makes the predicates of one kernel.

    Attributes:
        last: per tensor, the flags of grid reductions that it depends on, with their grid axes; it
            is only valid in the block where they are true.
    """

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self.last: dict[TensorView, tuple[tuple[Symbol, tuple[ParallelType, ...]], ...]] = {}

    def predicate(self, access: Access, operation: Operation, *, always: bool) -> Expr:
        """Registers may hold anything out of range; memory and reductions may not.

        Shared memory is read where its buffer ends, not where the tensor does, unless threads
        branch by what they read. Global stores also exclude threads that hold copies of one
        element, and blocks that hold an unfinished grid reduction. What tensor cores
        sum from registers is 0 out of range.
        """
        output = access.output
        stores = output in self._buffers.outputs
        guarded = self._buffers.inputs, self._buffers.deciding
        loads = any(source in some for source in tensor_inputs(operation) for some in guarded)
        conditions: list[Expr] = []
        if output in self._buffers.ends:
            conditions.append(access.inside((self._buffers.ends[output],), self._buffers.facts))
        if stores or loads or always:
            conditions.append(self._ends(access, operation, stores=stores, always=always))
            if output.root is not output.logical:
                conditions.append(access.bounds(output.logical, self._buffers.facts))
        for tensor in (output, *tensor_inputs(operation)):
            layout = self._buffers.layouts.get(tensor, ())
            if self._buffers.buffer(tensor).memory is MemoryType.shared:
                conditions.append(access.bounds(layout, self._buffers.facts))
            elif tensor is not output:  # its producer may have shorter loops
                conditions.append(access.inside(layout, self._buffers.facts))
        if stores:
            conditions += self._once(access)
        elif self._buffers.buffer(output).memory is MemoryType.shared:
            conditions += self._first_copy(output)
        return integers.conjunction(*conditions)

    def _ends(self, access: Access, operation: Operation, *, stores: bool, always: bool) -> Expr:
        """Where the output's root axes end; of what reads parts of them and stores nothing, where
        what it reads does.

        What is only loaded, and before the loops over an axis that it is broadcast along, is there
        for what comes after them, too, even where they have no passes.
        """
        root = operation.outputs[0].root
        read = [axis for t in tensor_inputs(operation) for _, axis in operation.pairs(t)]
        parts = [] if stores else [axis for axis in read if axis not in root]
        if not parts:
            needed = [
                axis
                for axis in root
                if stores or always or not axis.is_broadcast or access.steps(axis)
            ]
            return access.bounds(tuple(needed), self._buffers.facts)
        whole = tuple(axis for axis in read if axis in root)
        return integers.conjunction(access.bounds(whole, self._buffers.facts), access.within(parts))

    def guarded(
        self, access: Access, operation: Operation, statement: Statement, always: bool = False
    ) -> list[Statement]:
        """The statement under the predicate that it needs, if any."""
        condition = self.predicate(access, operation, always=always)
        return [statement] if condition == integers.TRUE else [If(condition, (statement,))]

    def zeros(
        self, operation: Operation, indices: list[Expr], statements: Iterable[Statement]
    ) -> list[Statement]:
        """Zeros for what `statements`, of an operation, leave out where they have conditions."""
        if not any(isinstance(statement, If) for statement in statements):
            return []
        output = operation.outputs[0]
        lanes = [
            Symbol("zero", extent=self._buffers.extent(axis))
            for axis in output.loop[len(indices) :]
        ]
        access = self._buffers.access(operation, [*indices, *lanes])
        buffer, index = self._buffers.buffer(output), self._buffers.own(access)
        made: Statement = Store(buffer, index, Const(0, buffer.dtype))
        if buffer.memory is MemoryType.shared:
            layout = self._buffers.layouts[output]
            here = access.bounds(layout, self._buffers.facts)
            made = If(integers.conjunction(here, *self._first_copy(output)), (made,))
        for lane in lanes:
            assert lane.extent is not None
            made = For(lane, lane.extent, (made,), unroll=True)
        return [made]

    def or_zeros(
        self, operation: Operation, indices: list[Expr], statements: Iterable[Statement]
    ) -> list[Statement]:
        """The same of a copy by `cp.async`: it writes zeros itself, wherever a stage has room."""
        output, statements = operation.outputs[0], list(statements)
        copies = [inner for each in statements for inner in _inner(each)]
        copy = copies[0] if len(copies) == 1 else None
        if not isinstance(copy, CopyVector):
            if output in self._buffers.beside:
                return statements
            raise ScheduleError(
                f"{output.name} is an operand of a product, brought by cp.async in vectors that "
                "may end past the ends of its dimensions, where it is to be 0",
                code="WS1015",
                remedy=f"load {output.name} by LoadStoreOpType.tma or set, or split its dimensions "
                "by factors that divide",
            )
        first = [integers.ZERO] * (len(output.loop) - len(indices))
        access = self._buffers.access(operation, [*indices, *first])
        layout = self._buffers.layouts[output]
        here = integers.conjunction(
            access.bounds(layout, self._buffers.facts), *self._first_copy(output)
        )
        known = set(integers.conjuncts(here))
        condition = self.predicate(access, operation, always=True)
        rest = [each for each in integers.conjuncts(condition) if each not in known]
        made = replace(copy, inside=integers.conjunction(*rest))
        return [made] if here == integers.TRUE else [If(here, (made,))]

    def of_tile(self, access: Access) -> Expr:
        """Where a copy that one thread of each block asks for lies inside its tensor, once. Whole
        chunks bring what stands before a row, too.
        """
        output, facts = access.output, self._buffers.facts
        conditions = [access.inside(output.root, facts, begins=not output.chunks)]
        if output.root is not output.logical:
            conditions.append(access.inside(output.logical, facts))
        if output in self._buffers.outputs:
            threads = {self._buffers.threads.symbols[k] for k in self._block_types()}
            conditions += [c for c in self._once(access) if not threads & set(c.walk())]
        return integers.conjunction(*conditions)

    def _block_types(self) -> list[ParallelType]:
        return [kind for kind in self._buffers.threads.symbols if kind.is_block]

    def _once(self, access: Access) -> list[Expr]:
        """Conditions under which exactly one thread of the grid stores each element, once."""
        output = access.output
        bound = {axis.parallel for axis in output.loop if not self._is_copy(output, axis)}
        conditions: list[Expr] = []
        finished: set[ParallelType] = set()
        for symbol, axes in self.last.get(output, ()):
            conditions.append(symbol)
            finished |= set(axes)
        for kind, symbol in self._buffers.threads.symbols.items():
            if self._buffers.threads.extents[kind] == integers.ONE:
                continue
            if kind not in bound and kind not in finished:
                conditions.append(Apply("eq", (symbol, integers.ZERO), DataType.Bool))
        repeated = filter(access.reaches, self._repeated(output))  # others are of other loops
        for index in map(access.index, repeated):
            if index != integers.ZERO:
                conditions.append(Apply("eq", (index, integers.ZERO), DataType.Bool))
        return conditions

    def _first_copy(self, output: TensorView) -> list[Expr]:
        """Conditions that keep other threads' copies of an element, which may be out of range."""
        return [
            Apply(
                "eq", (self._buffers.threads.symbols[axis.parallel], integers.ZERO), DataType.Bool
            )
            for axis in output.loop
            if axis.parallel.is_block
            and axis in self._buffers.unused[output]
            and self._buffers.threads.extents[axis.parallel] != integers.ONE
        ]

    def _repeated(self, output: TensorView) -> list[Group]:
        """Groups that the loops walk and the output lacks: its elements come again for each.

        It has what its own dimensions give by splits and merges, too.
        """
        axes = (axis for axis in (*output.root, *output.logical) if not axis.is_broadcast)
        own = set(map(self._buffers.domains.group, axes))
        given = Derivation(self._buffers.domains, dict.fromkeys(own, integers.ZERO))
        domains = self._buffers.domains

        def is_told(group: Group) -> bool:
            """Whether it is known, or its parts say what is lacking: not what it was made from."""
            return given.reaches(group) or lacking(domains, group, own) != {group}

        found: dict[Group, None] = {}
        for axis in output.loop:
            if axis not in self._buffers.unused[output]:
                for made_from in origins(domains, domains.group(axis), is_told):
                    if not given.reaches(made_from):
                        found.update(dict.fromkeys(lacking(domains, made_from, own)))
            elif not axis.parallel.is_thread:
                found[domains.group(axis)] = None
        return list(found)

    def _is_copy(self, output: TensorView, axis: IterDomain) -> bool:
        return axis in self._buffers.unused[output] or axis.is_reduction

    def inherit_last(self, operation: Operation) -> None:
        """Results of a grid reduction are only valid in the last block: so is what follows."""
        flags: dict[Symbol, tuple[ParallelType, ...]] = {}
        for source in tensor_inputs(operation):
            flags.update(dict(self.last.get(source, ())))
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
                self.last[output] = (*self.last.get(output, ()), (symbol, axes))


def _inner(statement: Statement) -> tuple[Statement, ...]:
    return statement.body if isinstance(statement, If) else (statement,)
