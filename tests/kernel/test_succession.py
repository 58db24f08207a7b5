"""Kernels that start early: their statements, where passes put them, and what must come last."""

from dataclasses import replace

import pytest

from tests.support.by_hand import kernel_of, launch_of
from tests.support.role_kernels import chained, streaming
from tests.support.role_kernels import check as simulate
from tests.support.summing import FLOAT_SUM
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.groups import Groups
from warpsmith.ir.scalar import Symbol
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import (
    Buffer,
    CopyVector,
    Declare,
    Element,
    For,
    If,
    Let,
    Statement,
    Store,
)
from warpsmith.kernel.printer import kernel_text
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.succession import AdmitNext, AwaitPrevious, touched_globally
from warpsmith.lower.passes.overlap_launches import admit_next, start_early

THREADS, ONE = 8, integers.ONE
THREAD = Symbol("block_x", extent=integers.index(THREADS))
BLOCK = Symbol("grid_x", extent=integers.index(2))
PLACE = integers.add(integers.mul(BLOCK, THREADS), THREAD)

X = Buffer("X", DataType.Float, MemoryType.global_, integers.index(16), False)
Y = Buffer("Y", DataType.Float, MemoryType.global_, integers.index(16))
PARTS = Buffer("T1_parts", DataType.Float, MemoryType.global_, integers.index(8))
ARRIVALS = Buffer("T1_arrivals", DataType.Int32, MemoryType.global_, integers.index(1))
SCRATCH = Buffer("T1_scratch", DataType.Float, MemoryType.shared, integers.index(8))
LANES = Buffer("R", DataType.Float, MemoryType.local, integers.index(4))
I = Symbol("i", low=0)  # noqa: E741

MOVE = Store(Y, PLACE, Element(X, PLACE))
ACROSS = Reduce(
    carry=FLOAT_SUM,
    buffers=(LANES,),
    index=integers.ZERO,
    elements=1,
    block_axes=(ParallelType.block_x,),
    scratch=SCRATCH,
    grid_axes=(ParallelType.grid_x,),
    last=Symbol("last", DataType.Bool),
    workspace=PARTS,
    semaphore=ARRIVALS,
)


def kernel(*body: Statement) -> Kernel:
    return kernel_of(*body, parameters=(X, Y), launch=launch_of(THREADS, blocks=2))


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        (MOVE, ("X", "Y")),
        (For(I, integers.index(4), (If(integers.less(THREAD, 4), (MOVE,)),), False), ("X", "Y")),
        (Let(Symbol("first", DataType.Float), Element(X, BLOCK)), ("X",)),
        (Let(I, Groups(("X", ONE), BLOCK, THREAD).of_part(BLOCK, integers.ONE)), ("X",)),
        (CopyVector(LANES, integers.ZERO, X, integers.ZERO, 4, streaming=True), ("X",)),
        (ACROSS, ("T1_parts", "T1_arrivals")),
        (replace(ACROSS, workspace=None, semaphore=None), ()),
        (Store(LANES, integers.ZERO, Element(LANES, integers.ONE)), ()),
        *((each(), ()) for each in (AwaitPrevious, AdmitNext)),
    ],
)
def test_what_touches_global_memory(statement: Statement, names: tuple[str, ...]) -> None:
    assert touched_globally(statement) == names


def test_copies_by_the_tma_unit_touch_it() -> None:
    branches = [s for s in chained().kernel.body if isinstance(s, Branch)]
    assert {name for s in branches for name in touched_globally(s)} == {"T0", "T1"}


def test_the_wait_stands_right_before_what_touches_global_memory() -> None:
    own = (Declare(LANES), Store(LANES, integers.ZERO, Element(LANES, integers.ONE)))
    early = start_early(kernel(*own, MOVE, MOVE))
    assert early.early
    assert early.body == (*own, AwaitPrevious(), MOVE, MOVE)
    assert start_early(early) is early
    assert start_early(kernel(*own)).body == (*own, AwaitPrevious())


def test_roles_part_behind_the_wait_and_barriers_are_made_before() -> None:
    plain = streaming().kernel
    body = start_early(plain).body
    first = next(n for n, s in enumerate(plain.body) if isinstance(s, Branch))
    assert first > 0
    assert body == (*plain.body[:first], AwaitPrevious(), *plain.body[first:])
    assert start_early(plain, settled=("T0",)).body == body


def test_the_next_one_is_admitted_first_of_all() -> None:
    admitting = admit_next(kernel(MOVE))
    assert admitting.body == (AdmitNext(), MOVE)
    assert not admitting.early
    assert admit_next(admitting) is admitting


def test_text() -> None:
    text = kernel_text(admit_next(start_early(kernel(MOVE))))
    assert "  admit the next kernel\n  await the kernel before\n  Y[" in text


@pytest.mark.parametrize("make", [streaming, chained])
def test_kernels_with_roles_run_as_before(make: object) -> None:
    case = make()  # type: ignore[operator]
    simulate(replace(case, kernel=admit_next(start_early(case.kernel))), schedules=2)
