"""Launches of clusters: which grids are refused, and what large clusters ask the driver for."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from warpsmith.errors import DeviceError
from warpsmith.runtime import launch
from warpsmith.runtime.launch import LoadedKernel, check_clusters

driver = pytest.importorskip("cuda.bindings.driver")


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


class FakeDriver:
    """A driver that knows one function, compiled for a cluster."""

    CUfunction_attribute = driver.CUfunction_attribute
    CUstream = driver.CUstream
    cuLaunchKernel = None  # noqa: N815

    def __init__(self, cluster: Sequence[int]) -> None:
        kinds = self.CUfunction_attribute
        self._known = {
            kinds.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: cluster[0],
            kinds.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: cluster[1],
            kinds.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: cluster[2],
        }
        self.asked: list[tuple[Any, int]] = []

    def cuModuleLoadData(self, cubin: bytes) -> tuple[int, str]:  # noqa: N802
        return 0, "module"

    def cuModuleGetFunction(self, module: str, name: bytes) -> tuple[int, str]:  # noqa: N802
        return 0, "function"

    def cuFuncLoad(self, function: str) -> tuple[int]:  # noqa: N802
        return (0,)

    def cuFuncGetAttribute(self, kind: Any, function: str) -> tuple[int, int]:  # noqa: N802
        return 0, self._known[kind]

    def cuFuncSetAttribute(self, function: str, kind: Any, value: int) -> tuple[int]:  # noqa: N802
        self.asked.append((kind, value))
        return (0,)


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
    fake = FakeDriver(cluster)
    monkeypatch.setattr(launch, "initialized", lambda: fake)
    monkeypatch.setattr(launch, "ensure_context", lambda ordinal: "context")
    binary: Any = SimpleNamespace(cubin=b"", static_shared_bytes=0)
    LoadedKernel(binary, "k", 0)
    kind = fake.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
    assert fake.asked == ([(kind, 1)] if large else [])
