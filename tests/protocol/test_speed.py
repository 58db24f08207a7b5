"""The check is to cost no more than it is worth: milliseconds, on every compile.

Budgets are those of a quiet machine, several times what the check takes there; the least of several
runs is held against twice as much, since machines that run tests are not quiet.
"""

import time

import pytest

from bench import protocol as bench
from tests.protocol.kernels import chain, matmul
from tests.support.role_kernels import RoleCase
from warpsmith import DataType
from warpsmith.engine.proofs import prove
from warpsmith.kernel.kernel import Kernel
from warpsmith.lower.pipeline import lower
from warpsmith.protocol import check
from warpsmith.targets.hopper import H200

SLACK = 2.0


@pytest.mark.parametrize(("case", "budget_ms"), [(chain(), 30), (matmul(), 50)])
def test_is_fast(case: RoleCase, budget_ms: float) -> None:
    times = []
    for _ in range(7):
        start = time.process_time()
        check(case.kernel, case.values, target=H200)
        times.append(time.process_time() - start)
    assert min(times) * 1e3 < budget_ms * SLACK


def test_long_loops_cost_little_more_than_short_ones() -> None:
    short, long = (matmul(tiles, 128) for tiles in (16, 256))
    few, many = (check(case.kernel, case.values, target=H200) for case in (short, long))
    assert many.steps > 15 * few.steps
    assert many.taken < 4 * few.taken


@pytest.fixture(scope="module")
def product() -> Kernel:
    """What the scheduler makes of a large matrix product."""
    return lower(bench.matmul(), "matmul", DataType.Int32, target=H200)


def sizes(rows: int, columns: int, depth: int) -> dict[str, int]:
    names = ("T0_size0", "T0_size1", "T1_size0", "T1_size1")
    return dict(zip(names, (rows, depth, columns, depth), strict=True))


def test_both_blocks_of_a_large_product_are_fast(product: Kernel) -> None:
    times = []
    for _ in range(7):
        start = time.process_time()
        prove(product, sizes(8192, 8192, 8192), H200)
        times.append(time.process_time() - start)
    assert min(times) * 1e3 < 100 * SLACK  # groups that take turns, in clusters


def test_a_deep_product_costs_no_more_than_a_shallow_one(product: Kernel) -> None:
    few, many = (check(product, sizes(8192, 8192, depth), target=H200) for depth in (8192, 65536))
    assert many.steps > 7 * few.steps
    assert many.taken == few.taken


def test_tiles_of_a_product_cost_less_than_their_number(product: Kernel) -> None:
    few, many = (check(product, sizes(rows, 8192, 8192), target=H200) for rows in (8192, 65536))
    assert many.steps > 7 * few.steps
    assert many.taken < 3 * few.taken
