"""Conditions of a step of a loop, asked once for all elements that it computes of an operand."""

from dataclasses import replace

import pytest

from tests.lower.test_mask_last_pass import OWN, PASS, scheduled, store
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.kernel.nodes import Buffer, Declare, Element, For, If, Statement, Store, Synchronize
from warpsmith.lower.build import build
from warpsmith.lower.passes.ask_for_steps import ask_for_steps
from warpsmith.targets.hopper import H200

STEP, STEPS = Symbol("step", low=0), Symbol("steps", low=0)
OPERAND = Buffer("T7", DataType.Float, MemoryType.local, Const(5))
THERE = integers.less(STEP, STEPS)
NOTHING = Store(OPERAND, PASS, Const(0.0, DataType.Float))
COMPUTED = Store(OPERAND, PASS, Element(OWN, PASS))


def steps(*body: Statement, unroll: bool = False) -> Statement:
    return For(STEP, Symbol("turns", low=0), body, unroll=unroll)


def elements(*body: Statement) -> Statement:
    return For(PASS, Const(5), body, unroll=True)


def asked(loop: Statement) -> Statement:
    kernel = replace(build(scheduled(), "test", DataType.Int32, target=H200), body=(loop,))
    (found,) = ask_for_steps(kernel).body
    return found


def computing(condition: Expr = THERE) -> tuple[Statement, ...]:
    own = Declare(OWN), If(condition, (store(OWN),))
    return *own, NOTHING, If(condition, (COMPUTED,))


def test_a_step_computes_all_elements_or_none() -> None:
    found = asked(steps(elements(*computing())))
    assert found == steps(
        If(THERE, (elements(Declare(OWN), store(OWN), NOTHING, COMPUTED),)),
        If(integers.negated(THERE), (elements(NOTHING),)),
    )


@pytest.mark.parametrize(
    "loop",
    [
        steps(elements(*computing(integers.less(PASS, STEPS)))),  # one of its elements is asked for
        steps(elements(*computing()), unroll=True),
        steps(elements(*computing(), COMPUTED)),  # written where there is no step, too
        steps(elements(*computing(), Synchronize())),
        steps(elements(Declare(OWN), store(OWN), NOTHING, COMPUTED)),
        steps(elements(Declare(OWN), If(THERE, (store(OWN),)))),  # nothing is left where none is
    ],
)
def test_what_stays(loop: Statement) -> None:
    assert asked(loop) == loop
