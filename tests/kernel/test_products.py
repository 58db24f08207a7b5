"""Products of matrices in the Kernel form: walks over their statements, and their text."""

from dataclasses import replace

from tests.support import plain_products as plain
from warpsmith.ir import integers
from warpsmith.ir.scalar import Const, Symbol
from warpsmith.kernel.nodes import Element, For, Statement, Store
from warpsmith.kernel.printer import kernel_text
from warpsmith.kernel.products import (
    AwaitProducts,
    CommitProducts,
    FenceProducts,
    MatrixTile,
    Multiply,
    StoreMatrix,
)
from warpsmith.kernel.traversal import expressions, read, replace_symbols, walk, written
from warpsmith.layouts.descriptors import packed_rows
from warpsmith.lower.pipelines.stages import moved


def first(kind: type[Statement]) -> Statement:
    return next(each for each in walk(plain.plain_body()) if isinstance(each, kind))


MULTIPLY = first(Multiply)
STORE = first(StoreMatrix)
assert isinstance(MULTIPLY, Multiply)
assert isinstance(STORE, StoreMatrix)


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
