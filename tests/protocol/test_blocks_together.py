"""Blocks of the grid that meet: what lets one wait for a block that does not run, or does not come,
is refused.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.protocol.edits import edited, instead
from tests.support.grid_meetings import shares
from tests.support.lowering import lowered
from warpsmith.engine.proofs import prove
from warpsmith.errors import ProtocolError
from warpsmith.ir import integers
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.scalar import Symbol
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Statement
from warpsmith.kernel.reductions import Reduce, blocks_meet
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
        "where not every thread of every block comes by once",
    ),
    "a word of two meetings": (twice, "words that other statements have"),
    "no word": (around(lambda s: replace(s, semaphore=None)), "words that other statements have"),
    "one word for all": (with_one_word, "of which not each has a word"),
}


def test_blocks_that_run_at_once_meet(kernel: Kernel) -> None:
    assert blocks_meet(kernel.body)
    assert kernel.launch.together
    assert prove(kernel, VALUES, H200) == 0


@pytest.mark.parametrize("name", WRONG)
def test_a_wait_for_a_block_that_may_not_come_is_refused(name: str, kernel: Kernel) -> None:
    changed, said = WRONG[name]
    with pytest.raises(ProtocolError, match=said) as failure:
        prove(changed(kernel), VALUES, H200)
    assert failure.value.code == "WS0923"
