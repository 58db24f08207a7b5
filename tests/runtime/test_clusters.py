"""Launches of clusters: which grids are refused, and what large clusters ask the driver for."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.fake_driver import FakeDriver, bindings, install
from warpsmith.errors import DeviceError
from warpsmith.runtime import launch
from warpsmith.runtime.launch import LoadedKernel, check_clusters


@pytest.mark.parametrize(
    ("grid", "cluster"),
    [((8, 1, 1), (1, 1, 1)), ((8, 3, 1), (4, 3, 1)), ((6, 4, 10), (3, 2, 5))],
)
def test_multiples_of_a_cluster(grid: launch.Extent, cluster: launch.Extent) -> None:
    check_clusters("k", grid, cluster)


@pytest.mark.parametrize(
    ("grid", "cluster"),
    [((7, 1, 1), (2, 1, 1)), ((8, 3, 1), (4, 2, 1)), ((6, 4, 9), (3, 2, 5))],
)
def test_grids_that_are_refused(grid: launch.Extent, cluster: launch.Extent) -> None:
    with pytest.raises(DeviceError, match="kernel `k` has a grid of .* no multiple") as failure:
        check_clusters("k", grid, cluster)
    assert failure.value.code == "WS0606"


@pytest.mark.parametrize(
    ("cluster", "large"),
    [
        ((0, 0, 0), False),
        ((8, 1, 1), False),
        ((2, 2, 2), False),
        ((3, 3, 1), True),
        ((16, 1, 1), True),
    ],
)
def test_large_clusters_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, cluster: Sequence[int], large: bool
) -> None:
    fake = install(monkeypatch, FakeDriver())
    fake.cluster = cluster
    binary: Any = SimpleNamespace(cubin=b"", static_shared_bytes=0)
    LoadedKernel(binary, "k", 0)
    kind = bindings.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
    assert fake.asked == ([(kind, 1)] if large else [])
