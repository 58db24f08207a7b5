"""Passes on kernels with roles: each branch is a scope of its own."""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest

from tests.support.passing import meets_partly
from tests.support.role_kernels import CASES, RoleCase, check, streaming
from tests.support.role_parts import SIZE, kernel_of, memory, single, thread
from warpsmith.codegen.cuda import cuda_text
from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Element, For, If, Let, Statement, Store, Synchronize
from warpsmith.kernel.reductions import WelfordStep
from warpsmith.kernel.rings import Advance, ArriveByWarp, Await, Begin, Cursor
from warpsmith.kernel.traversal import walk
from warpsmith.lower.passes.batch_welford import batch_welford
from warpsmith.lower.passes.collect_maps import collect_maps
from warpsmith.lower.passes.derive_scalars import derive_scalars
from warpsmith.lower.passes.hoist import hoist_indices
from warpsmith.lower.passes.lay_out_shared import lay_out_shared
from warpsmith.lower.passes.multiply_divisions import multiply_divisions
from warpsmith.lower.passes.order import order
from warpsmith.lower.passes.overlay_shared import overlay_shared
from warpsmith.lower.passes.split_full_passes import split_full_passes
from warpsmith.targets.hopper import H200

PASSES: tuple[Callable[[Kernel], Kernel], ...] = (
    order,
    overlay_shared,
    split_full_passes,
    batch_welford,
    multiply_divisions,
    hoist_indices,
    derive_scalars,
    collect_maps,
)

ROLE = Agent("work", 4, (Const(64), Const(2), Const(1)), barrier=1)
OTHER = Agent("more", 8, (Const(64), Const(2), Const(1)), barrier=2)
OUT = memory("T0", written=True)
ZERO = Const(0.0, DataType.Float)
LOOP = Symbol("i0", low=0)
DIVISOR = Symbol("columns", low=1)


def passed(kernel: Kernel) -> Kernel:
    """The kernel after all passes, with the scalars that they added."""
    result = reduce(lambda k, each: each(k), PASSES, kernel)
    known = [symbol for symbol, _ in result.derived]
    known += [s for each in result.reciprocals for s in (each.magic, each.shift)]
    return replace(result, scalars=(*result.scalars, *known))


def branch(*body: Statement, agent: Agent = ROLE) -> Branch:
    return Branch(agent, body)


def kernel(*branches: Branch, shared: tuple[Buffer, ...] = ()) -> Kernel:
    return replace(kernel_of((OUT,), (), branches), shared=shared)


def bodies(kernel: Kernel) -> list[tuple[Statement, ...]]:
    return [s.body for s in kernel.body if isinstance(s, Branch)]


def stored(index: Expr) -> Store:
    return Store(OUT, index, ZERO)


@pytest.mark.few(4)
@pytest.mark.parametrize("name", CASES)
def test_kernels_stay_clean_and_right(name: str) -> None:
    case = CASES[name]()
    check(replace(case, kernel=passed(case.kernel)))


# --- hoisting ----------------------------------------------------------------------------------


def quotient(of: Expr, by: Expr | int = DIVISOR) -> Expr:
    return integers.floordiv(of, by)


def test_what_depends_on_a_roles_threads_stays_in_its_branch() -> None:
    row = quotient(thread("x", ROLE))
    before = kernel(branch(stored(row)), branch(stored(row), agent=OTHER))
    after = hoist_indices(before)
    assert not [s for s in after.body if isinstance(s, Let)]
    for body in bodies(after):
        let, store = body
        assert isinstance(let, Let)
        assert let.value == row
        assert store == stored(let.symbol)


def test_what_sizes_decide_leaves_the_branches_and_the_kernel() -> None:
    rows = quotient(SIZE)
    loop = For(LOOP, rows, (stored(LOOP),), unroll=False)
    after = hoist_indices(kernel(branch(loop), branch(loop, agent=OTHER)))
    (let,) = [s for s in after.body if isinstance(s, Let)]
    assert let.value == rows
    assert [body[0].extent for body in bodies(after)] == [let.symbol, let.symbol]  # type: ignore[attr-defined]
    derived = derive_scalars(after)
    assert derived.derived == ((let.symbol, rows),)
    assert not any(isinstance(s, Let) for s in walk(derived.body))


def test_places_in_rings_stay_behind_their_begin() -> None:
    cursor = Cursor("ring0_use", 4)
    index = quotient(integers.add(cursor.stage, SIZE))
    body = (Begin(cursor), For(LOOP, SIZE, (stored(index), Advance(cursor)), unroll=False))
    after = hoist_indices(kernel(branch(*body)))
    assert bodies(after) == [body]


def test_what_a_role_lets_be_something_is_not_used_before() -> None:
    named = Symbol("part", low=0)
    index = quotient(named)
    body = (Let(named, integers.mul(thread("x", ROLE), 3)), If(integers.TRUE, (stored(index),)))
    after = hoist_indices(kernel(branch(*body)))
    assert not [s for s in after.body if isinstance(s, Let)]
    ((first, then),) = bodies(after)
    assert first == body[0]
    assert isinstance(then, If)
    assert isinstance(then.body[0], Let)


def test_a_name_that_two_roles_have_is_no_parameter() -> None:
    name = Symbol("count", low=0)
    roles = (
        branch(Let(name, integers.add(SIZE, 1)), stored(name)),
        branch(Let(name, integers.add(SIZE, 2)), stored(name), agent=OTHER),
    )
    assert derive_scalars(kernel(*roles)) == kernel(*roles)
    alone = derive_scalars(kernel(roles[0]))
    assert alone.derived == ((name, integers.add(SIZE, 1)),)
    assert bodies(alone) == [(stored(name),)]


# --- divisions ---------------------------------------------------------------------------------


def test_divisors_are_known_to_the_launch() -> None:
    cursor = Cursor("ring0_use", 4)
    x = thread("x", ROLE)
    by_size, by_place = quotient(x), quotient(x, integers.add(cursor.stage, 1))
    after = multiply_divisions(kernel(branch(Begin(cursor), stored(by_size), stored(by_place))))
    assert [each.divisor for each in after.reciprocals] == [DIVISOR]
    assert bodies(after)[0][2] == stored(by_place)


# --- barriers ----------------------------------------------------------------------------------

SHARED = Buffer("T9", DataType.Float, MemoryType.shared, Const(128))


def exchange(agent: Agent = ROLE) -> tuple[Statement, ...]:
    x = thread("x", agent)
    return (Store(SHARED, x, ZERO), Store(OUT, x, Element(SHARED, integers.sub(63, x))))


def test_threads_of_a_role_meet_inside_its_branch() -> None:
    after = order(kernel(branch(*exchange()), shared=(SHARED,)))
    ((write, meeting, read),) = bodies(after)
    assert (write, read) == exchange()
    assert isinstance(meeting, Synchronize)
    assert [s for s in after.body if isinstance(s, Synchronize)] == [
        Synchronize("barriers are ready")
    ]
    assert not meets_partly(after)


@pytest.mark.parametrize(
    ("threads", "meeting", "mechanism"),
    [
        (32, "__syncwarp();", "__syncwarp"),
        (64, "ws_meet(1, 64);", "named barrier 1"),
    ],
)
def test_the_threads_of_one_warp_meet_without_a_barrier(
    threads: int, meeting: str, mechanism: str
) -> None:
    agent = Agent("work", 4, (Const(threads), Const(1), Const(1)), barrier=1)
    x, source = thread("x", agent), memory("T1")
    write = Store(SHARED, x, Element(source, x))
    read = Store(OUT, x, Element(SHARED, integers.sub(threads - 1, x)))
    made = replace(
        kernel_of((OUT, source), (), (branch(write, read, agent=agent),)), shared=(SHARED,)
    )
    after = lay_out_shared(order(made))
    (edge,) = [each for each in after.orders if each.buffer == SHARED.name]
    assert edge.mechanism == mechanism
    assert f"{meeting}  // T9 is written" in cuda_text(after, H200)
    values = np.arange(threads, dtype=np.float32)
    check(RoleCase(after, {"size": threads}, {"T1": values}, {"T0": values[::-1].copy()}))
    body = bodies(after)[0]
    lost = replace(after, body=(*after.body[:-1], branch(body[0], body[2], agent=agent)))
    with pytest.raises(AssertionError, match="race"):
        check(RoleCase(lost, {"size": threads}, {"T1": values}, {"T0": values[::-1].copy()}))


def test_one_thread_meets_nobody() -> None:
    alone = kernel(branch(*exchange(), agent=single("alone", 0)), shared=(SHARED,))
    assert order(alone) == alone


def test_memory_does_not_pass_between_roles_without_a_ring() -> None:
    write, read = exchange()
    with pytest.raises(InternalError, match="T9 passes from work to more, and no ring guards it"):
        order(kernel(branch(write), branch(read, agent=OTHER), shared=(SHARED,)))
    with pytest.raises(InternalError, match="T9 passes from more to work"):
        order(kernel(branch(read), branch(write, agent=OTHER), shared=(SHARED,)))


def test_a_condition_of_threads_holds_no_meeting_of_a_role() -> None:
    inside = If(integers.less(thread("x", ROLE), 3), (Synchronize(""),))
    assert meets_partly(kernel(branch(inside)))
    assert not meets_partly(kernel(branch(replace(inside, uniform=True))))


def test_buffers_of_roles_are_alive_together() -> None:
    first, second = (replace(SHARED, name=n, size=Const(4096), guarded=True) for n in ("A", "B"))
    before = kernel(
        branch(Store(first, integers.ZERO, ZERO)),
        branch(Store(second, integers.ZERO, ZERO), agent=OTHER),
        shared=(first, second),
    )
    assert overlay_shared(before) is before


# --- loops -------------------------------------------------------------------------------------


def loops(body: tuple[Statement, ...]) -> list[For]:
    return [s for s in body if isinstance(s, For)]


def predicated(*more: Statement, by: Expr = integers.ZERO) -> For:
    """A loop over rows of 256 elements, which may run past the end."""
    index = integers.add(integers.mul(LOOP, 256), by)
    inside = If(integers.less(index, SIZE), (stored(index),))
    return For(LOOP, integers.ceildiv(SIZE, 64), (inside, *more), unroll=False)


def test_full_passes_of_a_role_are_split_with_their_waits() -> None:
    cursor, full, empty = Cursor("ring0_use", 4), *streaming().kernel.shared[1:3]
    around = (
        Await(full, cursor.stage, cursor.phase),
        ArriveByWarp(empty, cursor.stage),
        Advance(cursor),
    )
    after = split_full_passes(kernel(branch(Begin(cursor), predicated(*around))))
    (body,) = bodies(after)
    first, rest = loops(body)
    assert first.body == (stored(integers.mul(LOOP, 256)), *around)
    assert isinstance(rest.body[0], If)
    assert rest.body[1:] == around
    assert not [s for s in after.body if isinstance(s, For | Let)]


def test_a_loop_in_which_threads_of_a_role_meet_is_not_split() -> None:
    before = kernel(branch(predicated(Synchronize(""))))
    assert split_full_passes(before) == before


def test_conditions_that_differ_in_a_warp_are_not_split_around_a_release() -> None:
    empty = streaming().kernel.shared[2]
    flag = integers.less(integers.mul(thread("x", ROLE), LOOP), SIZE)
    differs = For(
        LOOP, SIZE, (If(flag, (stored(LOOP),)), ArriveByWarp(empty, integers.ZERO)), unroll=False
    )
    before = kernel(branch(differs))
    assert split_full_passes(before) == before


def test_steps_of_a_role_are_batched() -> None:
    triple = tuple(
        replace(SHARED, name=n, memory=MemoryType.local) for n in ("mean", "m2", "count")
    )
    values = (Element(OUT, LOOP),) * 2
    joined = WelfordStep(*triple, integers.ZERO, integers.ZERO, values, joined=True)
    loop = For(LOOP, Const(4), (joined,), unroll=True)
    after = batch_welford(kernel(branch(loop)))
    (batched,) = [s for s in walk(after.body) if isinstance(s, WelfordStep)]
    assert batched.batch is not None
    assert batched.batch.steps == 4
