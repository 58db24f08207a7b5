"""Reductions across threads whose results only the first of these get."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.by_hand import kernel_of, launch_of
from tests.support.summing import FLOAT_SUM
from warpsmith import knobs, ops
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, CopyVector, Element, For, If, Statement, Store
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.traversal import walk
from warpsmith.lower.passes.reduce_to_first import reduce_to_first

FLOAT = DataType.Float
X, Y = Symbol("block_x"), Symbol("block_y")
ONE, ZERO = integers.ONE, integers.ZERO


def local(name: str) -> Buffer:
    return Buffer(name, FLOAT, MemoryType.local, ONE)


SUM, COPY, OTHER = local("sum"), local("copy"), local("other")
OUT = Buffer("out", FLOAT, MemoryType.global_, integers.index(64))
SCRATCH = Buffer("scratch", FLOAT, MemoryType.shared, integers.index(256))
OVER_Y = Reduce(FLOAT_SUM, (SUM,), ZERO, 1, (ParallelType.block_y,), SCRATCH)
STORED = CopyVector(OUT, X, SUM, ZERO, 1)
AGAIN = Reduce(FLOAT_SUM, (COPY,), ZERO, 1, (ParallelType.block_y,), SCRATCH)


def at_zero(symbol: Symbol) -> Expr:
    return Apply("eq", (symbol, ZERO), DataType.Bool)


def inside(symbol: Symbol) -> Expr:
    return Apply("lt", (symbol, integers.index(7)), DataType.Bool)


def copied(target: Buffer, source: Buffer) -> Store:
    return Store(target, ZERO, Element(source, ZERO))


def firsts(*body: Statement, rows: int = 4) -> list[bool]:
    kernel = kernel_of(*body, launch=launch_of(32, rows), parameters=(OUT,), shared=(SCRATCH,))
    return [s.first for s in walk(reduce_to_first(kernel).body) if isinstance(s, Reduce)]


FOR_ALL: dict[str, tuple[Statement, ...]] = {
    "all store": (STORED,),
    "the first along another axis store": (If(at_zero(X), (STORED,)),),
    "those inside store": (If(inside(Y), (STORED,)),),
    "a condition asks for it": (
        If(Apply("lt", (Element(SUM, ZERO), Element(OTHER, ZERO)), DataType.Bool), ()),
    ),
    "all store a copy": (copied(COPY, SUM), CopyVector(OUT, X, COPY, ZERO, 1)),
    "a copy is summed again": (copied(COPY, SUM), AGAIN, If(at_zero(Y), (STORED,))),
    "all store a copy of a copy": (
        copied(COPY, SUM),
        copied(OTHER, COPY),
        CopyVector(OUT, X, OTHER, ZERO, 1),
    ),
    "the first store, and all do": (If(at_zero(Y), (STORED,)), STORED),
}


@pytest.mark.parametrize("name", FOR_ALL)
def test_all_get_what_all_use(name: str) -> None:
    assert not firsts(OVER_Y, *FOR_ALL[name])[0]


def test_the_first_alone_get_what_they_store() -> None:
    assert firsts(OVER_Y, If(at_zero(Y), (STORED,))) == [True]
    assert firsts(OVER_Y, If(integers.conjunction(inside(X), at_zero(Y)), (STORED,))) == [True]
    assert firsts(OVER_Y, If(inside(X), (If(at_zero(Y), (STORED,)),))) == [True]


def test_copies_that_the_first_store_are_theirs_too() -> None:
    stored = If(at_zero(Y), (CopyVector(OUT, X, OTHER, ZERO, 1),))
    assert firsts(OVER_Y, copied(COPY, SUM), copied(OTHER, COPY), stored) == [True]


def test_in_a_loop_all_get_it() -> None:
    loop = For(Symbol("i"), integers.index(3), (OVER_Y, If(at_zero(Y), (STORED,))), False)
    assert firsts(loop) == [False]


def test_one_row_of_threads_is_left_alone() -> None:
    assert firsts(OVER_Y, STORED, rows=1) == [False]


def compiled(program: Callable[..., Any], x: np.ndarray) -> Kernel:
    (kernel,) = warpsmith.fuse(program).lower(x).compile().kernels
    return kernel.kernel


REDUCED: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: ops.sum(x, [0]),
    "prod": lambda x: ops.prod(x, [0]),
    "max": lambda x: ops.max(x, [0]),
    "two": lambda x: (ops.sum(x, [0]), ops.sum(x * x, [0])),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", REDUCED)
def test_columns_are_right(name: str, dtype: type) -> None:
    """Of few columns, so that threads side by side add them up."""
    x = (1 + np.random.default_rng(0).standard_normal((300, 64)) / 32).astype(dtype)
    (reduce, *_) = (s for s in walk(compiled(REDUCED[name], x).body) if isinstance(s, Reduce))
    assert reduce.first
    with knobs.scope(device="sim"):
        found = warpsmith.fuse(REDUCED[name])(x)
    wide = x.astype(np.float64)
    expected = {
        "sum": (wide.sum(0),),
        "prod": (wide.prod(0),),
        "max": (wide.max(0),),
        "two": (wide.sum(0), (wide * wide).sum(0)),
    }[name]
    results = found if isinstance(found, tuple) else (found,)
    for got, want in zip(results, expected, strict=True):
        np.testing.assert_allclose(np.asarray(got), want, 1e-4 if dtype is np.float32 else 1e-12)


def test_what_all_subtract_all_get() -> None:
    x = np.ones((300, 64), np.float32)
    kernel = compiled(lambda x: x - ops.sum(x, [0], keepdim=True), x)
    found = [s for s in walk(kernel.body) if isinstance(s, Reduce)]
    assert found
    assert not any(reduce.first for reduce in found)
