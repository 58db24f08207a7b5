"""Barriers stand where shared memory needs them, and nowhere else; each one is needed."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.support.by_hand import kernel_of
from tests.support.launching import launched, random_inputs, values_of
from tests.support.lowering import lowered
from tests.support.passing import meets_partly
from tests.support.program import Program
from tests.support.simulating import Fault
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.integers import index, less
from warpsmith.ir.scalar import Const, Symbol
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Element, For, If, Statement, Store, Synchronize
from warpsmith.kernel.traversal import walk
from warpsmith.lower.build import build
from warpsmith.lower.passes.order import order
from warpsmith.schedule.inline import inline_at, inline_most
from warpsmith.schedule.transforms import (
    merge,
    pad_allocation,
    parallelize,
    reorder,
    set_memory_type,
    split,
)
from warpsmith.targets.hopper import H200

BLOCK_X = ParallelType.block_x


def staged_reversal(padding: int = 0) -> Program:
    """A matrix is transposed through one shared tile."""
    p = Program()
    x = p.input(DataType.Float, (8, 4))
    staged = p.copy(x)
    set_memory_type(staged, MemoryType.shared)
    pad_allocation(staged, padding)
    output = p.permute(staged, (1, 0))
    p.output(output)
    parallelize(staged, 1, BLOCK_X)
    parallelize(output, 1, BLOCK_X)
    return p


def staged_in_a_loop() -> Program:
    """One row at a time goes through shared memory, and is read in another order of threads."""
    p = Program()
    x = p.input(DataType.Float, (5, 8))
    staged = p.copy(x)
    set_memory_type(staged, MemoryType.shared)
    output = p.op("neg", staged)
    p.output(output)
    for tensor, inner in ((staged, True), (output, False)):
        split(tensor, 1, 2, inner_split=inner)
        split(tensor, 0, 1)
        parallelize(tensor, 3 if inner else 2, BLOCK_X)
        merge(tensor, 0)
    inline_at(output, 1, selected_tensors=[staged], best_effort=True)
    staged.compute_at = 1
    return p


def two_stages_in_a_loop() -> Program:
    p = Program()
    x = p.input(DataType.Float, (6, 4))
    first = p.copy(x)
    middle = p.op("exp", first)
    output = p.op("neg", middle)
    p.output(output)
    for tensor in (first, middle):
        set_memory_type(tensor, MemoryType.shared)
    for tensor, place in ((first, 1), (middle, 2), (output, 1)):
        split(tensor, 1, 2)
        parallelize(tensor, place, BLOCK_X)
    first.compute_at = middle.compute_at = 1
    return p


def block_sums_of_a_tile() -> Program:
    """Threads load one element each; another thread reduces it with its neighbours."""
    p = Program()
    x = p.input(DataType.Float, (3, 8, 4))
    staged = p.copy(x)
    set_memory_type(staged, MemoryType.shared)
    total = p.reduce("sum", staged, [1])
    output = p.op("neg", total)
    p.output(output)
    for tensor, place in ((staged, 1), (total, 2), (output, 1)):
        parallelize(tensor, place, BLOCK_X)
    staged.compute_at = 1
    reorder(total, {2: 1})
    return p


PROGRAMS: tuple[tuple[Callable[[], Program], int], ...] = (
    (staged_reversal, 1),
    (staged_in_a_loop, 2),
    (two_stages_in_a_loop, 2),
    (block_sums_of_a_tile, 2),
)


def run(program: Program, kernel: Kernel) -> None:
    shapes = {
        t.name: tuple(
            int(axis.extent.value) for axis in t.shape_axes if isinstance(axis.extent, Const)
        )
        for t in program.fusion.input_tensors
    }
    inputs = random_inputs(program.fusion, shapes)
    launched(program.fusion, kernel, inputs, values_of(program.fusion, inputs))


def barriers(kernel: Kernel) -> list[Synchronize]:
    return [s for s in walk(kernel.body) if isinstance(s, Synchronize)]


def without_each(statements: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    """The statements with one barrier left out, for every barrier among them."""
    for position, statement in enumerate(statements):
        before, after = statements[:position], statements[position + 1 :]
        if isinstance(statement, Synchronize):
            yield (*before, *after)
        elif isinstance(statement, For):
            for body in without_each(statement.body):
                yield (*before, replace(statement, body=body), *after)


@pytest.mark.parametrize(("make", "count"), PROGRAMS, ids=[p[0].__name__ for p in PROGRAMS])
def test_right_with_these_barriers(make: Callable[[], Program], count: int) -> None:
    program = make()
    kernel = lowered(program)
    assert len(barriers(kernel)) == count
    run(program, kernel)


@pytest.mark.parametrize("make", [p[0] for p in PROGRAMS])
def test_each_barrier_is_needed(make: Callable[[], Program]) -> None:
    program = make()
    kernel = lowered(program)
    bodies = list(without_each(kernel.body))
    assert len(bodies) == len(barriers(kernel))
    for body in bodies:
        with pytest.raises(Fault, match="race"):
            run(program, replace(kernel, body=body))


def test_padding_changes_no_result() -> None:
    program = staged_reversal(padding=1)
    kernel = lowered(program)
    assert [int(b.size.value) for b in kernel.shared if isinstance(b.size, Const)] == [40]
    run(program, kernel)


def test_registers_need_no_barrier() -> None:
    p = Program()
    p.output(p.op("exp", p.op("neg", p.input(DataType.Float, (8,)))))
    inline_most(p.fusion)
    kernel = build(p.fusion, "test", DataType.Int32, target=H200)
    assert order(kernel) is kernel


def test_running_the_pass_again_changes_nothing() -> None:
    for make, _ in PROGRAMS:
        kernel = order(build(make().fusion, "test", DataType.Int32, target=H200))
        assert order(kernel) is kernel


def test_barrier_under_a_condition_is_found() -> None:
    condition = less(Symbol("n", low=0), index(4))
    barrier = If(condition, (Synchronize("never"),))
    kernel = kernel_of(barrier)
    assert meets_partly(kernel)
    assert not meets_partly(replace(kernel, body=barrier.body))


def test_shared_memory_under_a_condition_is_ordered_outside_of_it() -> None:
    shared = Buffer("S", DataType.Float, MemoryType.shared, index(4))
    register = Buffer("R", DataType.Float, MemoryType.local, index(1))
    n = Symbol("n", low=0)
    write = If(less(n, index(3)), (Store(shared, n, Const(1.0, DataType.Float)),))
    read = If(less(n, index(2)), (Store(register, index(0), Element(shared, index(3))),))
    ordered = order(kernel_of(write, read, scalars=(n,), shared=(shared,)))
    assert ordered.body == (write, Synchronize("S is written"), read)
