"""Run every form on a GPU and keep what it gives, for `test_hardware`.

python -m tests.sim.native.alu.record tests/sim/native/alu/h200.npz
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from cuda.bindings import driver

from tests.sim.support.forms.every import all_forms
from tests.sim.support.forms.form import Form
from tests.sim.support.forms.kernels import HEADER, kernel
from tests.sim.support.forms.pools import sources
from tests.sim.support.forms.recording import condense

BLOCK = 256


def checked(answer: tuple[Any, ...]) -> Any:
    """The value that a driver call returns, its error raised."""
    if answer[0] != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(driver.cuGetErrorName(answer[0])[1])
    return answer[1] if len(answer) > 1 else None


def run(form: Form, function: Any) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """The two destinations of a form for all its operands."""
    arrays = sources(form.pools)
    size = arrays[0].nbytes
    device = [checked(driver.cuMemAlloc(size)) for _ in range(7)]
    for index, array in enumerate(arrays):
        checked(driver.cuMemcpyHtoD(device[index], array.ctypes.data, size))
    for index in (5, 6):
        checked(driver.cuMemsetD8(device[index], 0, size))
    values = np.array([int(pointer) for pointer in device], np.uint64)
    pointers = np.array([values.ctypes.data + 8 * i for i in range(7)], np.uint64)
    blocks = arrays[0].size // BLOCK
    launch = (blocks, 1, 1, BLOCK, 1, 1, 0, 0, pointers.ctypes.data, 0)
    checked(driver.cuLaunchKernel(function, *launch))
    results = np.zeros((2, arrays[0].size), np.uint64)
    for index in (0, 1):
        checked(driver.cuMemcpyDtoH(results[index].ctypes.data, device[5 + index], size))
    for pointer in device:
        checked(driver.cuMemFree(pointer))
    return results[0], results[1]


def main(path: Path) -> None:
    """Record all forms."""
    checked(driver.cuInit(0))
    context = checked(driver.cuDevicePrimaryCtxRetain(checked(driver.cuDeviceGet(0))))
    checked(driver.cuCtxSetCurrent(context))
    forms = all_forms()
    text = HEADER + "".join(kernel(form, f"k{n}") for n, form in enumerate(forms))
    module = checked(driver.cuModuleLoadData(text.encode() + b"\0"))
    results = {}
    for n, form in enumerate(forms):
        function = checked(driver.cuModuleGetFunction(module, f"k{n}".encode()))
        results[form.name] = (form, *run(form, function))
    condense(results, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
