"""The interpreter that other tests rely on objects to every kind of wrong kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.interpreter import run_kernel
from tests.support.memory import Fault, Memory
from tests.support.summing import FLOAT_SUM, added
from warpsmith.ir import integers
from warpsmith.ir.carry import moments
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.kernel.kernel import Kernel, Launch
from warpsmith.kernel.nodes import (
    Buffer,
    CopyVector,
    Declare,
    Element,
    For,
    If,
    Statement,
    Store,
    Synchronize,
)
from warpsmith.kernel.reductions import Accumulate, Reduce, WelfordStep

THREADS = 8
ZERO, ONE = integers.ZERO, integers.ONE
THREAD = Symbol("block_x", extent=integers.index(THREADS))
BLOCK = Symbol("grid_x", extent=integers.index(2))


def buffer(name: str, memory: MemoryType, size: int, dtype: DataType = DataType.Float) -> Buffer:
    return Buffer(name, dtype, memory, integers.index(size), name != "X")


X = buffer("X", MemoryType.global_, 16)
Y = buffer("Y", MemoryType.global_, 16)
S = buffer("S", MemoryType.shared, 8)
R = buffer("R", MemoryType.local, 4)
PLACE = integers.add(integers.mul(BLOCK, THREADS), THREAD)
FAR = Apply("mul", (PLACE, Const(2**30)), DataType.Index)
WIDE = Apply("mod", (FAR, Const(16)), DataType.Index)
"""Always 0, by way of numbers that 32 bits cannot hold; the constructors would see it."""


def value(number: float) -> Const:
    return Const(number, DataType.Float)


def run(*body: Statement, index_type: DataType = DataType.Int32, **fields: object) -> np.ndarray:
    """Y after two blocks of 8 threads ran the body; X counts from 0."""
    kernel = Kernel(
        name="test",
        parameters=(X, Y),
        scalars=(),
        shared=(S,),
        body=body,
        launch=Launch((integers.index(2), ONE, ONE), (integers.index(THREADS), ONE, ONE)),
        index_type=index_type,
    )
    memory = {"X": Memory(X, 1, 16), "Y": Memory(Y, 1, 16)}
    memory["X"].data[:], memory["X"].defined[:] = np.arange(16), True
    run_kernel(replace(kernel, **fields), {}, memory)
    return memory["Y"].data


def copy_of(source: Expr = PLACE, target: Expr = PLACE) -> Store:
    return Store(Y, target, Element(X, source))


def test_a_copy_is_right() -> None:
    assert run(copy_of()).tolist() == list(range(16))


def test_a_condition_leaves_the_others_alone() -> None:
    half = run(If(integers.less(THREAD, 4), (copy_of(),)))
    assert half.tolist() == [0, 1, 2, 3, 0, 0, 0, 0, 8, 9, 10, 11, 0, 0, 0, 0]


def faults() -> dict[str, tuple[Statement, ...]]:
    other = integers.mod(integers.add(THREAD, 1), THREADS)
    write, read = Store(S, THREAD, value(1.0)), Store(Y, PLACE, Element(S, other))
    declared = Declare(R)
    return {
        "X\\[1 .. 16\\] is out of its 16 elements": (copy_of(integers.add(PLACE, 1)),),
        "Y\\[0\\] is written by two threads": (Store(Y, THREAD, value(1.0)),),
        "Y\\[0\\] is written a second time": (copy_of(), copy_of()),
        "X is an input and is written": (Store(X, PLACE, value(1.0)),),
        "Y\\[0\\] gets a value that was never computed": (
            declared,
            Store(Y, PLACE, Element(R, ZERO)),
        ),
        "S\\[1\\] RAW: read without a barrier": (write, read),
        "S\\[0\\] WAR: written without": (write, Synchronize(), read, Store(S, THREAD, value(2.0))),
        "S\\[0\\] WAW: gets two values at once": (
            Store(S, ZERO, Apply("cast", (THREAD,), DataType.Float)),
        ),
        "S is updated by two threads at once": (
            Store(S, ZERO, value(0.0)),
            Synchronize(),
            added(S, ZERO, value(1.0)),
        ),
        "is not aligned to 4 elements": (
            declared,
            CopyVector(R, ZERO, X, integers.mul(THREAD, 2), 4),
        ),
        "X is moved by 16 bytes, and aligned to 1": (
            declared,
            CopyVector(R, ZERO, X, ZERO, 4),
        ),
        "Synchronize is reached by some threads only": (
            If(integers.less(THREAD, 4), (Synchronize(),)),
        ),
        "is DataType.Int, and Y is DataType.Float": (Store(Y, PLACE, Const(1, DataType.Int)),),
        "beyond the index type": (copy_of(WIDE),),
        "Synchronize is reached by some threads": (
            For(Symbol("i", extent=THREAD), THREAD, (Synchronize(),), unroll=False),
        ),
        "the condition .* was never computed": (
            Declare(flag := buffer("F", MemoryType.local, 1, DataType.Bool)),
            If(Element(flag, ZERO), (copy_of(),)),
        ),
    }


@pytest.mark.parametrize("words", faults())
def test_a_wrong_kernel_is_a_fault(words: str) -> None:
    with pytest.raises(Fault, match=words):
        run(*faults()[words])


def test_wide_indices_are_right_in_64_bits() -> None:
    assert not run(copy_of(WIDE), index_type=DataType.Int).any()


def test_a_broken_requirement_is_a_fault() -> None:
    with pytest.raises(Fault, match="the launch needs 6 to be a multiple of 4"):
        run(copy_of(), requirements=((integers.index(6), 4),))


def reduction(grid: bool, scratch: int = 8, workspace: int = 16) -> tuple[Statement, ...]:
    """Sums over a block, or over both; thread 0 stores the result."""
    last = Symbol("last", DataType.Bool)
    reduce = Reduce(
        FLOAT_SUM, (R,), ZERO, 1, (ParallelType.block_x,), buffer("C", MemoryType.shared, scratch)
    )
    store = (Store(Y, PLACE, Element(R, ZERO)),)
    first = Apply("eq", (THREAD, ZERO), DataType.Bool)
    if not grid:
        return Declare(R), Store(R, ZERO, Element(X, PLACE)), reduce, If(first, store)
    reduce = replace(
        reduce,
        grid_axes=(ParallelType.grid_x,),
        last=last,
        workspace=buffer("W", MemoryType.global_, workspace),
        semaphore=buffer("A", MemoryType.global_, 1, DataType.Int32),
    )
    test = integers.conjunction(last, first)
    return Declare(R), Store(R, ZERO, Element(X, PLACE)), reduce, If(test, store)


def test_reduction_over_a_block() -> None:
    assert run(*reduction(grid=False))[[0, 8]].tolist() == [28, 92]


def test_threads_other_than_the_first_have_no_result_where_it_is_theirs() -> None:
    *body, reduce, final = reduction(grid=False)
    assert isinstance(reduce, Reduce)
    assert isinstance(final, If)
    narrow = replace(reduce, first=True)
    assert run(*body, narrow, final)[[0, 8]].tolist() == [28, 92]
    with pytest.raises(Fault, match="gets a value that was never computed"):
        run(*body, narrow, *final.body)


def test_reduction_over_the_grid_is_whole_in_one_block() -> None:
    result = run(*reduction(grid=True))
    assert sorted(result[[0, 8]].tolist()) == [0, 120]


def test_blocks_that_do_not_arrive_last_have_no_result() -> None:
    *body, final = reduction(grid=True)
    first = Apply("eq", (THREAD, ZERO), DataType.Bool)
    assert isinstance(final, If)
    with pytest.raises(Fault, match="gets a value that was never computed"):
        run(*body, If(first, final.body))


def test_workspace_that_is_too_small() -> None:
    with pytest.raises(Fault, match="W has 1 elements, and 2 are needed"):
        run(*reduction(grid=True, workspace=1))


def test_welford_by_steps_and_merges() -> None:
    mean, m2, count = (buffer(name, MemoryType.local, 2) for name in ("M", "V", "N"))
    start = [Store(b, Const(k), value(0.0)) for b in (mean, m2, count) for k in range(2)]
    steps = [WelfordStep(mean, m2, count, ZERO, ZERO, (value(float(x)),)) for x in (1, 2, 6)]
    joined = WelfordStep(mean, m2, count, ONE, ONE, (value(3.0), value(8.0)), joined=True)
    part = tuple(Element(b, ONE) for b in (mean, m2, count))
    merge = Accumulate(moments(DataType.Float), (mean, m2, count), ZERO, part)
    variance = Apply("div", (Element(m2, ZERO), Element(count, ZERO)), DataType.Float)
    body = [*map(Declare, (mean, m2, count)), *start, *steps, joined, merge]
    found = run(*body, Store(Y, PLACE, variance))
    np.testing.assert_allclose(found, np.var([1, 2, 6, 3, 8]), rtol=1e-6)
