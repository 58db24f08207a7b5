"""From a fusion and arrays to results on the simulator, and their comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tests.support.simulating import Contents, Fault, simulated
from warpsmith import FusionDefinition, knobs
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Symbol, evaluate
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.kernel import Kernel
from warpsmith.lower.pipeline import lower
from warpsmith.ops.evaluate import evaluate as meaning
from warpsmith.ops.scalars import numpy_dtype
from warpsmith.planner.plan import cut
from warpsmith.planner.segment import Unfit
from warpsmith.schedulers.candidate import Candidate, Refusals
from warpsmith.schedulers.params import Params
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.apply import SPLITS
from warpsmith.schedulers.reduction.params import ReductionParams
from warpsmith.schedulers.select import refusals, select
from warpsmith.targets.hopper import H200

Arrays = Mapping[str, np.ndarray]

SCHEDULES = 2
"""Orders of warps and copies under which each kernel must be clean."""

EPSILON = {
    DataType.Double: 2.0**-52,
    DataType.Float: 2.0**-23,
    DataType.Half: 2.0**-10,
    DataType.BFloat16: 2.0**-7,
}


def clean_result(fd: FusionDefinition, given: Sequence[np.ndarray]) -> np.ndarray:
    """The one result of a schedule by hand, on the simulator, which finds nothing wrong."""
    with knobs.scope(device="sim"):
        (result,) = fd.manual_execute(given)
    assert fd.verify(given, schedules=SCHEDULES).verdict == "clean"
    return np.asarray(result)


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
        return rng.integers(-9, 10, shape).astype(numpy_dtype(dtype))
    return rng.uniform(-2, 2, shape).astype(numpy_dtype(dtype))


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


def contents_of(array: np.ndarray) -> Contents:
    """An input in global memory; what lies between its elements is undefined."""
    places = _places(array.shape, [s // array.itemsize for s in array.strides])
    size = int(places.max(initial=0)) + 1
    contents = Contents(np.zeros(size, array.dtype), np.zeros(size, np.bool_))
    contents.data[places], contents.defined[places] = array, True
    return contents


def _places(shape: tuple[int, ...], steps: list[int]) -> np.ndarray:
    places = np.zeros(shape, np.int64)
    for d, step in enumerate(steps):
        axis = np.arange(shape[d]) * step
        places = places + axis.reshape([-1 if k == d else 1 for k in range(len(shape))])
    return places


def launched(
    fusion: Fusion,
    kernel: Kernel,
    inputs: Arrays,
    values: Mapping[str, float],
    *,
    alignment: Mapping[str, int] | None = None,
) -> tuple[np.ndarray, ...]:
    """Results of a kernel of a scheduled fusion, in the order of its outputs.

    Args:
        values: sizes, strides, user's scalars and launch symbols by name.
        alignment: bytes that addresses are multiples of, 16 where absent.

    Raises:
        Fault: the kernel must not be launched so, or the simulator finds that it is not clean.
    """
    numbers = {name: v for name, v in values.items() if isinstance(v, int)}
    for expr, divisor in kernel.requirements:
        if evaluate(expr, numbers) % divisor:
            raise Fault(f"the launch needs {expr!r} to be a multiple of {divisor}")
    for name, size in kernel.alignments:
        if (alignment or {}).get(name, 16) % size:
            raise Fault(f"the launch needs {name} to be aligned to {size} bytes")
    memory = {t.name: contents_of(inputs[t.name]) for t in fusion.input_tensors}
    places = {}
    for output in fusion.outputs:
        tensor = output.value
        shape = tuple(evaluate(axis.extent, numbers) for axis in tensor.shape_axes)
        steps = [0] * len(shape)
        step = 1
        for d in reversed(tensor.memory_order()):
            steps[d], step = step, step * shape[d]
        empty = Contents(np.zeros(step, numpy_dtype(tensor.dtype)), np.zeros(step, np.bool_))
        memory.setdefault(tensor.name, empty)
        places[tensor.name] = _places(shape, steps)
    found = simulated(kernel, values, memory, schedules=SCHEDULES)
    assert found or not any(place.size for place in places.values()), "nothing is launched"
    return tuple(found.get(name, memory[name].data)[place] for name, place in places.items())


def reference(fusion: Fusion, inputs: Arrays, values: Mapping[str, float]) -> dict[str, np.ndarray]:
    """What the outputs are by the meaning of the fusion in float64, by name."""
    given = [
        values[each.name] if isinstance(each, Symbol) else inputs[each.name]
        for each in fusion.inputs
    ]
    results = meaning(fusion, given, precise=True)
    return {out.value.name: found for out, found in zip(fusion.outputs, results, strict=True)}


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
        found.astype(np.float64), expected, rtol=relative, atol=absolute, equal_nan=True
    )


def check_scheduled(
    scheduled: Fusion,
    original: Fusion,
    inputs: Arrays,
    *,
    launch_values: Mapping[str, int] | None = None,
    index_type: DataType = DataType.Int32,
    terms: int = 1,
) -> Kernel:
    """Lower, run and compare with what the original fusion means; returns the kernel."""
    values = {**values_of(original, inputs), **(launch_values or {})}
    kernel = lower(scheduled, "test", index_type, target=H200)
    assert [o.value.name for o in scheduled.outputs] == [o.value.name for o in original.outputs]
    results = launched(scheduled, kernel, inputs, values)
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
    fusion: Fusion, inputs: Arrays, *, terms: int = 1, without: tuple[Unfit, ...] = ()
) -> int:
    """Run all segments one after the other; returns their number.

    `without` are schedulers that take none of them.
    """
    values = values_of(fusion, inputs)
    arrays = dict(inputs)
    parts = cut(fusion, without, target=H200)
    for part in parts:
        candidate = select(part.fusion, H200, part.refusals)
        problem = Problem(values=values, alignment={}, target=H200)
        params, launch_values = candidate.choose(problem)
        values |= candidate.agreed(params, problem)
        scheduled = candidate.scheduled(params)
        kernel = lower(scheduled, "test", DataType.Int32, target=H200)
        results = launched(scheduled, kernel, arrays, {**values, **launch_values})
        for output, result in zip(part.fusion.outputs, results, strict=True):
            arrays[output.value.name] = laid_out(output.value, result)
    known = reference(fusion, inputs, values)
    narrow = any(t.dtype is not DataType.Double and t.dtype.is_float for t in fusion.tensors)
    for output in fusion.outputs:
        name, dtype = output.value.name, output.value.dtype
        work = DataType.Float if narrow and dtype is DataType.Double else dtype
        check(arrays[name], known[name], work, terms=terms)
    return len(parts)
