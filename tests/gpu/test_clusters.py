"""Clusters on the GPU: blocks reach each other's shared memory, and stay right over many launches.

Each kernel is launched in a process of its own: one that hangs ends there.
"""

import pytest

from tests.roles.test_cluster_rows import CASES, Rows
from tests.support.apart import apart
from tests.support.cluster_launches import row_launches
from warpsmith.runtime.clusters import clusters_at_once
from warpsmith.runtime.driver import device_properties
from warpsmith.targets.hopper import H200

LAUNCHES = 1000
TIMEOUT = 120.0

SIXTEEN = Rows(blocks=16, threads=32)
"""The driver refuses the launch of so many unless the kernel is allowed to."""


@pytest.mark.parametrize("case", [*CASES, SIXTEEN], ids=repr)
def test_rows_of_a_cluster(case):
    assert apart(row_launches, case, LAUNCHES, timeout=TIMEOUT) == 0


def test_clusters_at_once():
    """Blocks that have all of a multiprocessor's shared memory: no more of them than of these."""
    sizes = tuple(blocks for blocks, _ in H200.clusters)
    found = clusters_at_once(0, "sm_90a", sizes)
    assert tuple(blocks for blocks, _ in found) == sizes
    multiprocessors = device_properties(0).sm_count
    for blocks, count in found:
        assert 0.75 * multiprocessors <= blocks * count <= multiprocessors
