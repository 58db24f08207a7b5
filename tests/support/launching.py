"""From a fusion and arrays to results by the interpreter, and their comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tests.support.interpreter import run_kernel
from tests.support.memory import NUMPY_TYPES, Memory
from tests.support.reference import reference, wide
from tests.support.simulating import Contents, simulated, takes_part
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Const, Symbol, evaluate
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer
from warpsmith.kernel.rings import Await, AwaitCopies, Begin, TileCopy
from warpsmith.kernel.traversal import walk
from warpsmith.lower.pipeline import lower
from warpsmith.planner.plan import cut
from warpsmith.planner.segment import Unfit
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.apply import SPLITS
from warpsmith.schedulers.reduction.heuristic import ReductionParams
from warpsmith.schedulers.select import Candidate, Params, Refusals, refusals, select
from warpsmith.targets.hopper import H200

Arrays = Mapping[str, np.ndarray]

EPSILON = {
    DataType.Double: 2.0**-52,
    DataType.Float: 2.0**-23,
    DataType.Half: 2.0**-10,
    DataType.BFloat16: 2.0**-7,
}


def values_of(fusion: Fusion, inputs: Arrays) -> dict[str, int]:
    """Sizes and strides, in elements, of the arrays given for the inputs."""
    values: dict[str, int] = {}
    for tensor in fusion.input_tensors:
        array = inputs[tensor.name]
        assert array.ndim == tensor.rank
        for d, axis in enumerate(tensor.shape_axes):
            if isinstance(axis.extent, Symbol):
                known = values.setdefault(axis.extent.name, array.shape[d])
                assert known == array.shape[d]
            values[f"{tensor.name}_stride{d}"] = array.strides[d] // array.itemsize
    return values


def random_inputs(
    fusion: Fusion, shapes: Mapping[str, tuple[int, ...]], seed: int = 0
) -> dict[str, np.ndarray]:
    """Arrays for the inputs, laid out as their stride orders say; padded where not contiguous."""
    rng = np.random.default_rng(seed)
    return {
        t.name: laid_out(t, random_array(rng, t.dtype, shapes[t.name]))
        for t in fusion.input_tensors
    }


def random_array(rng: np.random.Generator, dtype: DataType, shape: tuple[int, ...]) -> np.ndarray:
    if dtype is DataType.Bool:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_int:
        return rng.integers(-9, 10, shape).astype(NUMPY_TYPES[dtype])
    return rng.uniform(-2, 2, shape).astype(NUMPY_TYPES[dtype])


def laid_out(tensor: TensorView, array: np.ndarray, padding: int = 3) -> np.ndarray:
    """The array with the tensor's memory order; `padding` elements after incontiguous rows."""
    steps = [0] * array.ndim
    step = 1
    for d in reversed(tensor.memory_order()):
        if tensor.shape_axes[d].is_broadcast:
            continue
        if tensor.contiguity[d] is False:
            step += padding
        steps[d] = step
        step *= max(array.shape[d], 1)
    place = np.zeros(max(step, 1), array.dtype)
    view = np.lib.stride_tricks.as_strided(place, array.shape, [s * array.itemsize for s in steps])
    view[...] = array
    return view


def memory_of(tensor: TensorView, array: np.ndarray) -> Memory:
    """An input in global memory; what lies between its elements is undefined."""
    places = _places(array.shape, [s // array.itemsize for s in array.strides])
    size = int(places.max(initial=0)) + 1
    buffer = Buffer(tensor.name, tensor.dtype, MemoryType.global_, Const(size), False)
    memory = Memory(buffer, 1, size)
    memory.data[places], memory.defined[places] = array, True
    return memory


def _places(shape: tuple[int, ...], steps: list[int]) -> np.ndarray:
    places = np.zeros(shape, np.int64)
    for d, step in enumerate(steps):
        axis = np.arange(shape[d]) * step
        places = places + axis.reshape([-1 if k == d else 1 for k in range(len(shape))])
    return places


def interpret(
    fusion: Fusion,
    kernel: Kernel,
    inputs: Arrays,
    values: Mapping[str, float],
    *,
    seed: int = 0,
    alignment: Mapping[str, int] | None = None,
    terms: int = 1,
) -> tuple[np.ndarray, ...]:
    """Results of a kernel of a scheduled fusion, in the order of its outputs.

    Where the kernel takes part, its PTX is simulated as well: it must be clean under every
    schedule, and its results equal up to the rounding of sums of `terms` terms. Kernels with rings
    are simulated only: copies that land later are beyond the interpreter.
    """
    memory = {t.name: memory_of(t, inputs[t.name]) for t in fusion.input_tensors}
    numbers = {name: v for name, v in values.items() if isinstance(v, int)}
    places = []
    for output in fusion.outputs:
        tensor = output.value
        shape = tuple(evaluate(axis.extent, numbers) for axis in tensor.shape_axes)
        steps = [0] * len(shape)
        step = 1
        for d in reversed(tensor.memory_order()):
            steps[d], step = step, step * shape[d]
        buffer = next(b for b in kernel.parameters if b.name == tensor.name)
        memory.setdefault(tensor.name, Memory(buffer, 1, step))
        places.append(_places(shape, steps))
    before = {
        name: Contents(place.data.copy(), place.defined.copy()) for name, place in memory.items()
    }
    runs_ahead = any(
        isinstance(s, Await | Begin | TileCopy | AwaitCopies) for s in walk(kernel.body)
    )
    if not runs_ahead:
        run_kernel(kernel, values, memory, alignment=alignment, seed=seed)
    on_ptx = simulated(kernel, values, before) if runs_ahead or takes_part(kernel) else {}
    if runs_ahead:
        for name, found in on_ptx.items():
            memory[name].data[:], memory[name].defined[:] = found, True
    results = []
    for output, place in zip(fusion.outputs, places, strict=True):
        name, dtype = output.value.name, output.value.dtype
        found = memory[name]
        missing = int((~found.defined).sum())
        assert not missing, f"{missing} elements of {name} were never written"
        results.append(found.data[place])
        if name in on_ptx:
            check(on_ptx[name][place], wide(results[-1], dtype), dtype, terms=terms)
    return tuple(results)


def check(found: np.ndarray, expected: np.ndarray, dtype: DataType, *, terms: int = 1) -> None:
    """Equality up to the rounding of `dtype` after sums of `terms` terms computed in Float."""
    assert found.shape == expected.shape
    if not dtype.is_float:
        np.testing.assert_array_equal(found, expected)
        return
    work = EPSILON[DataType.Double if dtype is DataType.Double else DataType.Float]
    relative = EPSILON[dtype] + 16 * work
    scale = float(np.abs(expected).max(initial=1.0))
    absolute = scale * work * 4 * max(terms, 4)
    np.testing.assert_allclose(
        wide(found, dtype), expected, rtol=relative, atol=absolute, equal_nan=True
    )


def check_scheduled(
    scheduled: Fusion,
    original: Fusion,
    inputs: Arrays,
    *,
    launch_values: Mapping[str, int] | None = None,
    index_type: DataType = DataType.Int32,
    seed: int = 0,
    terms: int = 1,
) -> Kernel:
    """Lower, run and compare with what the original fusion means; returns the kernel."""
    values = {**values_of(original, inputs), **(launch_values or {})}
    kernel = lower(scheduled, "test", index_type, target=H200)
    assert [o.value.name for o in scheduled.outputs] == [o.value.name for o in original.outputs]
    results = interpret(scheduled, kernel, inputs, values, seed=seed, terms=terms)
    known = reference(original, inputs, values)
    for output, result in zip(original.outputs, results, strict=True):
        check(result, known[output.value.name], output.value.dtype, terms=terms)
    return kernel


def check_automatic(
    fusion: Fusion,
    inputs: Arrays,
    *,
    alignment: Mapping[str, int] | None = None,
    splits: int | None = None,
    index_type: DataType = DataType.Int32,
    seed: int = 0,
    terms: int = 1,
    without: Refusals = (),
) -> tuple[Candidate, Kernel]:
    """The same for the schedule that is chosen automatically, by others than those `without`."""
    candidate = select(fusion, H200, refusals(fusion, H200, without))
    problem = Problem(values=values_of(fusion, inputs), alignment=alignment or {}, target=H200)
    params, launch_values = split_over(candidate.choose(problem), splits)
    kernel = check_scheduled(
        candidate.scheduled(params),
        fusion,
        inputs,
        launch_values=launch_values,
        index_type=index_type,
        seed=seed,
        terms=terms,
    )
    return candidate, kernel


def split_over(
    chosen: tuple[Params, dict[str, int]], splits: int | None
) -> tuple[Params, dict[str, int]]:
    """What was chosen, but with results split over so many blocks, short columns too."""
    params, launch_values = chosen
    if splits is None:
        return chosen
    if isinstance(params, ReductionParams) and params.exact and splits > 1:
        params, launch_values = replace(params, exact=False, unroll=2), {SPLITS: splits}
    return params, dict.fromkeys(launch_values, splits)


def check_segments(
    fusion: Fusion,
    inputs: Arrays,
    *,
    terms: int = 1,
    splits: int | None = None,
    alignment: Mapping[str, int] | None = None,
    index_type: DataType = DataType.Int32,
    seed: int = 0,
    without: tuple[Unfit, ...] = (),
) -> int:
    """Run all segments one after the other; returns their number.

    `without` are schedulers that take none of them.
    """
    values = values_of(fusion, inputs)
    arrays = dict(inputs)
    parts = cut(fusion, without, target=H200)
    for part in parts:
        candidate = select(part.fusion, H200, part.refusals)
        problem = Problem(values=values, alignment=alignment or {}, target=H200)
        values |= candidate.agreed(candidate.choose(problem)[0], problem)
        params, launch_values = split_over(candidate.choose(problem), splits)
        scheduled = candidate.scheduled(params)
        kernel = lower(scheduled, "test", index_type, target=H200)
        numbers = {**values, **launch_values}
        results = interpret(
            scheduled, kernel, arrays, numbers, seed=seed, alignment=alignment, terms=terms
        )
        for output, result in zip(part.fusion.outputs, results, strict=True):
            arrays[output.value.name] = laid_out(output.value, result)
    known = reference(fusion, inputs, values)
    narrow = any(t.dtype is not DataType.Double and t.dtype.is_float for t in fusion.tensors)
    for output in fusion.outputs:
        name, dtype = output.value.name, output.value.dtype
        work = DataType.Float if narrow and dtype is DataType.Double else dtype
        check(arrays[name], known[name], work, terms=terms)
    return len(parts)
