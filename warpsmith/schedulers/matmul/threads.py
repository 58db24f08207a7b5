"""Registers of the threads that multiply, by how many warp groups do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from warpsmith.schedulers.matmul.params import Numbers
from warpsmith.targets.family import BUDGETS, WARP, WARP_GROUP, Limits

GROUP_THREADS = WARP_GROUP * WARP


def of_each(registers: Callable[[Limits, int], int], limits: Limits, groups: Numbers) -> Numbers:
    """Registers of a thread, by the warp groups of each schedule."""
    most = int(groups.max(initial=0))
    return np.array([0, *(registers(limits, g + 1) for g in range(most))], np.int64)[groups]


def at_start(limits: Limits, groups: int) -> int:
    """Registers of a thread that a kernel of so many groups, and one that loads, starts with."""
    return _each(limits, groups + 1)


def beside_loads(limits: Limits, groups: int) -> int:
    """Registers of a thread of so many warp groups, beside one that loads with the fewest."""
    return _each(limits, groups, taken=GROUP_THREADS * BUDGETS.start)


def _each(limits: Limits, groups: int, taken: int = 0) -> int:
    """Registers of a thread of so many warp groups, which share those that are not taken."""
    each = (limits.sm_registers - taken) // (GROUP_THREADS * groups) // BUDGETS.step * BUDGETS.step
    return min(each, limits.thread_registers)
