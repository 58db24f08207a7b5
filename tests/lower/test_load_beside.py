"""Words that are loaded a turn ahead, by predicates beside rows that threads load by predicates."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.lower.test_ask_once import MEMORY, ROWS, TURN, kernel_of
from tests.lower.test_ask_once import ROW as ROW_NUMBER
from tests.support.norms_backward import Case, layer_norm_backward, on_simulator, rms_norm_backward
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, CopyVector, Element, For, If, Statement, Store
from warpsmith.lower.passes.load_beside import load_beside

NEXT = integers.add(TURN, 1)
AHEAD = integers.less(NEXT, integers.ceildiv(ROWS, 2))
THERE = integers.less(integers.mul(NEXT, 2), ROWS)
WORDS = Buffer("T5", DataType.Float, MemoryType.local, Const(2))
ROW = Buffer("T6", DataType.BFloat16, MemoryType.local, Const(8))
ROWS_OF = Buffer("T1", DataType.BFloat16, MemoryType.global_, ROWS)
VECTOR = CopyVector(ROW, integers.ZERO, ROWS_OF, integers.mul(TURN, 8), 8)
ROW_LOAD = If(integers.less(TURN, ROWS), (VECTOR,))
WORD = Store(WORDS, integers.ONE, Element(MEMORY, NEXT))


def in_turns(*body: Statement, unroll: bool = False) -> Kernel:
    made: Kernel = kernel_of((For(TURN, integers.ceildiv(ROWS, 2), body, unroll=unroll),))
    return made


def test_a_word_gets_both_conditions() -> None:
    kernel = in_turns(If(AHEAD, (If(THERE, (WORD,)),), uniform=True), ROW_LOAD)
    (loop,) = load_beside(kernel).body
    assert isinstance(loop, For)
    copy = CopyVector(WORDS, integers.ONE, MEMORY, NEXT, 1)
    assert loop.body == (If(integers.conjunction(AHEAD, THERE), (copy,)), ROW_LOAD)


def ahead(*body: Statement) -> If:
    return If(AHEAD, body, uniform=True)


FLOATS = replace(ROW, dtype=DataType.Float)
HALF = Buffer("T7", DataType.BFloat16, MemoryType.local, Const(2))


@pytest.mark.parametrize(
    "body",
    [
        (ahead(WORD),),  # no rows
        (ahead(WORD), VECTOR),  # no predicate
        (ahead(WORD), If(ROW_LOAD.condition, (replace(VECTOR, target=FLOATS),))),  # a branch
        (ahead(WORD), ROW_LOAD, If(THERE, (For(ROW_NUMBER, Const(2), (), unroll=True),))),  # a pass
        (If(AHEAD, (WORD,)), ROW_LOAD),  # not of a whole block
        (ahead(WORD, VECTOR), ROW_LOAD),  # more than words
        (ahead(Store(HALF, integers.ONE, Element(ROWS_OF, NEXT))), ROW_LOAD),  # less than a word
        (ahead(Store(WORDS, integers.ONE, Element(WORDS, integers.ZERO))), ROW_LOAD),  # no load
    ],
)
def test_what_stays(body: tuple[Statement, ...]) -> None:
    kernel = in_turns(*body)
    assert load_beside(kernel) is kernel


def test_outside_of_turns_branches_stay() -> None:
    kernel = in_turns(ahead(WORD), ROW_LOAD, unroll=True)
    assert load_beside(kernel) is kernel


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("columns", "dtype", "predicates"),
    [
        *[(64, "bfloat16", 2), (136, "bfloat16", 2), (264, "bfloat16", 0)],
        *[(64, "float32", 0), (1024, "bfloat16", 0)],
    ],
)
def test_statistics_of_short_rows(columns: int, dtype: str, predicates: int) -> None:
    """Not those of rows whose last pass is in a branch, or that come in whole registers, or by
    copies.
    """
    inputs = Case((5000, columns), dtype).inputs(layer_norm_backward)
    made = warpsmith.fuse(layer_norm_backward).lower(*inputs).compile()
    text = str(made.asm["cuda"]).split("__global__")[1]
    assert text.count("ws_load_where<1>(v, ((i0 + 1) < ") == predicates


@pytest.mark.parametrize("program", [rms_norm_backward, layer_norm_backward])
def test_against_float64(program: Any) -> None:
    """Rows that are no multiple of those of a turn, and blocks that have none left."""
    case = Case((35001, 64), "bfloat16")
    found = on_simulator(program, case.inputs(program))
    for result, expected in zip(found, case.expected(program), strict=True):
        np.testing.assert_allclose(result.astype(np.float64), expected, 2.0**-6, 2.0**-6)
