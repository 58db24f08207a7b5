"""Stages of several rows, some of which are not there in a block's last turn."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from bench.norm_backward import layer_norm_bwd
from bench.row_shapes import plan
from tests.protocol.edits import edited, instead, refused
from warpsmith import knobs
from warpsmith.errors import ProtocolError
from warpsmith.ir import integers
from warpsmith.kernel.elected import CopyIf
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.rings import Expect, TileCopy
from warpsmith.kernel.traversal import walk
from warpsmith.protocol import check
from warpsmith.protocol.sizes import symbols_of
from warpsmith.targets.hopper import H200

COLUMNS, BLOCKS = 1024, 4


@cache
def kernel() -> Kernel:
    """Blocks of a LayerNorm's backward, which have several rows at a time."""
    with knobs.scope(target="h200"):
        first = plan(layer_norm_bwd(2000, COLUMNS, "bfloat16")).launches[0]
    assert getattr(first.params, "at_once", 0) > 1
    return first.compiled.kernel


def values(rows: int) -> dict[str, int]:
    sizes = {name: COLUMNS for name in symbols_of(kernel()) if name.endswith("size1")}
    sizes |= {"T2_size0": COLUMNS}
    many = {name: rows for name in symbols_of(kernel()) if name.endswith("size0")}
    return {**dict.fromkeys(symbols_of(kernel()), 1), **many, **sizes, "row_blocks": BLOCKS}


def test_they_are_announced_once() -> None:
    announced = [s.arrives for s in walk(kernel().body) if isinstance(s, Expect)]
    assert announced
    assert all(announced)


def test_copies_of_a_row_are_asked_for_together() -> None:
    """Of both inputs, under the condition that the row is there."""
    asked = [s for s in walk(kernel().body) if isinstance(s, CopyIf)]
    assert asked
    copies = [[s for s in walk(each.body) if isinstance(s, TileCopy)] for each in asked]
    assert {len(of_a_row) for of_a_row in copies} == {2}


@pytest.mark.parametrize("rows", [4, 5, 31, 32, 33, 61, 200])
def test_each_number_of_rows_is_right(rows: int) -> None:
    assert check(kernel(), values(rows), target=H200).steps > 0


def more(by: int) -> Callable[[Expect], Expect]:
    return lambda e: replace(e, bytes=integers.add(e.bytes, by))


@pytest.mark.parametrize("by", [16, -16, 2 * COLUMNS])
def test_other_bytes_than_are_copied_are_refused(by: int) -> None:
    with pytest.raises(ProtocolError, match="WS090[15]"):
        check(edited(kernel(), instead(Expect, more(by))), values(33), target=H200)


def test_a_copy_of_a_row_that_is_not_announced_is_refused() -> None:
    """One that is there in all turns, behind the last one of a stage that is full."""
    whole = instead(TileCopy, lambda c: replace(c, condition=integers.TRUE))
    refused(edited(kernel(), whole), values(33), "WS0905")
