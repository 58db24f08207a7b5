"""What a kernel that starts early must not do: each wrong one is refused, with the buffer."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.kernel.test_succession import ACROSS, MOVE, THREAD, I, X, kernel
from tests.protocol.edits import edited, instead, refused, without
from tests.support.role_kernels import streaming
from warpsmith.engine.proofs import prove
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Symbol
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Element, For, If, Let, Store
from warpsmith.kernel.succession import AwaitPrevious
from warpsmith.kernel.traversal import walk
from warpsmith.lower.passes.overlap_launches import admit_next, start_early
from warpsmith.protocol import check, check_start
from warpsmith.targets.hopper import H200

ROLES = streaming()
HALF = integers.less(THREAD, 4)


def first_in_each_role(early: Kernel) -> Kernel:
    """The wait at the start of every role, in place of before all."""
    body = edited(early, without(AwaitPrevious)).body
    inside = (
        replace(s, body=(AwaitPrevious(), *s.body)) if isinstance(s, Branch) else s for s in body
    )
    return replace(early, body=tuple(inside))


def under(statement: For | If) -> Callable[[Kernel], Kernel]:
    return lambda early: edited(early, instead(AwaitPrevious, lambda wait: statement))


def moved_behind(early: Kernel) -> Kernel:
    body = [s for s in early.body if not isinstance(s, AwaitPrevious)]
    return replace(early, body=(*body, AwaitPrevious()))


WRONG = {
    "no wait": (MOVE, lambda early: edited(early, without(AwaitPrevious)), "X is touched before"),
    "a wait behind": (MOVE, moved_behind, "X is touched before the wait"),
    "a wait of half the threads": (
        If(HALF, (MOVE,)),
        under(If(HALF, (AwaitPrevious(), MOVE))),
        "X is touched where only some threads have waited",
    ),
    "a wait in a loop": (
        MOVE,
        under(For(I, integers.index(0), (AwaitPrevious(),), False)),
        "X is touched before the wait",
    ),
    "a reduction across blocks": (ACROSS, moved_behind, "T1_parts is touched before the wait"),
    "a load in the prologue": (
        MOVE,
        lambda early: replace(early, body=(MOVE, *early.body)),
        "X is touched before the wait",
    ),
    "nothing to wait for": (
        If(HALF, ()),
        lambda early: edited(early, without(AwaitPrevious)),
        "it never waits",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_kernels_are_refused(name: str) -> None:
    statement, spoil, words = WRONG[name]
    early = start_early(kernel(statement))
    check_start(early)
    spoiled = spoil(early)
    assert spoiled != early
    refused(spoiled, {}, "WS0918", words, judge=prove)
    prove(replace(spoiled, early=False), {}, H200)


@pytest.mark.parametrize("spoil", [moved_behind, first_in_each_role])
def test_roles_are_behind_the_wait(spoil: Callable[[Kernel], Kernel]) -> None:
    early = admit_next(start_early(ROLES.kernel))
    assert (
        check(early, ROLES.values, target=H200).steps
        == check(ROLES.kernel, ROLES.values, target=H200).steps
    )
    spoiled = spoil(early)
    assert any(isinstance(s, AwaitPrevious) for s in walk(spoiled.body))
    refused(spoiled, ROLES.values, "WS0918", "T0 is touched")


def test_a_kernel_that_waits_for_nothing_is_right() -> None:
    prove(replace(start_early(kernel(MOVE)), early=False), {}, H200)
    prove(kernel(MOVE), {}, H200)


def test_what_is_settled_may_be_read_before_the_wait_and_not_written() -> None:
    read = Let(Symbol("first", DataType.Float), Element(X, integers.ZERO))
    early = start_early(kernel(read, MOVE), settled=("X",))
    assert early.settled == ("X",)
    assert [type(s) for s in early.body] == [Let, AwaitPrevious, type(MOVE)]
    prove(early, {}, H200)
    refused(replace(early, settled=()), {}, words="X is touched before the wait", judge=prove)
    written = Store(X, integers.ZERO, integers.ONE)
    refused(
        replace(early, body=(*early.body, written)),
        {},
        "WS0918",
        "X is read before the wait, and written",
        judge=prove,
    )
