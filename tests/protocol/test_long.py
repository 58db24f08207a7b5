"""Blocks whose whole run is too long to be listed: loops are cut, and all rules still hold."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.protocol.edits import Change, edited, instead, refused, without
from tests.protocol.kernels import matmul
from tests.support.role_kernels import streaming
from tests.support.role_parts import SIZE, STEP, steps
from warpsmith.errors import InternalError, ProtocolError
from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Statement
from warpsmith.kernel.rings import ArriveByWarp, Await, Expect
from warpsmith.protocol import check
from warpsmith.protocol.checks import CUTS
from warpsmith.protocol.shortest import LONGEST_TOLD
from warpsmith.protocol.sizes import cut, trips
from warpsmith.targets.hopper import H200

ORIGIN = (0, 0, 0)
LONG = 1 << 31
"""Elements of which each block of `streaming` takes four million tiles."""

SECONDS = 15.0
"""Many times what each of these checks takes."""

OTHER = Symbol("other", low=0)


def test_the_verdict_says_that_loops_were_cut() -> None:
    kernel = streaming().kernel
    verdict = check(kernel, {"size": LONG}, target=H200)
    assert verdict.shortened == CUTS[0]
    assert [ring.fills for ring in verdict.rings] == [CUTS[0]] * 2
    whole = check(kernel, {"size": CUTS[0] * 512}, target=H200)
    assert whole == replace(verdict, shortened=0)


def test_nested_loops_are_cut_until_they_fit() -> None:
    case = matmul(1 << 21, 1 << 20)
    verdict = check(case.kernel, case.values, target=H200)
    assert verdict.shortened == CUTS[1]
    assert [ring.fills for ring in verdict.rings] == [2 * CUTS[1] ** 2]


def only_if(condition: Expr) -> Change:
    """What stands there happens only if a condition holds."""

    def change(statement: Statement) -> Statement:
        return If(condition, (statement,), uniform=True)

    return instead(Await, change, barrier="ring0_full")


WRONG: dict[str, tuple[str, Callable[[Kernel], Kernel]]] = {
    "nothing is released": ("WS0901", lambda k: edited(k, without(ArriveByWarp), "add")),
    "nobody waits for a free stage": (
        "WS0904",
        lambda k: edited(k, without(Await, barrier="ring0_empty")),
    ),
    "the last wait is missing": (
        "WS0907",
        lambda k: edited(k, only_if(integers.less(integers.add(STEP, 1), steps(256))), "add"),
    ),
    "all waits but the first are missing": (
        "WS0907",
        lambda k: edited(k, only_if(integers.less(STEP, 1)), "add"),
    ),
    "one announcement is too small": (
        "WS0905",
        lambda k: edited(
            k,
            instead(
                Expect,
                lambda s: replace(
                    s, bytes=integers.sub(s.bytes, integers.mul(4, integers.less(STEP, 1)))
                ),
            ),
            "load_x",
        ),
    ),
}


@pytest.mark.few(6)
@pytest.mark.parametrize("size", [LONG, 1 << 26], ids=["cut", "whole"])
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_refused_with_a_run(name: str, size: int) -> None:
    """Also where an actor goes wrong only after millions of steps."""
    code, change = WRONG[name]
    wrong = change(streaming().kernel)
    start = time.process_time()
    with pytest.raises(ProtocolError) as caught:
        check(wrong, {"size": size}, target=H200)
    assert time.process_time() - start < SECONDS
    assert caught.value.code == code
    assert caught.value.run


def test_a_late_fault_that_no_short_run_has_is_told_without_a_run() -> None:
    """After the loops that are tried for a shorter run have ended; see `SHORTEST`."""
    late = integers.less(integers.add(STEP, 1), steps(256))
    short = integers.less(steps(256), 3000)
    either = Apply("logical_or", (short, late), DataType.Bool)
    wrong = edited(streaming().kernel, only_if(either), "add")
    check(wrong, {"size": 512 * 2999}, target=H200)
    start = time.process_time()
    with pytest.raises(ProtocolError, match="WS0907") as caught:
        check(wrong, {"size": 512 * LONGEST_TOLD}, target=H200)
    assert time.process_time() - start < SECONDS
    assert not caught.value.run


# --- sizes and lengths that are cut --------------------------------------------------------------


def long_as(kernel: Kernel, extent: Expr, role: str | None = None) -> Kernel:
    """A kernel whose roles, or one of them, run their loops so often."""
    return edited(kernel, instead(For, lambda s: replace(s, extent=extent), symbol="i0"), role)


def test_sizes_that_decide_a_loop_together_leave_some_of_it() -> None:
    kernel = streaming(how=LoadStoreOpType.tma).kernel
    tiles = integers.ceildiv(integers.mul(SIZE, OTHER), 512)
    kernel = replace(long_as(kernel, tiles), scalars=(*kernel.scalars, OTHER))
    for size, other in ((16, 1 << 30), (1 << 30, 16), (1 << 17, 1 << 17)):
        values = {"size": size, "other": other}
        _, sizes = cut(kernel, values, ORIGIN, 1000)
        assert 500 <= max(trips(kernel, sizes, ORIGIN)) <= 1000
        assert all(1 <= sizes[name] <= values[name] for name in values)
    wrong = edited(kernel, without(ArriveByWarp), "add")
    for values in ({"size": 16, "other": 1 << 30}, {"size": 1 << 30, "other": 16}):
        assert check(kernel, values, target=H200).shortened == CUTS[0]
        refused(wrong, values, "WS0901")


def test_scalars_that_the_launch_derives_are_derived_again() -> None:
    kernel, tiles = streaming().kernel, Symbol("tiles", low=0)
    derived = ((tiles, integers.ceildiv(SIZE, 512)),)
    kernel = replace(long_as(kernel, tiles), derived=derived)
    known = {"size": LONG, "tiles": LONG // 512}
    assert check(kernel, known, target=H200) == check(
        streaming().kernel, {"size": LONG}, target=H200
    )


def test_a_cut_that_leaves_no_block_shows_nothing() -> None:
    kernel = streaming().kernel
    blocks = integers.floordiv(SIZE, 1 << 24)
    kernel = replace(kernel, launch=replace(kernel.launch, grid=(blocks, Const(1), Const(1))))
    with pytest.raises(InternalError, match="too many steps"):
        check(kernel, {"size": LONG}, target=H200)


COUNT = 1 << 20


def in_pairs(kernel: Kernel) -> Kernel:
    """The adding role takes two tiles in each iteration of half as many."""
    pair = Symbol("pair", low=0)
    return edited(
        long_as(kernel, Const(COUNT)),
        instead(
            For,
            lambda s: For(pair, Const(COUNT // 2), (replace(s, extent=Const(2)),), unroll=False),
            symbol="i0",
        ),
        "add",
    )


def peeled(kernel: Kernel) -> Kernel:
    """The adding role takes the last tile after its loop."""

    def change(loop: For) -> tuple[Statement, ...]:
        return replace(loop, extent=Const(COUNT - 1)), replace(loop, extent=Const(1))

    return edited(long_as(kernel, Const(COUNT)), instead(For, change, symbol="i0"), "add")


@pytest.mark.parametrize("change", [in_pairs, peeled])
def test_constant_lengths_that_belong_together_are_cut_together(
    change: Callable[[Kernel], Kernel],
) -> None:
    kernel = change(streaming().kernel)
    verdict = check(kernel, {"size": 1 << 40}, target=H200)
    assert verdict.shortened == CUTS[0]
    assert [ring.fills for ring in verdict.rings] == [CUTS[0]] * 2
