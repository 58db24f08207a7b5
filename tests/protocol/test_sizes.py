"""Sizes by which loops run as often as is wanted."""

from dataclasses import replace

import pytest

from tests.protocol.edits import edited, instead, refused
from tests.support.role_kernels import streaming
from tests.support.role_parts import GRID_X, SIZE, STEP, steps
from warpsmith.errors import ProtocolError
from warpsmith.ir import integers
from warpsmith.ir.scalar import Symbol
from warpsmith.kernel.nodes import For, If, Statement
from warpsmith.kernel.traversal import replace_symbols
from warpsmith.protocol import check, check_any_sizes
from warpsmith.protocol.sizes import blocks_of, shortened, sizes_for, symbols_of, trips
from warpsmith.targets.hopper import H200

ORIGIN = (0, 0, 0)


def test_symbols_are_those_that_a_launch_gives() -> None:
    assert symbols_of(streaming().kernel) == ("size",)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
def test_sizes_make_loops_so_long(count: int) -> None:
    kernel = streaming().kernel
    sizes = sizes_for(kernel, {"size": 1}, ORIGIN, ("size",), count)
    assert sizes is not None
    assert max(trips(kernel, sizes, ORIGIN)) == count
    longer = {"size": sizes["size"] + 1}
    assert max(trips(kernel, longer, ORIGIN)) == count + 1


def test_loops_that_no_size_decides() -> None:
    kernel = streaming().kernel
    known = {SIZE: integers.index(3000), GRID_X: integers.ZERO}
    kernel = replace(kernel, body=tuple(replace_symbols(s, known) for s in kernel.body))
    assert sizes_for(kernel, {"size": 1}, ORIGIN, ("size",), 3) is None
    assert set(trips(shortened(kernel, 2), {"size": 1}, ORIGIN)) == {2}
    assert shortened(kernel, 1000) is kernel


def test_what_sizes_are_divided_by_is_never_nothing() -> None:
    """Persistent blocks are a size of the launch, and at least one."""
    kernel = streaming().kernel
    blocks = Symbol("blocks", low=1)
    (turns, *_), fewer = symbols_of(kernel), Symbol("turns")
    made = (*kernel.derived, (fewer, integers.ceildiv(Symbol(turns), blocks)))
    shared = replace(kernel, derived=made)
    sizes = sizes_for(shared, {"size": 1, "blocks": 2}, ORIGIN, ("size", "blocks"), 3)
    assert sizes is not None
    assert sizes["blocks"] >= 1


def test_first_and_last_blocks() -> None:
    case = streaming()
    assert tuple(blocks_of(case.kernel, case.values)) == (ORIGIN, (1, 0, 0))


def test_a_fault_at_one_length_only_is_found() -> None:
    """With four tiles, one more than there are stages, the last one is not filled."""
    kernel = streaming(stages=3).kernel

    def change(loop: For) -> Statement:
        four = integers.less(steps(256), 4)
        more = integers.less(4, steps(256))
        late = integers.less(STEP, 3)
        guards = [If(cond, loop.body, uniform=True) for cond in (four, more)]
        both = integers.conjunction(integers.less(3, steps(256)), integers.less(steps(256), 5))
        guards.append(If(integers.conjunction(both, late), loop.body, uniform=True))
        return For(loop.symbol, loop.extent, tuple(guards), loop.unroll)

    wrong = edited(kernel, instead(For, change, symbol="i0"), "load_x")
    check(wrong, {"size": 3 * 512}, target=H200)
    check(wrong, {"size": 5 * 512}, target=H200)
    refused(wrong, {"size": 4 * 512}, "WS0901")
    with pytest.raises(ProtocolError, match="WS0901"):
        check_any_sizes(wrong, target=H200)
