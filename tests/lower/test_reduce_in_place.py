"""What blocks add up stays in the registers in which it was summed, unless something needs both."""

from dataclasses import replace

import pytest

from tests.support.by_hand import kernel_of
from tests.support.summing import FLOAT_SUM
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.kernel import Kernel, Launch
from warpsmith.kernel.nodes import Buffer, CopyVector, Declare, Element, For, Statement, Store
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.traversal import read, walk, written
from warpsmith.lower.passes.reduce_in_place import reduce_in_place

FLOAT, ONE, ZERO, FOUR = DataType.Float, integers.ONE, integers.ZERO, integers.index(4)


def local(name: str, size: Expr = FOUR) -> Buffer:
    return Buffer(name, FLOAT, MemoryType.local, size)


PARTS, SUMS = local("parts"), local("sums")
OUT = Buffer("out", FLOAT, MemoryType.global_, integers.index(64))
SCRATCH = Buffer("scratch", FLOAT, MemoryType.shared, ONE)
ROW, COLUMN = (Symbol(name, low=0, extent=integers.index(2)) for name in ("i", "j"))
REDUCED = Reduce(FLOAT_SUM, (SUMS,), ZERO, 4, (), SCRATCH, (ParallelType.grid_y,))
STORED = CopyVector(OUT, ZERO, SUMS, ZERO, 4)


def copied(source: Buffer, index: Expr, at: Expr | None = None) -> Statement:
    """`for i < 2: for j < 2: sums[index] = source[at]`."""
    store = Store(SUMS, index, Element(source, index if at is None else at))
    inner = For(COLUMN, integers.index(2), (store,), unroll=True)
    return For(ROW, integers.index(2), (inner,), unroll=True)


EACH = integers.add(integers.mul(ROW, 2), COLUMN)
TURNED = integers.add(integers.mul(COLUMN, 2), ROW)
BODY = (Declare(PARTS), Declare(SUMS), copied(PARTS, EACH), REDUCED, STORED)


def passed(*body: Statement) -> Kernel:
    launch = Launch((ONE, FOUR, ONE), (integers.index(32), ONE, ONE))
    return reduce_in_place(kernel_of(*body, launch=launch, parameters=(OUT,), shared=(SCRATCH,)))


def test_a_copy_that_alone_is_used_is_none() -> None:
    body = passed(*BODY).body
    assert body == (
        Declare(PARTS),
        replace(REDUCED, buffers=(PARTS,)),
        replace(STORED, source=PARTS),
    )
    assert SUMS not in [b for s in walk(body) for b in (*read(s), *written(s))]


WIDER = local("wider", integers.index(8))
KEPT: dict[str, tuple[Statement, ...]] = {
    "parts are read again": (*BODY, CopyVector(OUT, FOUR, PARTS, ZERO, 4)),
    "other elements": (*BODY[:2], copied(PARTS, EACH, TURNED), REDUCED, STORED),
    "of some of them": (Declare(WIDER), BODY[1], copied(WIDER, EACH), REDUCED, STORED),
    "some elements twice": (*BODY[:2], copied(PARTS, ROW), REDUCED, STORED),
    "of the block alone": (*BODY[:3], replace(REDUCED, grid_axes=()), STORED),
    "declared elsewhere": (BODY[1], copied(PARTS, EACH), REDUCED, STORED),
}


@pytest.mark.parametrize("body", KEPT.values(), ids=KEPT)
def test_copies_that_are_needed_stay(body: tuple[Statement, ...]) -> None:
    assert passed(*body).body == body
