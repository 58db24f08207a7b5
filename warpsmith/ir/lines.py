"""The lines of a user's program that its tensors come from."""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.callers import Line
from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.program import Program
from warpsmith.ir.tensor import TensorView


def own_lines(program: Program) -> dict[str, Line]:
    """By name, the line that defined a tensor, where one did."""
    return {tensor.name: tensor.line for tensor in program.tensors if tensor.line is not None}


def lines_of(program: Program, own: Mapping[str, Line]) -> dict[str, tuple[Line, ...]]:
    """By name of each tensor, the lines that it is there for, in order; none where nobody knows.

    What planning or scheduling put between others has the lines of what is computed of it: a copy
    of an input those of its users, a part of a sum that of the sum. A result, of which nothing is
    computed, has those of what it is computed of.

    Args:
        own: by name, the lines that defined tensors.
    """
    found: dict[TensorView, frozenset[Line]] = {}
    for tensor in program.tensors:
        line = own.get(tensor.name)
        found[tensor] = frozenset() if line is None else frozenset((line,))
    for operation in reversed(program.operations):
        users = frozenset[Line]().union(*(found[output] for output in operation.outputs))
        for source in tensor_inputs(operation):
            if source.name not in own:
                found[source] |= users
    for operation in program.operations:
        sources = frozenset[Line]().union(*(found[t] for t in tensor_inputs(operation)))
        for output in operation.outputs:
            found[output] = found[output] or sources
    return {tensor.name: tuple(sorted(lines)) for tensor, lines in found.items()}
