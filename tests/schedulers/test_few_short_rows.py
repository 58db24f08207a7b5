"""Few short rows: no thread has several while a multiprocessor has none."""

import re
from typing import Any

import pytest
import torch

from tests.support.binaries import uncompiled
from warpsmith import fuse, ops


def softmax(x: Any) -> Any:
    e = ops.exp(x - ops.max(x, [-1], keepdim=True))
    return e / ops.sum(e, [-1], keepdim=True)


@pytest.mark.parametrize(("rows", "each"), [(1052, 1), (2_000_000, 4)])
def test_rows_of_a_thread(rows: int, each: int) -> None:
    with uncompiled():
        said = fuse(softmax).lower(torch.empty(rows, 8)).compile().explain()
    assert re.findall(r"rows_per_thread=(\d+)", said) == [str(each)], said
