"""Kernels of tests on the simulator: compiled, and run under several schedules."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpsmith import knobs
from warpsmith.codegen.cuda import cuda_text
from warpsmith.engine.launches import formats_of
from warpsmith.engine.simulated import encoded, parameter_bytes
from warpsmith.engine.tensor_maps import tiled_maps
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.kernel import Kernel, layout_of
from warpsmith.lower.passes.elect_by_warp import elect_by_warp
from warpsmith.ops.scalars import numpy_dtype
from warpsmith.runtime.cache import CubinCache
from warpsmith.runtime.source import Source
from warpsmith.sim import machine
from warpsmith.sim.ptx import read
from warpsmith.sim.report import Report
from warpsmith.sim.simulate import simulate
from warpsmith.targets.hopper import H200

SCHEDULES = 8


class Fault(AssertionError):
    """The kernel does something that it must not."""


@dataclass(frozen=True)
class Contents:
    """Elements of an array in global memory, and which of them are defined."""

    data: np.ndarray
    defined: np.ndarray


Memory = Mapping[str, Contents | np.ndarray]


def simulated(
    kernel: Kernel,
    values: Mapping[str, float],
    memory: Memory,
    *,
    schedules: int = SCHEDULES,
) -> dict[str, np.ndarray]:
    """What the kernel's PTX leaves in global memory, by name.

    Args:
        values: sizes, strides, user's scalars and launch symbols by name.
        memory: arrays before the run, whole or in part; what is undefined is poisoned, as all of a
            kernel's other arrays are. Their counters are 0.

    Raises:
        Fault: the simulator finds that the kernel is not clean.
    """
    if _has_no_threads(kernel, values):
        return {}
    report = reported(kernel, values, memory, schedules=schedules)
    if report.verdict != "clean":
        raise Fault(f"{report}\n{cuda_text(elect_by_warp(kernel), H200)}")
    for name, array in report.arrays.items():
        assert not (name.endswith("_arrivals") and array.any()), f"{name} is not 0 again"
    return dict(report.arrays)


def reported(
    kernel: Kernel,
    values: Mapping[str, float],
    memory: Memory,
    *,
    schedules: int = SCHEDULES,
    text: str | None = None,
) -> Report:
    """What the simulator says of the PTX of a kernel that has threads.

    Args:
        values, memory: as for `simulated`.
        text: CUDA that takes the place of the kernel's.
    """
    kernel = elect_by_warp(kernel)
    numbers = kernel.with_derived({n: v for n, v in values.items() if isinstance(v, int)})
    grid = tuple(evaluate(extent, numbers) for extent in kernel.launch.grid)
    block = tuple(evaluate(extent, numbers) for extent in kernel.launch.block)
    source = Source(
        text=cuda_text(kernel, H200) if text is None else text,
        entry=kernel.name,
        arch="sm_90a",
    )
    binary = CubinCache(knobs.current().cache_dir).get_or_compile(source)
    program = read(str(binary.ptx), kernel.name)
    buffers = [
        _buffer(parameter, memory, numbers)
        for parameter in kernel.parameters
        if parameter.memory is MemoryType.global_
    ]
    addresses = {each.name: machine.address_of(place) for place, each in enumerate(buffers)}
    given: list[Any] = list(addresses.values())
    given += [encoded(each, addresses[each.tensor]) for each in tiled_maps(kernel, numbers)]
    given += [{**values, **numbers}[symbol.name] for symbol in kernel.scalars]
    launch = machine.Launch(
        program=program,
        grid=(grid[0], grid[1], grid[2]),
        block=(block[0], block[1], block[2]),
        cluster=kernel.launch.cluster,
        dynamic_shared=evaluate(layout_of(kernel).bytes, numbers),
        registers=max(binary.registers, 16),
        buffers=tuple(buffers),
        parameters=parameter_bytes(program, formats_of(kernel), given),
        target=H200,
        together=kernel.launch.together,
    )
    return simulate(launch, count=schedules)


def _has_no_threads(kernel: Kernel, values: Mapping[str, float]) -> bool:
    numbers = kernel.with_derived({n: v for n, v in values.items() if isinstance(v, int)})
    return any(evaluate(n, numbers) == 0 for n in (*kernel.launch.grid, *kernel.launch.block))


def _buffer(parameter: Any, memory: Memory, numbers: dict[str, Any]) -> machine.Buffer:
    dtype = numpy_dtype(parameter.dtype)
    name = parameter.name
    if name in memory:
        place = memory[name]
        if isinstance(place, np.ndarray):
            return machine.Buffer(name=name, array=place.reshape(-1), defined=True, open=True)
        array = np.full(place.data.nbytes, 0xFF, np.uint8).view(dtype)
        array[place.defined] = place.data[place.defined]
        defined = bool(place.defined.any())
        return machine.Buffer(name=name, array=array, defined=defined, open=True)
    size = evaluate(parameter.size, numbers)
    counts = name.endswith("_arrivals")
    array = np.full(size * dtype.itemsize, 0 if counts else 0xFF, np.uint8).view(dtype)
    return machine.Buffer(name=name, array=array, defined=counts)
