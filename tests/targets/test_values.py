"""The known targets: their numbers have sources, and a device is one of them or none."""

from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import pytest

from warpsmith import knobs
from warpsmith.engine import places
from warpsmith.errors import DeviceError, KnobError
from warpsmith.runtime import of_device
from warpsmith.targets.family import WARP
from warpsmith.targets.hopper import H100, H200, SM90A
from warpsmith.targets.known import KNOWN, named
from warpsmith.targets.target import Rates, Target


def device(name: str, capability: tuple[int, int] = (9, 0), sm_count: int = 132) -> Any:
    return SimpleNamespace(name=name, compute_capability=capability, sm_count=sm_count)


def on(monkeypatch: pytest.MonkeyPatch, properties: Any) -> None:
    """Pretend that device 0 is this one, and runs half of the clusters."""

    def clusters(ordinal: int, arch: str, sizes: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        return tuple((blocks, 66 // blocks) for blocks in sizes)

    monkeypatch.setattr(of_device, "device_properties", lambda ordinal: properties)
    monkeypatch.setattr(of_device, "clusters_at_once", clusters)
    monkeypatch.setattr(places.driver, "device_count", lambda: 1)
    of_device.target_of_device.cache_clear()


@pytest.fixture(autouse=True)
def _forgotten() -> Any:
    yield
    of_device.target_of_device.cache_clear()


@pytest.mark.parametrize("target", KNOWN, ids=lambda target: target.name)
def test_every_number_has_a_source(target: Target) -> None:
    numbers = {"sm_count", "clusters", "l2_bytes", *(field.name for field in fields(Rates))}
    assert {name for name, _ in target.sources} == numbers
    assert all(source for _, source in target.sources)


@pytest.mark.parametrize("target", KNOWN, ids=lambda target: target.name)
def test_what_runs_at_once_fits_the_device(target: Target) -> None:
    for blocks, count in target.clusters:
        assert blocks <= target.family.limits.cluster_blocks
        assert 0 < blocks * count <= target.sm_count


def test_names_and_devices_tell_targets_apart() -> None:
    names = [target.name for target in KNOWN]
    devices = [device for target in KNOWN for device in target.devices]
    assert len(set(names)) == len(names)
    assert len(set(devices)) == len(devices)
    assert [named(name) for name in names] == [*KNOWN]


def test_targets_differ_as_values() -> None:
    assert H100 != H200
    assert hash(replace(H200, sources=())) == hash(H200)
    assert len({H100, H200, replace(H200, sm_count=131)}) == 3


def test_registers_of_a_multiprocessor() -> None:
    limits = SM90A.limits
    assert limits.blocks_of(255, 256) == 1
    assert limits.blocks_of(64, 256) == 4
    assert limits.blocks_of(65, 256) == 3  # 72 are given out
    assert limits.registers_each(512) == 128
    assert limits.sm_warps * WARP == 2048


@pytest.mark.parametrize(
    ("name", "capability", "wanted"),
    [
        ("NVIDIA H200", (9, 0), "h200"),
        ("NVIDIA H100 80GB HBM3", (9, 0), "h100"),
        ("NVIDIA B200", (10, 0), "b200"),
    ],
)
def test_devices_are_known_by_name(name: str, capability: tuple[int, int], wanted: str) -> None:
    assert of_device.known_target(device(name, capability)).name == wanted


@pytest.mark.parametrize(
    ("name", "capability"),
    [("NVIDIA H100 PCIe", (9, 0)), ("NVIDIA H200", (10, 0)), ("NVIDIA A100-SXM4-80GB", (8, 0))],
)
def test_an_unknown_chip_is_refused(name: str, capability: tuple[int, int]) -> None:
    with pytest.raises(DeviceError, match="known models only: NVIDIA H200, .*") as caught:
        of_device.known_target(device(name, capability))
    assert caught.value.code == "WS0614"
    assert f"{name!r} of compute capability {capability[0]}.{capability[1]}" in caught.value.message
    assert "WARPSMITH_TARGET (one of h200, h100, " in caught.value.remedy


def test_what_differs_between_chips_is_the_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, device("NVIDIA H200", sm_count=66))
    with knobs.scope(device="gpu"):
        found = places.call_target(knobs.current())
    asked = (*range(2, 9), 16)
    clusters = tuple((blocks, 66 // blocks) for blocks in asked)
    assert found == replace(H200, sm_count=66, clusters=clusters)


def test_an_unknown_chip_runs_what_a_target_was_named_for(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, device("NVIDIA H100 PCIe", sm_count=114))
    with pytest.raises(DeviceError, match="WS0614"):
        places.call_target(knobs.current().replace(device="gpu"))
    assert places.call_target(knobs.current().replace(device="gpu", target="h100")) is H100
    of_device.check_runs(H100, device("NVIDIA H100 PCIe"))


def test_a_device_of_another_family_is_refused() -> None:
    with pytest.raises(DeviceError, match="for b200 are machine code for sm_100a") as caught:
        of_device.check_runs(named("b200"), device("NVIDIA H200"))
    assert caught.value.code == "WS0615"


def test_without_a_gpu_kernels_are_for_the_first_target() -> None:
    with knobs.scope(device="sim"):
        assert places.call_target(knobs.current()) is H200


def test_a_scope_plans_for_its_target() -> None:
    with knobs.scope(target="h100"):
        first = knobs.scoped_plan()
    with knobs.scope(target="b200"):
        assert knobs.scoped_plan() != first
    with pytest.raises(KnobError, match="target='h800' is not allowed; allowed: auto, h200, h100"):
        knobs.current().replace(target="h800")
