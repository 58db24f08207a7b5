"""Conditions of one of several rows, asked once for all that a turn sums of it."""

from dataclasses import replace

import pytest

from bench.norm_backward import layer_norm_bwd
from bench.row_shapes import plan
from tests.lower.test_mask_last_pass import OWN, PASS, SUM, scheduled, store
from warpsmith import knobs
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Declare, Element, For, If, Statement, Store, Synchronize
from warpsmith.kernel.reductions import Accumulate
from warpsmith.kernel.traversal import walk
from warpsmith.lower.build import build
from warpsmith.lower.passes.ask_once import ask_once
from warpsmith.targets.hopper import H200

TURN, ROW = Symbol("turn", low=0), Symbol("row", low=0, extent=Const(2))
ROWS = Symbol("T0_size0", low=0)
MEMORY = Buffer("T0", DataType.Float, MemoryType.global_, ROWS)


def is_there(of: Expr = ROW) -> Expr:
    return integers.less(integers.add(integers.mul(TURN, 2), of), ROWS)


def kernel_of(body: tuple[Statement, ...]) -> Kernel:
    made = build(scheduled(), "test", DataType.Int32, target=H200)
    return replace(made, body=body)


def summed() -> Accumulate:
    kernel = build(scheduled(), "test", DataType.Int32, target=H200)
    found = next(s for s in walk(kernel.body) if isinstance(s, Accumulate))
    return replace(found, buffers=(SUM,), index=PASS, part=(Element(OWN, PASS),))


def in_turns(*body: Statement, unroll: bool = False) -> tuple[Statement, ...]:
    """A loop over elements, of each row of each turn."""
    elements = For(PASS, Const(5), body, unroll=True)
    rows = For(ROW, Const(2), (Declare(OWN), elements), unroll=True)
    return (For(TURN, integers.ceildiv(ROWS, 2), (rows,), unroll=unroll),)


def elements_of(body: tuple[Statement, ...]) -> Statement:
    (turns,) = ask_once(kernel_of(body)).body
    assert isinstance(turns, For)
    (rows,) = turns.body
    assert isinstance(rows, For)
    return rows.body[-1]


def test_all_that_is_done_of_a_row_stands_under_its_condition() -> None:
    found = elements_of(in_turns(Declare(OWN), store(OWN), If(is_there(), (summed(),))))
    assert isinstance(found, If)
    assert found.condition == is_there()
    (loop,) = found.body
    assert isinstance(loop, For)
    assert loop.body == (Declare(OWN), store(OWN), summed())


@pytest.mark.parametrize(
    "body",
    [
        (store(SUM), If(is_there(), (summed(),))),  # written for rows that are not there, too
        (If(is_there(PASS), (summed(),)),),  # of each element
        (If(is_there(Const(0)), (summed(),)),),  # of all rows of the turn
        (If(is_there(), (summed(), Synchronize())),),
        (Declare(OWN), Store(OWN, PASS, Element(MEMORY, PASS)), If(is_there(), (summed(),))),
        (Declare(OWN), If(is_there(), (store(SUM),))),  # nothing is summed
    ],
)
def test_what_stays(body: tuple[Statement, ...]) -> None:
    kernel = kernel_of(in_turns(*body))
    assert ask_once(kernel) is kernel


def test_rows_that_no_turns_loop_over_stay() -> None:
    """Their loads stand beside, and would come late behind a branch."""
    kernel = kernel_of(in_turns(If(is_there(), (summed(),)), unroll=True))
    assert ask_once(kernel) is kernel


def test_several_rows_side_by_side_do_not_spill() -> None:
    """They did, 76 bytes, and took an eighth longer."""
    with knobs.scope(target="h200"):
        first = plan(layer_norm_bwd(19675, 1128, "bfloat16")).launches[0]
    assert first.compiled.n_spills == 0
