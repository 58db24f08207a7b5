"""Passes of lowering leave kernels with clusters right: no launch knows a block's rank."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.cluster_kernels import WAYS, RowSum, X, simulate_sum
from tests.support.cluster_roles import RoleSum, simulate_roles
from warpsmith.ir import integers
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.clusters import RANK, rank_of
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Let, Store, Symbol
from warpsmith.kernel.traversal import map_expressions, walk
from warpsmith.lower.passes.derive_scalars import derive_scalars
from warpsmith.lower.passes.multiply_divisions import multiply_divisions
from warpsmith.lower.pipeline import PASSES, passed
from warpsmith.lower.request import Request
from warpsmith.protocol.launched import launch_values

BEHIND_TURNS = tuple(each for each in PASSES if not each.name.startswith("turn_"))
"""Passes that take kernels whose barriers are there."""


def lowered(kernel: Kernel) -> Kernel:
    kernel = passed(kernel, Request(), passes=BEHIND_TURNS)
    assert kernel.derived == ()
    return kernel


@pytest.mark.parametrize("way", WAYS)
def test_sums_of_rows(way: str) -> None:
    case = RowSum(way, 2)
    kernel = lowered(case.kernel())
    assert kernel.body != case.kernel().body
    assert kernel.scalars == ()
    report = simulate_sum(case, kernel, schedules=3)
    assert report.verdict == "clean", str(report)
    np.testing.assert_array_equal(report.arrays["Y"], case.expected(case.inputs()))


def test_roles() -> None:
    case = RoleSum(2)
    kernel = lowered(case.kernel())
    assert kernel.scalars == ()
    report = simulate_roles(case, kernel, schedules=3)
    assert report.verdict == "clean", str(report)
    np.testing.assert_array_equal(report.arrays["Y"], case.expected(case.inputs()))


def test_no_launch_derives_what_depends_on_the_rank() -> None:
    case = RowSum("push", 4)
    name = Symbol("far", low=0)
    kernel = case.kernel()
    kernel = replace(kernel, body=(Let(name, integers.mul(case.rank, 128)), *kernel.body))
    assert derive_scalars(kernel) is kernel


def test_no_launch_divides_by_what_depends_on_the_rank() -> None:
    case = RowSum("push", 4)
    quotient = integers.floordiv(X, integers.add(case.rank, 1))
    kernel = case.kernel()
    (stored,) = (s for s in walk(kernel.body) if isinstance(s, Store) and s.buffer.name == "Y")
    divided = map_expressions(stored, lambda e: quotient if e == stored.index else e)
    assert multiply_divisions(replace(kernel, body=(divided,))).reciprocals == ()


def test_the_protocol_check_knows_the_rank_of_its_block() -> None:
    launch = replace(RowSum("push", 2).launch, cluster=(2, 3, 2))
    kernel = replace(RowSum("push", 2).kernel(), launch=launch)
    for block, rank in (((0, 0, 0), 0), ((3, 0, 0), 1), ((2, 4, 0), 2), ((1, 5, 3), 11)):
        assert launch_values(kernel, {}, block)[RANK] == rank == rank_of(block, launch.cluster)
    assert evaluate(RowSum("push", 2).rank, launch_values(kernel, {}, (1, 0, 0))) == 1
