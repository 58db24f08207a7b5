"""Which target a device is: a known model, by the name that the driver gives it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from warpsmith.errors import DeviceError
from warpsmith.runtime.clusters import clusters_at_once
from warpsmith.runtime.driver import DeviceProperties, device_properties
from warpsmith.targets.known import KNOWN
from warpsmith.targets.target import Target

PORTABLE = range(2, 9)
"""Sizes of clusters, in blocks, that kernels may have on any device (CUDA C++ Programming Guide,
"Thread Block Clusters")."""


@cache
def target_of_device(ordinal: int) -> Target:
    """The target that device `ordinal` is.

    Raises:
        DeviceError: as `known_target` does, or there is no such device.
    """
    properties = device_properties(ordinal)
    return as_it_is(known_target(properties), properties, ordinal)


def known_target(properties: DeviceProperties) -> Target:
    """The model that a device is of.

    Raises:
        DeviceError: WS0614 for a device of a model that nobody described: a compute capability
            alone says nothing of its rates, nor of how many multiprocessors it has.
    """
    for target in KNOWN:
        family = target.family.compute_capability == properties.compute_capability
        if family and properties.name in target.devices:
            return target
    names = ", ".join(device for target in KNOWN for device in target.devices)
    major, minor = properties.compute_capability
    raise DeviceError(
        f"this GPU is a {properties.name!r} of compute capability {major}.{minor}, and kernels are "
        f"made for known models only: {names}",
        code="WS0614",
        remedy="name the model that it is like by WARPSMITH_TARGET (one of "
        f"{', '.join(target.name for target in KNOWN)}), or set WARPSMITH_DEVICE=sim",
    )


def check_runs(target: Target, properties: DeviceProperties) -> None:
    """Refuse a device that does not run the machine code of a target.

    Raises:
        DeviceError: WS0615.
    """
    if properties.compute_capability != target.family.compute_capability:
        major, minor = properties.compute_capability
        raise DeviceError(
            f"kernels for {target.name} are machine code for {target.family.arch}, and this GPU, a "
            f"{properties.name!r}, has compute capability {major}.{minor}",
            code="WS0615",
            remedy="leave the knob `target` alone, or set WARPSMITH_DEVICE=sim",
        )


def as_it_is(target: Target, properties: DeviceProperties, ordinal: int) -> Target:
    """A model with what differs between its chips: multiprocessors, and clusters at once."""
    sizes = tuple(sorted({*PORTABLE, *(blocks for blocks, _ in target.clusters)}))
    clusters = clusters_at_once(ordinal, target.family.arch, sizes)
    return replace(target, sm_count=properties.sm_count, clusters=clusters)
