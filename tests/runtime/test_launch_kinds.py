"""Launches that start early, or with all blocks at once: what the driver is given."""

import ctypes
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from warpsmith.runtime.launch_kinds import LaunchKind, launcher

driver = pytest.importorskip("cuda.bindings.driver")

ATTRIBUTES = {LaunchKind.EARLY: 6, LaunchKind.TOGETHER: 2}
"""CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION and _COOPERATIVE of cuda.h."""


class FakeDriver(SimpleNamespace):
    """The structures of the bindings, and a launch that only remembers."""

    def __init__(self) -> None:
        names = ("CUlaunchAttribute", "CUlaunchAttributeID", "CUlaunchConfig", "CUstream")
        super().__init__(**{name: getattr(driver, name) for name in names})
        self.launched: list[tuple[Any, ...]] = []

    def cuLaunchKernelEx(self, *given: Any) -> tuple[int]:  # noqa: N802
        self.launched.append(given)
        return (0,)


@pytest.mark.parametrize("kind", ATTRIBUTES)
def test_grid_block_memory_stream_and_attribute_reach_the_driver(kind: LaunchKind) -> None:
    fake = FakeDriver()
    launch = launcher(fake, kind)
    assert launch("f", 1, 2, 3, 4, 5, 6, 7, driver.CUstream(99), 1234, 0) == (0,)
    ((config, function, parameters, extra),) = fake.launched
    assert (function, parameters, extra) == ("f", 1234, 0)
    # CUlaunchConfig: seven numbers, the stream, the attributes' address and how many they are.
    raw = ctypes.string_at(config.getPtr(), 56)
    *numbers, stream, attributes, count = struct.unpack("<7I4xQQI4x", raw)
    assert (numbers, stream, count) == ([1, 2, 3, 4, 5, 6, 7], 99, 1)
    assert struct.unpack("<I4xi", ctypes.string_at(attributes, 12)) == (ATTRIBUTES[kind], 1)


def test_settings_are_made_once_and_never_changed() -> None:
    fake = FakeDriver()
    launch = launcher(fake, LaunchKind.EARLY)
    for stream, grid in ((1, 8), (2, 8), (1, 8), (1, 9)):
        launch("f", grid, 1, 1, 32, 1, 1, 0, driver.CUstream(stream), 0, 0)
    first, second, third, fourth = (config for config, *_ in fake.launched)
    assert third is first
    assert len({id(first), id(second), id(fourth)}) == 3
    assert [int(c.hStream) for c in (first, second, fourth)] == [1, 2, 1]
    assert [c.gridDimX for c in (first, second, fourth)] == [8, 8, 9]
