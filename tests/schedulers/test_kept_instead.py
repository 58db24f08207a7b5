"""Rows that are read once, and are kept in registers all the same."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import warpsmith
from tests.support.against_torch import defined
from warpsmith import DataType, knobs, ops
from warpsmith.ops.rules import CarryRule
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200


def wide(x: Any) -> Any:
    return ops.cast(x, DataType.Float)


def sums(x: Any) -> Any:
    return ops.sum(wide(x), [-1])


def places(x: Any) -> Any:
    return ops.argmax(x, -1)


def reason(function: Callable[..., Any], *shapes: tuple[int, ...]) -> str:
    """Why the scheduler of reductions leaves rows of bfloat16 to another one."""
    given = [torch.empty(shape, dtype=torch.bfloat16) for shape in shapes]
    fusion = warpsmith.fuse(function).lower(*given).fusion
    names = (f"T{n}_size{d}" for n, shape in enumerate(shapes) for d in range(len(shape)))
    sizes = dict(zip(names, (size for shape in shapes for size in shape), strict=True))
    candidate = select(fusion, H200)
    assert candidate.scheduler == "reduction"
    return candidate.unsupported_sizes(Problem(values=sizes, alignment={}, target=H200))


@pytest.mark.parametrize("columns", [525, 2443, 15001, 57879, 2504])
def test_rows_that_no_vector_divides_are_read_in_vectors(columns: int) -> None:
    assert reason(sums, (1000, columns)).endswith("anywhere in memory") == (columns != 2504)


def test_accesses_of_4_bytes_do_for_long_rows() -> None:
    assert reason(sums, (1000, 7998)) == ""


def test_what_has_a_way_of_its_own_is_left_to_it() -> None:
    assert reason(lambda x: ops.sum(wide(x)), (1000, 1024)) == ""
    assert reason(lambda x: ops.logsumexp(wide(x), [-1]), (1000, 525)) == ""
    assert reason(lambda x, y: sums(wide(x) * wide(y)), (1000, 1024), (1024,)) == ""
    assert reason(places, (1000, 59612)).startswith("the place")


@pytest.mark.parametrize("columns", [525, 1001, 264])
def test_places_are_those_of_the_first_extreme(columns: int) -> None:
    x = torch.randint(-9, 9, (6, columns)).to(torch.bfloat16)
    x[1], x[2] = -torch.inf, 0
    x[2, 5:] = -0.0
    x[3, 77] = x[3, 99] = torch.nan
    x[4, 9] = torch.inf
    x[5, -1] = 300
    with knobs.scope(device="sim"):
        most, least = defined(
            lambda x: (ops.argmax(x, 1), ops.argmin(x, 1)), x, static=True
        ).execute([x])
    assert torch.equal(most, x.float().argmax(1))
    assert torch.equal(least, x.float().argmin(1))


def test_a_rule_of_the_same_name_keeps_its_own_meaning() -> None:
    def last(a: Any, b: Any) -> Any:
        tied = ops.logical_and(ops.eq(b.value, a.value), ops.gt(b.index, a.index))
        behind = ops.logical_or(ops.gt(b.value, a.value), tied)
        return ops.where(behind, b.value, a.value), ops.where(behind, b.index, a.index)

    rule = CarryRule(name="argmax", identity={"value": -math.inf, "index": -math.inf}, join=last)
    x, numbers = torch.randint(-2, 3, (4, 300)).float(), torch.arange(300).repeat(4, 1)

    def places(x: Any, numbers: Any) -> Any:
        return ops.reduce((x, numbers), rule, [1])

    with knobs.scope(device="sim"):
        _, found = defined(places, x, numbers, static=True).execute([x, numbers])
    assert torch.equal(found, 299 - x.flip(1).argmax(1))
