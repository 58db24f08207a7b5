"""Programs of one program that have no result in common."""

from __future__ import annotations

from warpsmith.ir.disjoint import Disjoint
from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.program import Program, View
from warpsmith.ir.tensor import Operation, TensorView


def apart(program: Program) -> tuple[View, ...]:
    """The programs of which each computes what it needs; they share inputs alone. They come in the
    order of their first operations.
    """
    found = Disjoint[Operation]()
    maker: dict[TensorView, Operation] = {}
    for operation in program.operations:
        found.add(operation)
        for source in tensor_inputs(operation):
            if source in maker:
                found.join(operation, maker[source])
        maker |= dict.fromkeys(operation.outputs, operation)
    return tuple(_of(program, operations) for operations in found.sets())


def _of(program: Program, operations: list[Operation]) -> View:
    """The program of some operations."""
    read = {value for operation in operations for value in operation.inputs}
    made = {output for operation in operations for output in operation.outputs}
    together = tuple(group for group in program.together if not made.isdisjoint(group))
    return View(
        tuple(value for value in program.inputs if value in read),
        tuple(output for output in program.outputs if output.value in made),
        tuple(operations),
        program.limits,
        together,
        program.follows,
    )
