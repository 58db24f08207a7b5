"""Products by group, whose rows an agent looks up ahead of all others."""

from dataclasses import replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.grouped import by_group
from tests.support.simulating import reported
from warpsmith import fuse, ops
from warpsmith.engine.executable import Executable
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.printer import kernel_text
from warpsmith.schedulers.matmul import heuristic
from warpsmith.sim.report import Report

BFLOAT16 = ml_dtypes.bfloat16
ROWS, N, K = 330, 136, 200
ENDS = np.array([0, 1, 20, 20, 190, 254, 318], np.int32)
SIZES = {"T0_size0": ROWS, "T0_size1": K, "T1_size0": len(ENDS), "T1_size1": N, "T1_size2": K}
SIZES["T2_size0"] = len(ENDS)

grouped = fuse(lambda x, w, ends: ops.grouped_matmul(x, w, ends))


def operands(seed: int) -> tuple[Any, Any]:
    """Small whole numbers: every sum is exact in float, and rounded once."""
    random = np.random.default_rng(seed)
    shapes = (ROWS, K), (len(ENDS), N, K)
    x, w = (random.integers(-4, 5, shape).astype(BFLOAT16) for shape in shapes)
    return x, w


@cache
def product(cluster: tuple[int, int] = (1, 1), band: int = 3) -> Kernel:
    """64 x 64 tiles, three along n, which four blocks loop over in bands."""
    usual: dict[str, Any] = {"tile": (64, 64, 64), "chunk": 32, "store_stages": 2, "stages": 3}
    usual |= {"stream": True, "splits": 1, "once": False, "blocks": 4, "cluster": cluster}
    usual["group"] = band
    chosen = heuristic.choose
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heuristic, "choose", lambda *asked: replace(chosen(*asked), **usual))
        given = (*operands(0), ENDS)
        (launch,) = Executable(grouped.lower(*given).fusion).plan_for(list(given)).launches
    return launch.compiled.kernel


def report_of(kernel: Kernel, x: Any, w: Any, ends: Any, schedules: int = 4) -> Report:
    names = iter(buffer.name for buffer in kernel.parameters)
    memory = dict(zip(names, (x, w, ends), strict=False))
    return reported(kernel, SIZES, memory, schedules=schedules)


@pytest.mark.few(2)
@pytest.mark.parametrize("cluster", [(1, 1), (1, 2), (2, 1)])
def test_one_agent_looks_up_for_all(cluster: tuple[int, int]) -> None:
    """Nothing that the others do between two tiles searches: 1 to 6 % of their time (an H200)."""
    branches = [s for s in product(cluster).body if isinstance(s, Branch)]
    texts = {b.agent.name: kernel_text(replace(product(cluster), body=(b,))) for b in branches}
    assert {name for name, text in texts.items() if "group_row(" in text} == {"rows"}
    assert texts["rows"].count("group_row(") == 1
    assert all("rows[" in text for text in texts.values())


@pytest.mark.few(1)
@pytest.mark.parametrize("band", [1, 2, 3])
@pytest.mark.parametrize("cluster", [(1, 1), (1, 2), (2, 1)])
@pytest.mark.parametrize("seed", range(4))
def test_sums_are_exact_whatever_memory_says(
    cluster: tuple[int, int], seed: int, band: int
) -> None:
    """One kernel, of groups without rows, of less than a tile and of several; rows of none. Tiles
    without rows are the last ones of each band.
    """
    x, w = operands(seed)
    random = np.random.default_rng(seed)
    ends = np.sort(random.integers(0, ROWS + 1, len(ENDS)).astype(np.int32)) if seed else ENDS
    report = report_of(product(cluster, band), x, w, ends, schedules=2)
    assert report.verdict == "clean", str(report)
    wanted = by_group(x, w, ends).astype(BFLOAT16)
    np.testing.assert_array_equal(report.arrays["T4"].reshape(ROWS, N), wanted)
