"""Passes over rows that begin anywhere are told from those between, by what holds for all sizes."""

from dataclasses import replace

from tests.lower.test_mask_last_pass import LANE, SUM, scheduled, store
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.kernel.nodes import For, If, Statement
from warpsmith.lower.build import build
from warpsmith.lower.passes.peel_ends import peel_ends
from warpsmith.targets.hopper import H200

PASS = Symbol("p", low=0, extent=Const(1))
SIZE = Symbol("n", low=0)


def less(a: Expr, b: Expr) -> Expr:
    return Apply("lt", (a, b), DataType.Bool)


def peeled(condition: Expr) -> tuple[Statement, ...]:
    """What is left under a condition, beside one that asks if a row has begun."""
    kernel = build(scheduled(), "test", DataType.Int32, target=H200)
    begun = less(integers.mod(SIZE, 8), integers.add(LANE, 1))
    body = (If(begun, (store(SUM),)), If(condition, (store(SUM),)))
    loop = For(PASS, Const(1), body, unroll=True)
    (found,) = peel_ends(replace(kernel, body=(loop,), least=((SIZE, 4),))).body
    assert isinstance(found, For)
    return found.body[1:]


def test_what_never_holds_is_left_out() -> None:
    """The opposite of `t < 0` is known as it is made."""
    assert peeled(less(LANE, Const(0))) == ()


def test_a_remainder_by_a_size_is_not_one_by_the_least_size() -> None:
    """7 % 4 is 3, and 7 % 7 is 0."""
    assert len(peeled(less(integers.mod(Const(7), SIZE), Const(3)))) == 1
    assert len(peeled(less(Const(2), integers.mod(Const(7), SIZE)))) == 1
