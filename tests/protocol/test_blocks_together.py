"""Blocks of the grid that meet: what lets one wait for a block that does not run, or does not come,
is refused.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.protocol.edits import edited, instead, refused
from tests.support.grid_meetings import shares
from tests.support.lowering import lowered
from warpsmith.engine.proofs import prove
from warpsmith.ir import integers
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.integers import ZERO
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Let, Statement
from warpsmith.kernel.reductions import Reduce, Sharing, blocks_meet
from warpsmith.schedulers.kept import AT_ONCE
from warpsmith.targets.hopper import H200

VALUES = {"T0_size0": 3}
PLACE = Symbol(ParallelType.grid_y.name)


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return lowered(shares())


def meeting_of(kernel: Kernel) -> Reduce:
    (found,) = (s for s in kernel.body if isinstance(s, Reduce) and s.meets)
    return found


def of_launch(**fields: Any) -> Callable[[Kernel], Kernel]:
    return lambda kernel: replace(kernel, launch=replace(kernel.launch, **fields))


def around(made: Callable[[Reduce], Statement]) -> Callable[[Kernel], Kernel]:
    return lambda kernel: edited(kernel, instead(Reduce, made, grid_axes=(ParallelType.grid_y,)))


def twice(kernel: Kernel) -> Kernel:
    """Two meetings at one word."""
    other = replace(meeting_of(kernel), first=True)
    return edited(kernel, instead(Reduce, lambda s: (s, other), grid_axes=(ParallelType.grid_y,)))


def with_one_word(kernel: Kernel) -> Kernel:
    word = meeting_of(kernel).semaphore
    assert word is not None
    fewer = replace(word, size=integers.ONE)
    return around(lambda s: replace(s, semaphore=fewer))(kernel)


WRONG: dict[str, tuple[Callable[[Kernel], Kernel], str]] = {
    "a plain launch": (of_launch(together=False), "need not run at once"),
    "a cluster": (of_launch(cluster=(1, 1, 2)), "wait for each other in other ways"),
    "a meeting of some blocks": (
        around(lambda s: If(integers.less(PLACE, 2), (s,), uniform=True)),
        "where not every thread of every block comes by once",
    ),
    "a meeting of some threads": (
        around(lambda s: If(integers.less(Symbol(ParallelType.block_x.name), 2), (s,))),
        "where not every thread of every block comes by once",
    ),
    "a meeting in a loop": (
        around(lambda s: For(Symbol("again", low=0), integers.index(2), (s,), unroll=False)),
        "in a loop in which blocks may meet at words of others",
    ),
    "a word that somebody says": (
        around(lambda s: replace(s, shared=Sharing(PLACE, integers.index(4), ZERO, ZERO))),
        "do not follow from the place of a block",
    ),
    "a word of two meetings": (twice, "words that other statements have"),
    "no word": (around(lambda s: replace(s, semaphore=None)), "words that other statements have"),
    "one word for all": (with_one_word, "of which not each has a word"),
}


def of_rounds(**fields: Any) -> Callable[[Kernel], Kernel]:
    """What is said of who meets where."""

    def changed(meeting: Reduce) -> Reduce:
        assert meeting.shared is not None
        return replace(meeting, shared=replace(meeting.shared, **fields))

    return around(changed)


def of_loop(extent: Callable[[Expr], Expr]) -> Callable[[Kernel], Kernel]:
    def changed(loop: For) -> For:
        rounds = loop.symbol.name == "round"
        return replace(loop, extent=extent(loop.extent)) if rounds else loop

    return lambda kernel: edited(kernel, instead(For, changed))


def without_a_word(kernel: Kernel) -> Kernel:
    def fewer(meeting: Reduce) -> Reduce:
        assert meeting.semaphore is not None
        return replace(meeting, semaphore=replace(meeting.semaphore, size=AT_ONCE_BLOCKS))

    return around(fewer)(kernel)


def other_groups(kernel: Kernel) -> Kernel:
    def same(let: Let) -> Let:
        return replace(let, value=GROUP) if let.symbol.name == "group" else let

    return edited(kernel, instead(Let, same))


AT_ONCE_BLOCKS = Symbol(AT_ONCE, low=1)
GROUP = Symbol(ParallelType.grid_x.name, extent=AT_ONCE_BLOCKS)
WRONG_ROUNDS: dict[str, Callable[[Kernel], Kernel]] = {
    "one word for all rounds": of_rounds(segment=GROUP),
    "one place for all rounds": of_rounds(place=integers.mul(GROUP, 4)),
    "a word for each block alone": of_rounds(segment=PLACE),
    "one number for all blocks": of_rounds(number=ZERO),
    "fewer than there are": of_rounds(count=integers.index(3)),
    "the same group in each round": other_groups,
    "words of one round": without_a_word,
    "rounds for some blocks": of_loop(lambda extent: integers.sub(extent, PLACE)),
    "rounds for some threads": of_loop(
        lambda extent: integers.minimum(extent, Symbol(ParallelType.block_x.name))
    ),
    "a round too many": of_loop(lambda extent: integers.add(extent, 1)),
    "a condition in a round": around(
        lambda s: If(integers.less(PLACE, 2), (s,), uniform=True),
    ),
}


@pytest.fixture(scope="module")
def in_rounds() -> Kernel:
    made = shares()
    made.fusion.at_once = AT_ONCE_BLOCKS
    made.fusion.launch_symbols.append(AT_ONCE_BLOCKS)
    return lowered(made)


def test_blocks_meet_in_each_round(in_rounds: Kernel) -> None:
    assert in_rounds.launch.grid[0] == AT_ONCE_BLOCKS
    assert prove(in_rounds, VALUES | {AT_ONCE: 2}, H200) == 0


@pytest.mark.parametrize("name", WRONG_ROUNDS)
def test_a_round_in_which_a_block_may_not_come_is_refused(name: str, in_rounds: Kernel) -> None:
    refused(
        WRONG_ROUNDS[name](in_rounds),
        VALUES | {AT_ONCE: 2},
        "WS0923",
        "blocks that meet all run at once",
        judge=prove,
    )


def test_blocks_that_run_at_once_meet(kernel: Kernel) -> None:
    assert blocks_meet(kernel.body)
    assert kernel.launch.together
    assert prove(kernel, VALUES, H200) == 0


@pytest.mark.parametrize("name", WRONG)
def test_a_wait_for_a_block_that_may_not_come_is_refused(name: str, kernel: Kernel) -> None:
    changed, said = WRONG[name]
    refused(changed(kernel), VALUES, "WS0923", said, judge=prove)
