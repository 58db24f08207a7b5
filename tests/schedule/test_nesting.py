"""Nests of random programs, held against a search for circles in all of the program."""

import random
from collections.abc import Sequence
from itertools import product

import pytest

from tests.support.program import Program
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.schedule.nesting import Nestings

DEPTHS = 3


def program(draw: random.Random) -> tuple[Operation, ...]:
    """Operations that each read one or two earlier results."""
    p = Program()
    made: list[TensorView] = [p.input(DataType.Float, (None,) * DEPTHS)]
    for _ in range(draw.randint(3, 12)):
        read = draw.choices(made[-4:], k=draw.randint(1, 2))
        made.append(p.op("add" if len(read) == 2 else "neg", *read))
    return tuple(p.fusion.operations)


def orderable(operations: Sequence[Operation], depth: int) -> bool:
    """Whether no nest of a depth needs its own results over others, found by closing all ways."""
    nest = {operation: number for number, operation in enumerate(operations)}
    reads = [(s.definition, op, s) for op in operations for s in tensor_inputs(op) if s.definition]
    for maker, reader, tensor in reads:
        if tensor.compute_at > depth:
            old, new = nest[reader], nest[maker]
            nest = {op: new if number == old else number for op, number in nest.items()}
    ways = {(nest[m], nest[r]) for m, r, tensor in reads if tensor.compute_at <= depth}
    while True:
        more = {(a, d) for (a, b), (c, d) in product(ways, ways) if b == c}
        if more <= ways:
            return all(a != b for a, b in ways)
        ways |= more


@pytest.mark.parametrize("seed", range(40))
def test_positions_are_the_deepest_that_leave_an_order(seed: int) -> None:
    draw = random.Random(seed)
    operations = program(draw)
    early = draw.sample(operations, draw.randint(0, 2))
    for operation in early:  # what was inlined before, where that leaves an order
        operation.outputs[0].compute_at = draw.randint(0, DEPTHS)
    if not all(orderable(operations, depth) for depth in range(DEPTHS)):
        for operation in early:
            operation.outputs[0].compute_at = 0
    nestings = Nestings(operations)
    for operation in reversed(operations):
        tensor = operation.outputs[0]
        most = draw.randint(tensor.compute_at, DEPTHS)
        tensor.compute_at = position = nestings.shared(operation, most)
        assert all(orderable(operations, depth) for depth in range(DEPTHS))
        if position < most:
            tensor.compute_at = position + 1
            assert not orderable(operations, position)
            tensor.compute_at = position
