"""The check is to cost no more than it is worth: milliseconds, on every compile.

Budgets are those of a quiet machine, several times what the check takes there; the least of several
runs is held against twice as much, since machines that run tests are not quiet.
"""

from __future__ import annotations

import time

import pytest

from tests.protocol.kernels import matmul, norm
from tests.support.role_kernels import RoleCase
from warpsmith.protocol import check

SLACK = 2.0


@pytest.mark.parametrize(("case", "budget_ms"), [(norm(), 20), (matmul(), 50)], ids=["norm", "mm"])
def test_is_fast(case: RoleCase, budget_ms: float) -> None:
    times = []
    for _ in range(7):
        start = time.process_time()
        check(case.kernel, case.values)
        times.append(time.process_time() - start)
    assert min(times) * 1e3 < budget_ms * SLACK


def test_long_loops_cost_little_more_than_short_ones() -> None:
    short, long = (matmul(tiles, 128) for tiles in (16, 256))
    few, many = (check(case.kernel, case.values) for case in (short, long))
    assert many.steps > 15 * few.steps
    assert many.taken < 4 * few.taken
