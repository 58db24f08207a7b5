"""Predicates: there where an index may leave its range, absent where it provably cannot."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.support.launching import launched, random_inputs, values_of
from tests.support.lowering import lowered
from tests.support.program import Program
from tests.support.simulating import Fault
from warpsmith.ir import integers
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Statement
from warpsmith.kernel.traversal import walk
from warpsmith.lower.pipeline import lower
from warpsmith.schedule.caches import cache_before, rfactor
from warpsmith.schedule.inline import inline_most
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import merge, parallelize, split
from warpsmith.targets.hopper import H200

GRID_X, GRID_Y = ParallelType.grid_x, ParallelType.grid_y
BLOCK_X, BLOCK_Y = ParallelType.block_x, ParallelType.block_y

Shapes = dict[str, tuple[int, ...]]


def one_dimension() -> tuple[Program, Shapes]:
    p = Program()
    output = p.op("exp", p.op("neg", p.input(DataType.Float, (None,))))
    p.output(output)
    split(output, 0, 8)
    parallelize(output, 0, GRID_X)
    parallelize(output, 1, BLOCK_X)
    transform_like(output)
    parallelize_like(output)
    inline_most(p.fusion)
    return p, {"T0": (19,)}


def two_dimensions() -> tuple[Program, Shapes]:
    p = Program()
    output = p.op("neg", p.input(DataType.Float, (None, None)))
    p.output(output)
    split(output, 1, 4)
    split(output, 0, 3, inner_split=False)
    for place, kind in enumerate((GRID_Y, BLOCK_Y, GRID_X, BLOCK_X)):
        parallelize(output, place, kind)
    return p, {"T0": (7, 9)}


def split_twice() -> tuple[Program, Shapes]:
    p = Program()
    output = p.op("neg", p.input(DataType.Float, (None,)))
    p.output(output)
    split(output, 0, 8)
    split(output, 0, 3)
    for place, kind in enumerate((GRID_X, ParallelType.unroll, BLOCK_X)):
        parallelize(output, place, kind)
    return p, {"T0": (50,)}


def result_beside_threads() -> tuple[Program, Shapes]:
    """One result per row: the threads that reduced it must not all store it."""
    p = Program()
    total = p.reduce("sum", p.op("neg", p.input(DataType.Float, (None, None))), [1])
    p.output(total)
    total = cache_before(total)
    split(total, 1, 4, inner_split=False)
    split(total, 0, 2)
    for place, kind in ((0, GRID_X), (1, BLOCK_Y), (2, BLOCK_X)):
        parallelize(total, place, kind)
    (partial,) = rfactor(total, [3])
    transform_like(partial, [t for t in p.fusion.tensors if not t.has_reduction and t.definition])
    parallelize_like(partial)
    inline_most(p.fusion)
    return p, {"T0": (5, 4)}


def row_beside_matrix() -> tuple[Program, Shapes]:
    """The row is stored by the first of the matrix's rows alone."""
    p = Program()
    x, row = p.input(DataType.Float, (None, None)), p.input(DataType.Float, (None,))
    small = p.op("exp", row)
    output = p.op("add", x, p.broadcast(small, [True, False]))
    p.output(output, small)
    register = cache_before(small)
    merge(output, 0)
    split(output, 0, 8)
    parallelize(output, 0, GRID_X)
    parallelize(output, 1, BLOCK_X)
    transform_like(output)
    parallelize_like(output)
    inline_most(p.fusion)
    assert register.compute_at == 2
    return p, {"T0": (3, 5), "T1": (5,)}


PROGRAMS = (
    (one_dimension, 1),
    (two_dimensions, 0),
    (split_twice, 0),
    (result_beside_threads, 4),  # what rows beyond the last add up to is never stored
    (row_beside_matrix, 3),  # the row's index is a remainder, which is always inside
)
"""Programs, and conditions that nothing shows to be needed: those that follow from what else is so,
and one of a load whose store has the same one, since NVVM moves it there."""


def run(program: Program, shapes: Shapes, kernel: Kernel) -> None:
    inputs = random_inputs(program.fusion, shapes)
    launched(program.fusion, kernel, inputs, values_of(program.fusion, inputs))


def faults(program: Program, shapes: Shapes, kernel: Kernel) -> bool:
    try:
        run(program, shapes, kernel)
    except Fault:
        return True
    return False


def weakened(statements: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    """The statements with one part of one condition left out."""
    for position, statement in enumerate(statements):
        before, after = statements[:position], statements[position + 1 :]
        if isinstance(statement, If):
            parts = integers.conjuncts(statement.condition)
            for part in parts:
                left = integers.conjunction(*(p for p in parts if p != part))
                kept = statement.body if left == integers.TRUE else (If(left, statement.body),)
                yield (*before, *kept, *after)
        elif isinstance(statement, For):
            for body in weakened(statement.body):
                yield (*before, replace(statement, body=body), *after)


@pytest.mark.parametrize(("make", "implied"), PROGRAMS, ids=[p[0].__name__ for p in PROGRAMS])
def test_every_condition_is_needed(
    make: Callable[[], tuple[Program, Shapes]], implied: int
) -> None:
    program, shapes = make()
    kernel = lowered(program)
    run(program, shapes, kernel)
    outcomes = [faults(program, shapes, replace(kernel, body=b)) for b in weakened(kernel.body)]
    assert outcomes.count(False) == implied
    assert outcomes.count(True) >= 1


def conditions(kernel: Kernel) -> list[If]:
    return [s for s in walk(kernel.body) if isinstance(s, If)]


def test_a_split_that_divides_needs_no_condition() -> None:
    p = Program()
    output = p.op("neg", p.input(DataType.Float, (24,)))
    p.output(output)
    split(output, 0, 8)
    parallelize(output, 0, GRID_X)
    parallelize(output, 1, BLOCK_X)
    assert conditions(lower(p.fusion, "test", target=H200)) == []


def test_a_known_divisor_needs_no_condition() -> None:
    p = Program()
    x = p.input(DataType.Float, (None,))
    output = p.op("neg", x)
    p.output(output)
    p.fusion.divisors |= {(x.logical[0].extent, 8)}
    split(output, 0, 4)
    parallelize(output, 0, GRID_X)
    kernel = lower(p.fusion, "test", target=H200)
    assert conditions(kernel) == []
    assert kernel.requirements == ((x.logical[0].extent, 8),)


def test_merged_dimensions_need_one_condition() -> None:
    p = Program()
    output = p.op("neg", p.input(DataType.Float, (None, None)))
    p.output(output)
    merge(output, 0)
    split(output, 0, 8)
    parallelize(output, 0, GRID_X)
    parallelize(output, 1, BLOCK_X)
    (only,) = conditions(lower(p.fusion, "test", target=H200))
    assert len(integers.conjuncts(only.condition)) == 1
