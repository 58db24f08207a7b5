"""Moments of several columns of a thread are joined under the one number that it has for them."""

from dataclasses import replace

import pytest

from tests.schedulers.test_inner_grid import batch_norm
from tests.schedulers.test_outer_grid import check
from warpsmith.ir.dtypes import DataType
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Element, For, Statement, Store
from warpsmith.kernel.reductions import Reduce
from warpsmith.lower.passes.count_once import count_once


def meeting(kernel: Kernel) -> tuple[For, Reduce]:
    """The reduction of a kernel, and the loop before it, which gives it what it joins."""
    place = next(n for n, each in enumerate(kernel.body) if isinstance(each, Reduce))
    loop, reduce = kernel.body[place - 1 : place + 1]
    assert isinstance(loop, For)
    assert isinstance(reduce, Reduce)
    return loop, reduce


def again(kernel: Kernel, loop: For, reduce: Reduce) -> Reduce:
    """The reduction, as the pass leaves it behind this loop."""
    asked = replace(reduce, one_count=False)
    return meeting(count_once(replace(kernel, body=(loop, asked))))[1]


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    """Blocks that share columns, of which some have no rows."""
    kernel: Kernel = check(batch_norm(DataType.Float, kept=2), ((1, 50, 20), (20,)), 4)
    return kernel


def test_blocks_that_meet_join_columns_under_one_number(kernel: Kernel) -> None:
    loop, reduce = meeting(kernel)
    assert reduce.one_count
    assert reduce.meets
    assert again(kernel, loop, reduce).one_count


def test_a_number_for_each_column_stays(kernel: Kernel) -> None:
    loop, reduce = meeting(kernel)

    def own(statement: Statement) -> Statement:
        if isinstance(statement, Store) and statement.buffer == reduce.buffers[2]:
            (number,) = (n for n in statement.value.walk() if isinstance(n, Element))
            return replace(statement, value=Element(number.buffer, loop.symbol))
        return statement

    assert not again(kernel, replace(loop, body=tuple(map(own, loop.body))), reduce).one_count


def test_other_reductions_stay(kernel: Kernel) -> None:
    """For the first threads alone, and of too few results for an access."""
    loop, reduce = meeting(kernel)
    for other in (replace(reduce, first=True), replace(reduce, elements=3)):
        assert not again(kernel, loop, other).one_count
