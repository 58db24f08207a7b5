"""Products of matrices in the Kernel form: what they mean, and walks over them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support import plain_products as plain
from tests.support.interpreter import run_kernel
from tests.support.memory import Fault, Memory
from tests.support.plain_products import Body
from warpsmith.ir import integers
from warpsmith.ir.scalar import Const, Symbol
from warpsmith.kernel.nodes import Element, For, If, Statement, Store, Synchronize
from warpsmith.kernel.printer import kernel_text
from warpsmith.kernel.products import (
    AwaitProducts,
    CommitProducts,
    FenceProducts,
    MatrixTile,
    Multiply,
    StoreMatrix,
)
from warpsmith.kernel.rings import FenceProxy
from warpsmith.kernel.traversal import expressions, read, replace_symbols, walk, written
from warpsmith.layouts.descriptors import packed_rows
from warpsmith.lower.pipelines.stages import moved


def run(body: Body) -> np.ndarray:
    """What the interpreter leaves in D."""
    a, b, _ = plain.plain_inputs()
    memory = {}
    for buffer, given in ((plain.A, a), (plain.B, b), (plain.D, None)):
        size = integers.constant(buffer.size)
        assert size is not None
        memory[buffer.name] = Memory(buffer, 1, size)
        if given is not None:
            memory[buffer.name].data[:] = given.reshape(-1)
            memory[buffer.name].defined[:] = True
    run_kernel(plain.plain_kernel(body), {}, memory)
    return memory["D"].data.reshape(plain.ROWS, plain.COLUMNS)


def test_the_interpreter_multiplies() -> None:
    np.testing.assert_array_equal(run(plain.plain_body()), plain.plain_inputs()[2])


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        (FenceProxy(), "shared_a was written, and no proxy fence stands before"),
        (Synchronize("operands are there"), "shared_a.* RAW"),
        (Synchronize("operands were read"), "shared_a.* WAR"),
        (FenceProducts(), "sums was accessed, and no fence stands before"),
        (CommitProducts(), "shared_a.* WAR"),
        (AwaitProducts(0, (plain.SUMS,)), "shared_a.* WAR"),
        (Synchronize("the result is there"), "shared_d.* RAW"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Statement) else "",
)
def test_what_is_missing_is_found(statement: Statement, fault: str) -> None:
    with pytest.raises(Fault, match=fault):
        run(plain.replaced(plain.plain_body(), statement))


def first(kind: type[Statement]) -> Statement:
    return next(each for each in walk(plain.plain_body()) if isinstance(each, kind))


MULTIPLY = first(Multiply)
STORE = first(StoreMatrix)
assert isinstance(MULTIPLY, Multiply)
assert isinstance(STORE, StoreMatrix)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (AwaitProducts(0, (plain.SUMS,)), AwaitProducts(0), "sums is accessed"),
        (
            MULTIPLY,
            replace(MULTIPLY, a=replace(MULTIPLY.a, index=plain.X)),
            "a warp group disagree about where shared_a starts",
        ),
        (
            MULTIPLY,
            replace(MULTIPLY, a=replace(MULTIPLY.a, index=Const(4))),
            "shared_a starts at no multiple of 16 bytes",
        ),
        (MULTIPLY, replace(MULTIPLY, a=replace(MULTIPLY.a, index=Const(512))), "shared_a.* is out"),
        (MULTIPLY, replace(MULTIPLY, columns=264), "no product has 264 columns"),
        (MULTIPLY, If(integers.less(plain.X, 64), (MULTIPLY,)), "is reached by some threads only"),
        (
            STORE,
            replace(STORE, target_index=integers.add(STORE.target_index, 2)),
            "a row of shared_d starts at no multiple of 16 bytes",
        ),
    ],
    ids=["wait names nothing", "apart", "unaligned", "outside", "columns", "some", "row"],
)
def test_what_is_wrong_is_found(old: Statement, new: Statement, fault: str) -> None:
    with pytest.raises(Fault, match=fault):
        run(plain.replaced(plain.plain_body(), old, new))


def test_the_swizzle_counts() -> None:
    tiles = (replace(MULTIPLY.a, descriptor=packed_rows(32)), MULTIPLY.b)
    wrong = run(
        plain.replaced(plain.plain_body(), MULTIPLY, replace(MULTIPLY, a=tiles[0], b=tiles[1]))
    )
    assert not np.array_equal(wrong, plain.plain_inputs()[2])


# --- walks -------------------------------------------------------------------------------------


def test_walks_know_what_products_hold() -> None:
    assert expressions(MULTIPLY) == (
        MULTIPLY.index,
        MULTIPLY.a.index,
        MULTIPLY.b.index,
        MULTIPLY.keep,
    )
    assert read(MULTIPLY) == (plain.SUMS, plain.SHARED_A, plain.SHARED_B)
    assert written(MULTIPLY) == (plain.SUMS,)
    assert (read(STORE), written(STORE)) == ((plain.ROUNDED,), (plain.SHARED_D,))
    wait = AwaitProducts(1, (plain.SUMS,))
    assert (read(wait), written(wait)) == ((plain.SUMS,), (plain.SUMS,))
    assert (read(FenceProducts()), written(CommitProducts())) == ((), ())


def test_symbols_are_replaced_in_products() -> None:
    part = Symbol("p", low=0)
    moved = replace_symbols(For(part, Const(2), (MULTIPLY, STORE), unroll=True), {part: Const(1)})
    assert isinstance(moved, For)
    multiply, store = moved.body
    assert isinstance(multiply, Multiply)
    assert isinstance(store, StoreMatrix)
    assert (multiply.a.index, multiply.b.index) == (Const(16), Const(16))
    assert store.source_index == Const(8)
    assert all(part not in expr.walk() for each in moved.body for expr in expressions(each))


def test_stages_move_operands_and_rows() -> None:
    stage = Symbol("stage", low=0)
    offsets = {"shared_a": integers.mul(stage, 2048), "shared_d": integers.mul(stage, 4096)}
    multiply, store = moved((MULTIPLY, STORE), offsets)
    a = replace(MULTIPLY.a, index=integers.add(MULTIPLY.a.index, offsets["shared_a"]))
    assert multiply == replace(MULTIPLY, a=a)
    row = integers.add(STORE.target_index, offsets["shared_d"])
    assert store == replace(STORE, target_index=row)


def test_stages_move_elements_in_a_matrix_store() -> None:
    index = Element(plain.SHARED_A, Const(3))
    tile = MatrixTile(plain.SHARED_B, index, packed_rows(64))
    (there,) = moved((replace(MULTIPLY, a=tile),), {"shared_a": Const(7)})
    assert isinstance(there, Multiply)
    assert there.a.index == Element(plain.SHARED_A, Const(10))


def test_products_are_printed() -> None:
    body = (
        replace(
            MULTIPLY,
            a=replace(MULTIPLY.a, index=Const(16)),
            b=MatrixTile(plain.B, Const(0), packed_rows(64)),
        ),
        FenceProducts(),
        CommitProducts(),
        AwaitProducts(1),
        AwaitProducts(0, (plain.SUMS,)),
        replace(STORE, target_index=Const(8), source_index=Const(0)),
        Store(plain.D, Const(0), Element(plain.A, Const(0))),
    )
    text = kernel_text(plain.plain_kernel(body)).split("shared_d: bfloat16", 1)[1]
    lines = [line.strip() for line in text.splitlines()[1:]]
    assert lines[1:6] == [
        "fence for products",
        "commit products",
        "await products but 1 groups",
        "await products but 0 groups, for sums",
        "shared_d[8 ..] = rounded[0 ..] by stmatrix",
    ]
    assert lines[0].startswith("sums[0 ..] += shared_a[16 ..] x B[0 ..], 32 columns, kept if ")
