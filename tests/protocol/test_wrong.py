"""Kernels with roles in which one thing is wrong: each is refused, and the message says where."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import pytest

from tests.protocol.edits import counting, edited, instead, with_role, without
from tests.support.role_kernels import (
    RoleCase,
    along,
    copied_by_threads,
    storing,
    streaming,
    taking_turns,
    turns,
)
from tests.support.role_parts import (
    STEP,
    channel,
    each_element,
    element,
    kernel_of,
    loader,
    memory,
    single,
    steps,
)
from warpsmith.errors import ProtocolError
from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import BLOCK_TYPES, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Statement, Store, Synchronize
from warpsmith.kernel.rings import (
    ELECTED,
    Advance,
    ArriveByWarp,
    Await,
    AwaitCopies,
    CommitCopies,
    Expect,
    FenceProxy,
    InitBarriers,
    TileCopy,
)
from warpsmith.kernel.traversal import children
from warpsmith.protocol import check
from warpsmith.targets.hopper import H200

Wrong = Callable[[], tuple[Kernel, Mapping[str, int]]]


def of(case: RoleCase, change: Callable[[Kernel], Kernel]) -> Wrong:
    return lambda: (change(case.kernel), case.values)


def flipped(wait: Await) -> Await:
    return replace(wait, parity=integers.sub(1, wait.parity))


def other(amount: int) -> Callable[[Expect], Expect]:
    return lambda expect: replace(expect, bytes=integers.add(expect.bytes, amount))


def all_but_last(statement: Statement) -> tuple[Statement, ...]:
    """The last iteration does nothing, on this side."""
    if not isinstance(statement, For) or statement.symbol != STEP:
        return (statement,)
    more = integers.less(integers.add(STEP, 1), steps(256))
    return (replace(statement, body=(If(more, statement.body, uniform=True),)),)


def early_release(statement: Statement) -> tuple[Statement, ...]:
    """The stage is given back before it is read."""
    wait, *rest = children(statement) or (statement,)
    release = next((s for s in rest if isinstance(s, ArriveByWarp)), None)
    if release is None:
        return (statement,)
    rest.remove(release)
    return (replace(statement, body=(wait, release, *rest)),)  # type: ignore[call-arg]


def skipped_tile(statement: Statement) -> tuple[Statement, ...]:
    """The third tile is neither waited for nor given back, but the cursor counts it."""
    if not isinstance(statement, For) or statement.symbol != STEP:
        return (statement,)
    *work, advance = statement.body
    assert isinstance(advance, Advance)
    third = Apply("eq", (STEP, Const(2)), DataType.Bool)
    taken = Apply("eq", (third, Const(0)), DataType.Bool)
    return (replace(statement, body=(If(taken, tuple(work), uniform=True), advance)),)


def released_at_the_start(kernel: Kernel) -> Kernel:
    """All stages are given back before the first use; the producer takes them as free, too."""
    ring = kernel.pipelines[0]
    assert ring.empty is not None
    stage = Symbol("s", low=0, extent=Const(ring.stages))
    releases = For(stage, Const(ring.stages), (ArriveByWarp(ring.empty, stage),), unroll=True)

    def change(statement: Statement) -> tuple[Statement, ...]:
        if isinstance(statement, Branch):
            return (replace(statement, body=(releases, *statement.body)),)
        return (statement,)

    return edited(kernel, change, "add")


def one_after_the_other(kernel: Kernel) -> Kernel:
    """One role fills all of ring0 before it fills ring1, and the other uses both by turns."""
    first, second, third = (s for s in kernel.body if isinstance(s, Branch))
    joined = replace(first, body=(*first.body, *second.body))
    start = tuple(s for s in kernel.body if not isinstance(s, Branch))
    return replace(kernel, body=(*start, joined, third))


def two_producers(kernel: Kernel) -> Kernel:
    """Copies for ring1 go to the stages of ring0."""
    tile = next(b for b in kernel.shared if b.name == "ring0_tile")
    return edited(kernel, instead(TileCopy, lambda c: replace(c, shared=tile)), "load_y")


def parted(statement: ArriveByWarp | Await) -> If:
    """Half of the threads."""
    half = integers.less(Symbol(BLOCK_TYPES[0].name, low=0), 128)
    return If(half, (statement,))


def trap(groups: int, stages: int, *, size: int = 6000) -> RoleCase:
    """Groups take turns in so many stages; stages belong to no group unless groups divide them."""
    load = single("load", 0)
    adding = Agent("add", 4, along(128, groups), groups_along=ParallelType.block_y)
    x, z = memory("T0"), memory("T1", written=True)
    ring = channel("ring0", 256, stages, load, adding)

    def used(step: Expr) -> tuple[Statement, ...]:
        def work(index: Expr, place: Expr) -> Statement:
            return Store(z, place, element(ring, index))

        return ring.used(each_element(adding, 256, work, step))

    branches = (loader(load, ring, x), Branch(adding, taking_turns(adding, ring, used)))
    return RoleCase(kernel_of((x, z), (ring,), branches), {"size": size}, {}, {})


def meeting(barrier: int) -> Callable[[Kernel], Kernel]:
    """The adding threads meet at the end of each tile, by a named barrier."""

    def change(kernel: Kernel) -> Kernel:
        if barrier:
            kernel = with_role(kernel, "add", lambda agent: replace(agent, barrier=barrier))
        met = (Synchronize("a test"),)
        return edited(kernel, instead(ArriveByWarp, lambda r: (*met, r), barrier="ring0_empty"))

    return change


def without_meeting(kernel: Kernel) -> Kernel:
    return replace(kernel, body=tuple(s for s in kernel.body if not isinstance(s, Synchronize)))


def with_registers(loads: int | None, other_loads: int | None, adds: int) -> Wrong:
    def change(kernel: Kernel) -> Kernel:
        given = {"load_x": loads, "load_y": other_loads, "add": adds}
        for name, count in given.items():
            if count is not None:
                kernel = with_role(kernel, name, partial(replace, registers=count))
        return kernel

    return of(streaming(), change)


def moved(first_warp: int) -> Wrong:
    return of(
        streaming(),
        lambda k: with_role(k, "load_y", lambda r: replace(r, first_warp=first_warp)),
    )


WRONG: Mapping[str, tuple[Wrong, str, str, str]] = {
    # --- parities, counts and bytes
    "the consumer's parity": (
        of(streaming(), lambda k: edited(k, instead(Await, flipped, barrier="ring0_full"))),
        *("WS0903", "ring0", "add"),
    ),
    "the producer's parity": (
        of(streaming(), lambda k: edited(k, instead(Await, flipped, barrier="ring0_empty"))),
        *("WS0901", "ring0", "load_x"),
    ),
    "an arrival too many is expected": (
        of(streaming(), lambda k: counting(k, "ring1_empty", 9)),
        *("WS0901", "ring1", "load_y"),
    ),
    "an arrival too few is expected": (
        of(streaming(), lambda k: counting(k, "ring1_empty", 7)),
        *("WS0904", "ring1", "add"),
    ),
    "two arrivals at full are expected": (
        of(streaming(), lambda k: counting(k, "ring0_full", 2)),
        *("WS0901", "ring0", "add"),
    ),
    "no arrival is expected": (
        of(streaming(), lambda k: counting(k, "ring0_full", 0)),
        *("WS0904", "ring0", ""),
    ),
    "idle warps arrive": (
        of(
            streaming(),
            lambda k: with_role(
                replace(k, launch=replace(k.launch, block=along(448))),
                "add",
                lambda r: replace(r, block=along(320)),
            ),
        ),
        *("WS0904", "ring1", "add"),
    ),
    "more bytes are announced": (
        of(streaming(), lambda k: edited(k, instead(Expect, other(16)), "load_x")),
        *("WS0905", "ring0", "load_x"),
    ),
    "fewer bytes are announced": (
        of(streaming(), lambda k: edited(k, instead(Expect, other(-16)), "load_y")),
        *("WS0905", "ring1", "load_y"),
    ),
    "no bytes are announced": (
        of(
            streaming(),
            lambda k: edited(k, instead(Expect, lambda e: replace(e, bytes=Const(0))), "load_x"),
        ),
        *("WS0907", "ring0", "add"),
    ),
    "bytes are announced, and nothing is copied": (
        of(streaming(), lambda k: edited(k, without(TileCopy), "load_x")),
        *("WS0905", "ring0", "load_x"),
    ),
    "bytes are announced without an arrival": (
        of(
            streaming(),
            lambda k: edited(k, instead(Expect, lambda e: replace(e, arrives=False)), "load_x"),
        ),
        *("WS0901", "ring0", "load_x"),
    ),
    "a copy counts at no barrier": (
        of(
            streaming(),
            lambda k: edited(k, instead(TileCopy, lambda c: replace(c, barrier=None)), "load_x"),
        ),
        *("WS0908", "ring0", "load_x"),
    ),
    # --- waits and releases
    "a stage that threads of a warp tell apart": (
        of(
            streaming(),
            lambda k: edited(
                k,
                instead(
                    ArriveByWarp,
                    lambda r: replace(r, stage=Symbol("lane", low=0)),
                    barrier="ring0_empty",
                ),
            ),
        ),
        *("WS0911", "", "add"),
    ),
    "no release": (
        of(streaming(), lambda k: edited(k, without(ArriveByWarp, barrier="ring0_empty"))),
        *("WS0901", "ring0", "load_x"),
    ),
    "two releases": (
        of(
            streaming(),
            lambda k: edited(k, instead(ArriveByWarp, lambda r: (r, r), barrier="ring0_empty")),
        ),
        *("WS0904", "ring0", "add"),
    ),
    "an early release": (
        of(turns(groups=1), lambda k: edited(k, early_release, "add")),
        *("WS0906", "ring0", "load"),
    ),
    "stages are released before their first use": (
        of(streaming(), released_at_the_start),
        *("WS0903", "ring0", "add"),
    ),
    "the consumer does not wait": (
        of(streaming(), lambda k: edited(k, without(Await, barrier="ring1_full"))),
        *("WS0907", "ring1", "add"),
    ),
    "the producer does not wait": (
        of(streaming(), lambda k: edited(k, without(Await, barrier="ring1_empty"))),
        *("WS0904", "ring1", "load_y"),
    ),
    "the last fill is left out, and its use is not": (
        of(streaming(), lambda k: edited(k, all_but_last, "load_x")),
        *("WS0901", "ring0", "add"),
    ),
    "the last use is left out, and its fill is not": (
        of(streaming(), lambda k: edited(k, all_but_last, "add")),
        *("WS0908", "ring0", "load_x"),
    ),
    "a tile that is skipped still counts": (
        of(streaming(), lambda k: edited(k, skipped_tile, "add")),
        *("WS0901", "ring0", "load_x"),
    ),
    "a cursor moves once too often": (
        of(
            streaming(),
            lambda k: edited(k, instead(Advance, lambda a: (a, a), cursor="ring0_use"), "add"),
        ),
        *("WS0901", "ring0", "add"),
    ),
    "a fill cursor moves once too often": (
        of(streaming(), lambda k: edited(k, instead(Advance, lambda a: (a, a)), "load_x")),
        *("WS0901", "ring0", "add"),
    ),
    "rings are filled in an order in which nobody uses them": (
        of(streaming(), one_after_the_other),
        *("WS0901", "ring0", "load_x"),
    ),
    "two producers fill one stage": (
        of(streaming(), two_producers),
        *("WS0906", "ring0", "load_y"),
    ),
    # --- stores and copies by threads
    "stores are not awaited": (
        of(storing(), lambda k: edited(k, without(AwaitCopies), "store")),
        *("WS0906", "ring1", "double"),
    ),
    "stores are not committed": (
        of(storing(), lambda k: edited(k, without(CommitCopies), "store")),
        *("WS0906", "ring1", "double"),
    ),
    "one store may be under way": (
        of(
            storing(),
            lambda k: edited(k, instead(AwaitCopies, lambda a: replace(a, pending=1)), "store"),
        ),
        *("WS0906", "ring1", "double"),
    ),
    "writers do not fence before a store": (
        of(storing(), lambda k: edited(k, without(FenceProxy), "double")),
        *("WS0914", "ring1", "double"),
    ),
    "the loader does not fence": (
        of(streaming(), lambda k: edited(k, without(FenceProxy), "load_x")),
        *("WS0914", "ring0", "load_x"),
    ),
    "the store role is not told": (
        of(storing(), lambda k: edited(k, without(ArriveByWarp, barrier="ring1_full"))),
        *("WS0901", "ring1", "store"),
    ),
    "cp.async copies are not awaited": (
        of(
            copied_by_threads(how=LoadStoreOpType.cp_async),
            lambda k: edited(k, without(AwaitCopies), "load"),
        ),
        *("WS0907", "ring0", "double"),
    ),
    "cp.async copies are not committed": (
        of(
            copied_by_threads(how=LoadStoreOpType.cp_async),
            lambda k: edited(k, without(CommitCopies), "load"),
        ),
        *("WS0907", "ring0", "double"),
    ),
    # --- groups that take turns
    "two groups in three stages": (of(trap(2, 3), lambda k: k), *("WS0902", "ring0", "add")),
    "two groups in five stages": (of(trap(2, 5), lambda k: k), *("WS0902", "ring0", "add")),
    "four groups in six stages": (of(trap(4, 6), lambda k: k), *("WS0902", "ring0", "add")),
    "a group moves on by its own share only": (
        of(turns(), lambda k: edited(k, without(Advance, by=1), "add")),
        *("WS0904", "ring0", "add"),
    ),
    # --- meetings
    "the block's barrier inside a role": (
        of(streaming(), meeting(0)),
        *("WS0911", "", "add"),
    ),
    "a barrier in a role of one thread": (
        of(
            streaming(),
            lambda k: edited(k, instead(FenceProxy, lambda f: (f, Synchronize())), "load_x"),
        ),
        *("WS0911", "", "load_x"),
    ),
    "a release by some threads": (
        of(streaming(), lambda k: edited(k, instead(ArriveByWarp, parted, barrier="ring0_empty"))),
        *("WS0911", "", "add"),
    ),
    "a wait of some threads": (
        of(streaming(), lambda k: edited(k, instead(Await, parted), "add")),
        *("WS0911", "", "add"),
    ),
    "a release by the elected thread": (
        of(streaming(), lambda k: edited(k, instead(ArriveByWarp, lambda r: If(ELECTED, (r,))))),
        *("WS0911", "", "add"),
    ),
    "two roles with one named barrier": (
        of(
            storing(),
            lambda k: with_role(
                with_role(k, "double", lambda r: replace(r, barrier=3)),
                "store",
                lambda r: replace(r, barrier=3),
            ),
        ),
        *("WS0910", "", "double"),
    ),
    "groups reach beyond the named barriers": (
        of(turns(), lambda k: with_role(k, "add", lambda r: replace(r, barrier=15))),
        *("WS0910", "", "add"),
    ),
    # --- barriers' lives
    "barriers are not initialized": (
        of(streaming(), lambda k: edited(k, without(InitBarriers))),
        *("WS0915", "ring0", ""),
    ),
    "nobody meets after the initialization": (
        of(streaming(), without_meeting),
        *("WS0915", "ring1", ""),
    ),
    # --- what a block has
    "one warp of a group changes its registers": (
        with_registers(24, None, 240),
        *("WS0913", "", "load_x"),
    ),
    "warps of a group have different registers": (
        with_registers(24, 32, 232),
        *("WS0913", "", "load_y"),
    ),
    "too many registers": (with_registers(40, 40, 240), *("WS0913", "", "add")),
    "registers that are no multiple of eight": (
        with_registers(44, 44, 200),
        *("WS0913", "", "load_x"),
    ),
    "too few registers": (with_registers(16, 16, 200), *("WS0913", "", "load_x")),
    "a part of a warp group changes registers": (
        of(streaming(threads=80, registers=(40, 232)), lambda k: k),
        *("WS0913", "", "add"),
    ),
    "roles have a warp in common": (moved(4), *("WS0916", "", "load_y")),
    "a role outside of the block": (moved(12), *("WS0916", "", "load_y")),
    "statements after the roles": (
        of(streaming(), lambda k: replace(k, body=(*k.body, Synchronize()))),
        *("WS0916", "", "add"),
    ),
    "too much shared memory": (
        of(streaming(tile=4096, stages=8), lambda k: k),
        *("WS0912", "", ""),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_is_refused(name: str) -> None:
    make, code, ring, role = WRONG[name]
    kernel, values = make()
    with pytest.raises(ProtocolError) as caught:
        check(kernel, values, target=H200)
    error = caught.value
    print(error)
    assert error.code == code
    assert error.ring.startswith(ring)
    assert not role or role in error.roles


def test_a_meeting_of_a_role_is_right() -> None:
    case = streaming()
    assert check(meeting(1)(case.kernel), case.values, target=H200).phases == 24


@pytest.mark.parametrize(("groups", "stages"), [(2, 3), (2, 5), (2, 9), (4, 5), (4, 6), (4, 10)])
def test_groups_must_divide_stages(groups: int, stages: int) -> None:
    with pytest.raises(ProtocolError, match=f"use a multiple of {groups}") as caught:
        check(trap(groups, stages, size=20000).kernel, {"size": 20000}, target=H200)
    assert caught.value.roles == ("add", "load")


@pytest.mark.parametrize(("groups", "stages"), [(1, 3), (1, 5), (2, 4), (2, 6), (4, 8), (4, 12)])
def test_groups_that_divide_stages_are_right(groups: int, stages: int) -> None:
    verdict = check(trap(groups, stages, size=20000).kernel, {"size": 20000}, target=H200)
    assert verdict.rings[0].fills == 40
