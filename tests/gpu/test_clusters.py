"""Clusters on the GPU: blocks reach each other's shared memory, and stay right over many launches.

Each kernel is launched in a process of its own: one that hangs ends there.
"""

from __future__ import annotations

import pytest

from tests.support.apart import apart
from tests.support.cluster_kernels import WAYS, RowSum
from tests.support.cluster_launches import launch_often
from tests.support.cluster_roles import RoleSum
from warpsmith.runtime.clusters import clusters_at_once
from warpsmith.runtime.driver import device_properties
from warpsmith.targets.hopper import H200

LAUNCHES = 1000
TIMEOUT = 120.0
MANY = 500
"""Clusters of a launch: far more than run at once."""

MEETINGS = ("push", "pull", "gather")


@pytest.mark.parametrize("blocks", [2, 3, 4, 8])
@pytest.mark.parametrize("way", WAYS)
def test_sums_of_rows(way, blocks):
    assert apart(launch_often, RowSum(way, blocks, clusters=MANY), LAUNCHES, timeout=TIMEOUT) == 0


@pytest.mark.parametrize("way", MEETINGS)
def test_several_rows_in_the_same_place(way):
    case = RowSum(way, 4, rows=5, clusters=MANY)
    assert apart(launch_often, case, LAUNCHES, timeout=TIMEOUT) == 0


@pytest.mark.parametrize("way", WAYS)
def test_clusters_that_must_be_asked_for(way):
    """Sixteen blocks: the driver refuses the launch unless the kernel is allowed to."""
    case = RowSum(way, 16, clusters=MANY)
    assert apart(launch_often, case, LAUNCHES, timeout=TIMEOUT) == 0


@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_roles(blocks):
    case = RoleSum(blocks, clusters=MANY)
    assert apart(launch_often, case, LAUNCHES, timeout=TIMEOUT) == 0


def test_clusters_at_once():
    """Blocks that have all of a multiprocessor's shared memory: no more of them than of these."""
    sizes = tuple(blocks for blocks, _ in H200.clusters)
    found = clusters_at_once(0, "sm_90a", sizes)
    assert tuple(blocks for blocks, _ in found) == sizes
    multiprocessors = device_properties(0).sm_count
    for blocks, count in found:
        assert 0.75 * multiprocessors <= blocks * count <= multiprocessors
