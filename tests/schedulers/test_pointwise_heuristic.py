"""Which pointwise loads leave no copy in L1."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warpsmith
from warpsmith.codegen.prelude.vector import LoadHint


def hints(function: Callable[..., Any], *inputs: np.ndarray) -> set[int]:
    """Hints of the loads of the one kernel."""
    text = str(warpsmith.fuse(function).lower(*inputs).compile().asm["cuda"])
    calls = text[text.index('extern "C"') :].split("ws_load<")[1:]
    return {int(call.split(">")[0].split(",")[2]) for call in calls}


@pytest.mark.parametrize(("rows", "hint"), [(4096, LoadHint.NC_NO_ALLOCATE), (8192, LoadHint.NC)])
def test_what_is_read_once_is_kept_from_l1_unless_it_is_much(rows: int, hint: LoadHint) -> None:
    x = np.empty((rows, 1024), np.float32)
    assert hints(lambda x, y: x + y, x, x) == {hint}


def test_what_is_read_again_stays_in_l1() -> None:
    x, bias = np.empty((64, 1024), np.float32), np.empty(1024, np.float32)
    assert hints(lambda x, b: x + b, x, bias) == {LoadHint.NC_NO_ALLOCATE, LoadHint.NC}


@pytest.mark.parametrize(
    ("elements", "vector"), [(128, 1), (1 << 14, 1), (1 << 15, 4)]
)  # 132 multiprocessors have a block of 128 threads each of up to 16,896
def test_elements_that_take_long_are_a_thread_each_where_there_are_threads(
    elements: int, vector: int
) -> None:
    x = np.empty(elements, np.float32)
    turned = warpsmith.fuse(lambda x: warpsmith.ops.sin(x) * 2)
    doubled = warpsmith.fuse(lambda x: x * 2)
    assert f"vector={vector}," in turned.lower(x).compile(target="h200").explain()
    assert "vector=4," in doubled.lower(x).compile(target="h200").explain()
