"""Blocks of rows beside sums of columns: how many, how far ahead, in which registers."""

import re
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.norms_backward import layer_norm_backward, rms_norm_backward
from warpsmith.runtime.arrays import NUMPY_DTYPES
from warpsmith.schedulers.rows.turns import AHEAD_US
from warpsmith.targets.hopper import H200

pytestmark = pytest.mark.usefixtures("uncompiled")


def chosen(rows: int, columns: int, *, sums: int = 2) -> dict[str, int]:
    """Parameters of the kernel of rows, and its `blocks`, for norms backward of bfloat16 with so
    many sums of columns.
    """
    kind = NUMPY_DTYPES["bfloat16"]
    x, stat = np.empty((rows, columns), kind), np.empty((rows, 1), np.float32)
    program: Any = layer_norm_backward if sums == 2 else rms_norm_backward
    inputs = (x, x, np.empty(columns, kind), *sums * [stat])
    made = warpsmith.fuse(program).lower(*inputs).compile()
    words = made.explain().split("kernel 1")[0]
    parameters = next(line for line in words.splitlines() if line.startswith("  parameters"))
    found = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", parameters)}
    grid = re.search(r"grid \((\d+), 1, (\d+)\)", words)
    assert grid is not None
    blocks, _ = map(int, grid.groups())
    at_once = found["block_y"] * found["rows_per_thread"]
    return {**found, "blocks": blocks, "at_once": at_once, "stage": 4 * columns * at_once}


@pytest.mark.parametrize(
    ("rows", "columns", "blocks"),
    [(1369, 3048, 115), (863, 9320, 124), (771, 6920, 129), (2096, 4096, 131), (60, 4096, 30)],
)
def test_as_few_as_take_no_more_turns(rows: int, columns: int, blocks: int) -> None:
    """Each leaves sums to add."""
    found = chosen(rows, columns)
    at_once = found["at_once"]
    turns = -(-rows // (132 * found["blocks_per_sm"] * at_once))
    assert found["blocks"] == blocks
    assert (found["blocks"] - 1) * turns * at_once < rows <= found["blocks"] * turns * at_once


@pytest.mark.few(3)
@pytest.mark.parametrize("columns", [1088, 1728, 3392, 3712, 4032, 8896, 9344, 9920, 11712, 14400])
def test_the_memory_is_asked_for_enough_ahead_and_no_more(columns: int) -> None:
    """Bytes that are on their way while a multiprocessor works on others."""
    for sums in (1, 2):
        found = chosen(2350, columns, sums=sums)
        each = found["stage"] * found["blocks_per_sm"] // found.get("cluster", 1)
        enough = AHEAD_US * H200.sm_memory
        assert (found["ring"] - 1) * each >= enough
        assert found["ring"] == 2 or (found["ring"] - 2) * each < enough


@pytest.mark.parametrize(
    ("columns", "shape"),
    [(1544, (128, 1, 3, 1)), (8936, (256, 1, 1, 1)), (36168, (128, 1, 2, 8))],
)
def test_registers_that_are_just_enough_are_not(columns: int, shape: tuple[int, ...]) -> None:
    """8192 rows took 31.1, 122.6 and 486.1 microseconds with 8 registers to spare or fewer, and
    28.8, 113.9 and 469.7 so (one H200, 2026-11-27).
    """
    found = chosen(8192, columns)
    names = ("block_x", "block_y", "blocks_per_sm", "cluster")
    assert tuple(found[name] for name in names) == shape


@pytest.mark.few(1)
@pytest.mark.parametrize("columns", [8200, 8504, 8840])
def test_two_rows_of_many_elements_are_not_a_threads(columns: int) -> None:
    """8192 rows of 8504 took 114.2 microseconds so, and 107.1 with one (one H200, 2026-11-27)."""
    found = chosen(8192, columns)
    assert (found["unroll"] * found["vector"], found["rows_per_thread"]) == (40, 1)
    assert chosen(8192, columns, sums=1)["rows_per_thread"] == 2
