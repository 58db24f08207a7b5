"""Clusters: which grids are refused, what large ones ask the driver for, how many run at once."""

from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.fake_driver import OK, FakeDriver, bindings, install
from tests.support.machine_code import machine_lines
from warpsmith.errors import DeviceError
from warpsmith.runtime import clusters, launch
from warpsmith.runtime.cache import CubinCache
from warpsmith.runtime.launch import LoadedKernel, check_clusters
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Source
from warpsmith.targets.empty_kernel import ENTRY, KEPT, TEXT, kept


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


class Counting(FakeDriver):  # type: ignore[misc]  # `importorskip` gives any type
    """Says how many clusters run at once, and takes no machine code of these."""

    def __init__(self, *refused: bytes | None) -> None:
        super().__init__()
        self._refused = refused
        self.tried: list[bytes] = []

    def cuModuleLoadData(self, cubin: bytes) -> tuple[Any, Any]:  # noqa: N802
        self.tried.append(cubin)
        if cubin in self._refused:
            return bindings.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU, None
        loaded: tuple[Any, Any] = super().cuModuleLoadData(cubin)
        return loaded

    def cuOccupancyMaxActiveClusters(  # noqa: N802
        self, function: int, config: Any
    ) -> tuple[Any, int]:
        return OK, 66 // int(config.attrs[0].value.clusterDim.z)


@pytest.mark.parametrize(
    ("arch", "refused", "compiled"),
    [("sm_90a", None, 0), ("sm_90a", kept("sm_90a"), 1), ("sm_100a", None, 1)],
)
def test_clusters_are_counted_by_a_kernel_that_seldom_is_compiled(
    monkeypatch: pytest.MonkeyPatch, arch: str, refused: bytes | None, compiled: int
) -> None:
    fake, asked = install(monkeypatch, Counting(refused)), list[Source]()
    properties = SimpleNamespace(sm_count=132, shared_bytes_per_block_optin=232448)

    def compile_(self: CubinCache, source: Source) -> Any:
        asked.append(source)
        return SimpleNamespace(cubin=b"compiled")

    monkeypatch.setattr(clusters, "initialized", lambda: fake)
    monkeypatch.setattr(clusters, "device_properties", lambda ordinal: properties)
    monkeypatch.setattr(clusters, "in_context", lambda ordinal: nullcontext())
    monkeypatch.setattr(CubinCache, "get_or_compile", compile_)
    found = clusters.clusters_at_once.__wrapped__(0, arch, (2, 4))
    assert found == ((2, 33), (4, 16))
    assert [source.arch for source in asked] == [arch] * compiled
    assert fake.tried[-1] == (b"compiled" if compiled else kept(arch))
    assert fake.loaded == fake.unloaded


@pytest.mark.parametrize("arch", KEPT)
def test_the_kept_probe_is_what_nvrtc_makes_of_it(arch: str) -> None:
    made = compile_source(Source(text=TEXT, entry=ENTRY, arch=arch)).cubin
    code = kept(arch)
    assert code is not None
    assert machine_lines(code, ENTRY) == machine_lines(made, ENTRY)
