"""The tree of statements: what each reads and writes, and rewriting of its expressions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.summing import FLOAT_SUM, added
from warpsmith.ir import integers
from warpsmith.ir.carry import moments
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.kernel.kernel import Reciprocal
from warpsmith.kernel.nodes import (
    Buffer,
    Comment,
    CopyVector,
    Declare,
    Element,
    For,
    If,
    Let,
    Statement,
    Store,
    Synchronize,
)
from warpsmith.kernel.reductions import Accumulate, Reduce, WelfordStep
from warpsmith.kernel.traversal import expressions, map_expressions, read, walk, written

A, B, C, D = (Buffer(name, DataType.Float, MemoryType.shared, integers.index(8)) for name in "ABCD")
N = Symbol("n", low=0)
LOOP = Symbol("i", extent=integers.index(4))
OF_D = Element(D, N)

STATEMENTS: tuple[tuple[Statement, tuple[Buffer, ...], tuple[Buffer, ...]], ...] = (
    (Declare(A), (), ()),
    (Comment("words"), (), ()),
    (Synchronize("words"), (), ()),
    (Let(Symbol("x"), N), (), ()),
    (Store(A, N, OF_D), (A,), (D,)),
    (added(A, N, OF_D), (A,), (D, A)),
    (CopyVector(A, N, B, N, 4), (A,), (B,)),
    (WelfordStep(A, B, C, N, N, (OF_D,)), (A, B, C), (D, A, B, C)),
    (
        Accumulate(moments(DataType.Float), (A, B, C), N, (OF_D, OF_D, OF_D)),
        (A, B, C),
        (D, D, D, A, B, C),
    ),
    (Reduce(FLOAT_SUM, (A,), N, 1, (ParallelType.block_x,), B), (A,), (A,)),
    (For(LOOP, integers.add(N, 1), (Store(A, LOOP, OF_D),), unroll=True), (), ()),
    (If(integers.less(N, 3), (Store(A, N, OF_D),)), (), ()),
)


@pytest.mark.parametrize(("statement", "writes", "reads"), STATEMENTS)
def test_effects(
    statement: Statement, writes: tuple[Buffer, ...], reads: tuple[Buffer, ...]
) -> None:
    assert written(statement) == writes
    assert read(statement) == reads


@pytest.mark.parametrize("statement", [s for s, _, _ in STATEMENTS])
def test_every_expression_is_rewritten(statement: Statement) -> None:
    def doubled(expr: Expr) -> Expr:
        return integers.mul(expr, 2) if expr.dtype is DataType.Index else expr

    before = [e for s in walk((statement,)) for e in expressions(s)]
    after = [e for s in walk((map_expressions(statement, doubled),)) for e in expressions(s)]
    assert after == [doubled(expr) for expr in before]


def test_rewriting_by_nothing_gives_an_equal_tree() -> None:
    for statement, _, _ in STATEMENTS:
        assert map_expressions(statement, lambda expr: expr) == statement


def test_collective_statements() -> None:
    assert {type(s) for s, _, _ in STATEMENTS if s.collective} == {Synchronize, Reduce}


@settings(max_examples=500, deadline=None, derandomize=True, database=None)
@given(st.integers(1, 2**31 - 1), st.integers(0, 2**31 - 1), st.integers(-2, 2))
def test_reciprocal_divides(divisor: int, dividend: int, near: int) -> None:
    """Also at the multiples of the divisor, where a wrong magic number shows."""
    magic, shift = Reciprocal.values(divisor)
    assert -(2**31) <= magic < 2**31
    for x in (dividend, min(max(dividend // divisor * divisor + near, 0), 2**31 - 1)):
        high = (x * (magic % 2**32)) >> 32
        assert (high + x) % 2**32 >> shift == x // divisor


def test_elements_are_equal_by_buffer_and_index() -> None:
    assert Element(A, N) == Element(A, N)
    assert Element(A, N) != Element(B, N)
    assert Element(A, N) != Element(A, Const(0))
