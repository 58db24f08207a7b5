"""The driver wrapper: statuses in words, and a machine without a GPU."""

import os
import subprocess
import sys

import pytest
from cuda.bindings.driver import CUresult

from warpsmith.errors import DeviceError
from warpsmith.runtime.driver import check, device_count, device_properties

WITHOUT_GPU = """
from warpsmith.errors import DeviceError
from warpsmith.runtime import driver, launch, memory, source

assert driver.device_count() == 0
binary = source.Binary(cubin=b"", ptx="", log="", registers=1, spill_bytes=0, stack_bytes=0,
                       static_shared_bytes=0)
for attempt in (
    lambda: driver.device_properties(0),
    lambda: driver.in_context(0).__enter__(),
    lambda: launch.LoadedKernel(binary, "entry", 0),
    lambda: memory.DeviceMemory(0),
):
    try:
        attempt()
    except DeviceError as error:
        assert "driver" in str(error) and "WARPSMITH_DEVICE=reference" in str(error), error
    else:
        raise AssertionError("no error")
"""


def test_success_is_unpacked() -> None:
    assert check((CUresult.CUDA_SUCCESS,)) is None
    assert check((CUresult.CUDA_SUCCESS, 5)) == 5
    assert check((CUresult.CUDA_SUCCESS, 5, 6)) == (5, 6)


def test_a_failure_names_the_status() -> None:
    with pytest.raises(DeviceError, match="the CUDA driver answered CUDA_ERROR_INVALID_VALUE"):
        check((CUresult.CUDA_ERROR_INVALID_VALUE, None))


def test_a_device_that_is_not_there_is_an_error() -> None:
    with pytest.raises(DeviceError, match=r"no GPU 4096: this process sees|no CUDA driver"):
        device_properties(4096)


def test_counting_devices_never_fails() -> None:
    assert device_count() >= 0


def test_without_a_gpu_errors_are_device_errors() -> None:
    hidden = os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_GPU], env=hidden, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
