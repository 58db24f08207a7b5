"""A sum of everything, of which rows are summed before, is one sum where rows are nobody else's."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from warpsmith import fuse, ops

X = torch.randn(6, 5, 32, generator=torch.Generator().manual_seed(0))


def scaled(x: Any, n: Any) -> Any:
    return -n.mean(n.mean(n.sum(x * x, [1]) / 5, [1]) * 3, [0]) / 7


def kept(x: Any, n: Any) -> Any:
    return n.sum(n.sum(x, [2], keepdim=True) * 2, [0, 1, 2])


def of_rows_that_others_walk(x: Any, n: Any) -> Any:
    return n.mean(n.sum(x, [1, 2]), [0]) + n.mean(n.exp(-n.sum(x * x, [1, 2])), [0])


def that_others_need(x: Any, n: Any) -> Any:
    rows = n.sum(x, [2])
    return n.sum(rows, [0, 1]) + rows


def not_linear(x: Any, n: Any) -> Any:
    return n.sum(n.sum(x, [2]) ** 2, [0, 1])


def repeated(x: Any, n: Any) -> Any:
    rows = n.sum(x, [2], keepdim=True)
    wide = ops.expand(rows, (6, 5, 4)) if n is ops else rows.expand(6, 5, 4)
    return n.sum(wide, [0, 1, 2])


def along_a_dimension(x: Any, n: Any) -> Any:
    return n.sum(n.sum(x, [2]), [1])


CASES: list[tuple[Callable[[Any, Any], Any], int]] = [
    (scaled, 1),
    (kept, 1),
    (of_rows_that_others_walk, 3),
    (that_others_need, 2),
    (not_linear, 2),
    (repeated, 2),
    (along_a_dimension, 2),
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("program", "kernels"), CASES)
def test_rows_are_not_summed_before(program: Callable[[Any, Any], Any], kernels: int) -> None:
    f = fuse(lambda x: program(x, ops))
    compiled = f.lower(X).compile()
    told = compiled.explain()
    assert (int(told.split()[0]), told.count(": T0 ->")) == (kernels, 1)
    assert compiled.verify(schedules=2).verdict == "clean"
    torch.testing.assert_close(f(X), program(X, torch))
