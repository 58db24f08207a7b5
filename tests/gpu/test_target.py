"""The GPU that is there: a known model, whose limits and rates are those that the driver says."""

import pytest

from warpsmith.runtime.driver import device_properties
from warpsmith.runtime.of_device import known_target, target_of_device


def test_limits_are_those_that_the_driver_says() -> None:
    properties, limits = device_properties(0), target_of_device(0).family.limits
    assert limits.sm_registers == properties.registers_per_sm
    assert limits.sm_threads == properties.max_threads_per_sm
    assert limits.block_shared == properties.shared_bytes_per_block_optin
    assert limits.sm_shared == properties.shared_bytes_per_sm


def test_the_memory_is_as_fast_as_its_model() -> None:
    properties = device_properties(0)
    rate = known_target(properties).rates.memory
    assert properties.memory_bytes_per_us == pytest.approx(rate, rel=0.02)


def test_the_device_says_what_differs_between_chips() -> None:
    target = target_of_device(0)
    assert target.sm_count == device_properties(0).sm_count
    assert all(blocks * count <= target.sm_count for blocks, count in target.clusters)
