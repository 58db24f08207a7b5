"""Statements of reductions: within a thread, and what starts them."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.carry import Carry, simple
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.exprs import Matmul, Pointwise, Reduction, tensor_inputs
from warpsmith.ir.scalar import Apply, Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.nodes import If, Statement
from warpsmith.kernel.reductions import Accumulate, WelfordStep
from warpsmith.lower.access import Access
from warpsmith.lower.across_threads import AcrossThreads
from warpsmith.lower.buffers import Buffers, constant_of, filled, is_parallel
from warpsmith.lower.predicates import Predicates
from warpsmith.reach import reached


class Reductions:
    """Makes the reductions of one kernel."""

    def __init__(self, buffers: Buffers, predicates: Predicates, across: AcrossThreads) -> None:
        self._buffers = buffers
        self._predicates = predicates
        self._across = across

    def emit(self, operation: Reduction | Matmul, indices: list[Expr]) -> list[Statement]:
        """Statements of a reduction whose outer loop indices are given."""
        if is_parallel(operation):
            if isinstance(operation, Matmul):
                raise ScheduleError(
                    f"{operation.output.name} is a matrix product whose summed dimension is spread "
                    "over threads",
                    code="WS1009",
                    remedy="rfactor its other loops over that dimension, so that a reduction of "
                    "what each thread summed is left",
                )
            return self._across.emit(operation, indices)
        if isinstance(operation, Reduction) and operation.counts_elements:
            return self._welford_step(operation, indices)
        return self._accumulate(operation, indices)

    def start(self, operation: Reduction | Matmul, output: TensorView) -> list[Statement]:
        """Start values of a result that is reduced in a loop of its own."""
        if is_parallel(operation):
            return []
        value = _carry(operation).identity[operation.outputs.index(output)]
        return [filled(self._buffers.buffer(output), value)]

    def _accumulate(self, operation: Reduction | Matmul, indices: list[Expr]) -> list[Statement]:
        """One more state into the running one.

        Sums of what tensor cores left in registers have rows and columns past the end there, too.
        A product whose operands are 0 past their ends may go past its own: what it adds to the
        elements that it has is 0, and nobody reads the others.
        """
        access = self._buffers.access(operation, indices)
        buffers = tuple(map(self._buffers.buffer, operation.outputs))
        part: tuple[Expr, ...]
        ends: Expr = integers.TRUE
        if isinstance(operation, Reduction):
            always = not _of_fragments(operation)
            if not always:
                reduced = tuple(a for a in operation.output.root if a.is_reduction)
                ends = access.bounds(reduced, self._buffers.facts)
            part = tuple(self._buffers.read(access, source) for source in operation.sources)
        else:
            always = any(t not in self._buffers.filled for t in operation.operands)
            part = (Apply("mul", self._factors(operation, access), operation.output.dtype),)
        own = self._buffers.own(access)
        statement: Statement = Accumulate(_carry(operation), buffers, own, part)
        if ends != integers.TRUE:
            statement = If(ends, (statement,))
        return self._predicates.guarded(access, operation, statement, always=always)

    def _factors(self, operation: Matmul, access: Access) -> tuple[Expr, ...]:
        """An element of each operand in the type of the sums."""
        dtype = operation.output.dtype
        return tuple(
            self._buffers.read(access, operand)
            if operand.dtype is dtype
            else Apply("cast", (self._buffers.read(access, operand),), dtype)
            for operand in operation.operands
        )

    def _welford_step(self, operation: Reduction, indices: list[Expr]) -> list[Statement]:
        """Add the values of the last loop: to a result each, under one count, or to one result."""
        mean, m2, count = operation.outputs
        output = mean
        width = 1
        if len(output.loop) > len(indices):
            group = self._buffers.domains.group(output.loop[-1])
            width = int(constant_of(self._buffers.domains.extent(group)))
        opened = [
            [*indices, integers.index(k)] if len(output.loop) > len(indices) else indices
            for k in range(width)
        ]
        accesses = [self._buffers.access(operation, at) for at in opened]
        predicates = [self._predicates.predicate(a, operation, always=True) for a in accesses]
        joined = width > 1 and output.loop[-1].is_reduction
        alike, own = _by_lanes(predicates)
        apart = any(own)
        if apart and not joined:
            raise ScheduleError(
                f"the last loop of {output.name} runs past the end of a dimension that it keeps",
                code="WS0272",
                remedy="make the innermost loop divide the extent",
            )
        step = WelfordStep(
            self._buffers.buffer(mean),
            self._buffers.buffer(m2),
            self._buffers.buffer(count),
            self._buffers.own(accesses[0], mean),
            self._buffers.own(accesses[0], count),
            tuple(self._buffers.read(access, operation.source) for access in accesses),
            joined=joined,
            inside=tuple(integers.conjunction(*lane) for lane in own) if apart else (),
        )
        return [step] if alike == integers.TRUE else [If(alike, (step,))]


def _by_lanes(predicates: Sequence[Expr]) -> tuple[Expr, list[list[Expr]]]:
    """What all lanes ask alike, and what each asks of its own place."""
    asked = [integers.conjuncts(predicate) for predicate in predicates]
    alike = [each for each in asked[0] if all(each in lane for lane in asked)]
    return integers.conjunction(*alike), [[c for c in lane if c not in alike] for lane in asked]


def _carry(operation: Reduction | Matmul) -> Carry:
    """How an operation joins what was summed before with what comes."""
    if isinstance(operation, Reduction):
        return operation.carry
    return simple("sum", operation.output.dtype)


def _of_fragments(operation: Reduction) -> bool:
    """Whether each thread adds up what tensor cores left in its registers, element by element."""

    def before(tensor: TensorView) -> Sequence[TensorView]:
        made, here = tensor.definition, tensor.memory is MemoryType.local
        return tensor_inputs(made) if isinstance(made, Pointwise) and here else ()

    return any(
        isinstance(each.definition, Matmul) and each.lanes is not None
        for each in reached(tensor_inputs(operation), before)
    )
