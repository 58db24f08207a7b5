"""Everything about one call signature that does not change from call to call.

A signature is the shapes, strides, types and alignment of the arrays. For each, the launches are
worked out once: which kernels, grids, shared memory, and where each argument comes from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace

from warpsmith.engine.compiled import CompiledKernel
from warpsmith.engine.plan import PlannedSegment, agreed, index_type_for
from warpsmith.engine.spread import reserved_bytes
from warpsmith.engine.tensor_maps import tiled_maps
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import evaluate
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.nodes import Kernel, Reciprocal
from warpsmith.knobs import Knobs
from warpsmith.runtime.launch import Extent, check_clusters
from warpsmith.runtime.tensor_maps import TiledMap
from warpsmith.schedulers.problem import Problem, Target
from warpsmith.schedulers.select import Params

FORMATS = {
    DataType.Double: "d",
    DataType.Float: "f",
    DataType.Int: "q",
    DataType.Int32: "i",
    DataType.Bool: "?",
}


@dataclass(frozen=True, slots=True)
class Allocation:
    """A tensor that the call allocates: an output, or what passes between kernels."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Workspace:
    """Scratch memory in global memory; zeroed ones count arrivals and reset themselves."""

    name: str
    dtype: str
    elements: int
    zeroed: bool


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel of a call, or nothing when there is nothing to compute.

    Attributes:
        pointers: names of the tensors and workspaces whose addresses are the first arguments.
        maps: tensor maps, the next arguments; each is encoded with its tensor's address.
        constants: values of scalar arguments, None where a user's scalar comes with each call.
        scalars: names of the scalar arguments.
        formats: a letter an argument, for an `ArgumentBuffer`.
        shared_bytes: shared memory that a block uses.
        reserved_bytes: what it asks for, no less: more where blocks spread (`engine/spread.py`).
        early: it starts while the launch before it, which is of the same call, still runs.
    """

    compiled: CompiledKernel
    params: Params | None
    grid: Extent
    block: Extent
    shared_bytes: int
    reserved_bytes: int
    pointers: tuple[str, ...]
    maps: tuple[TiledMap, ...]
    scalars: tuple[str, ...]
    constants: tuple[float | None, ...]
    formats: str
    workspaces: tuple[Workspace, ...]
    early: bool = False


@dataclass(frozen=True, slots=True)
class CallPlan:
    """All launches of one signature, the arrays that they need, and what they were chosen for.

    Attributes:
        segments: those of the fusion that are launched.
        unwritten: results with elements whose kernel is not launched, since its grid, which an
            empty one shares, has no blocks.
    """

    launches: tuple[Launch, ...]
    outputs: tuple[Allocation, ...]
    temporaries: tuple[Allocation, ...]
    problem: Problem
    segments: tuple[PlannedSegment, ...]
    unwritten: tuple[str, ...] = ()


def formats_of(kernel: Kernel) -> str:
    """A letter for each parameter of a kernel: buffers, then tensor maps, then scalars."""
    scalars = (kernel.index_type if s.dtype is DataType.Index else s.dtype for s in kernel.scalars)
    letters = "".join(FORMATS[dtype] for dtype in scalars)
    return "P" * len(kernel.parameters) + "T" * len(kernel.tensor_maps) + letters


def problem_of(
    values: Mapping[str, int], alignment: Mapping[str, int], target: Target, knobs: Knobs
) -> Problem:
    """What the heuristics see of a call."""
    return Problem(
        values=values,
        alignment=alignment,
        target=target,
        rings=knobs.rings,
        warp_specialize=knobs.warp_specialize,
        pace=knobs.pace,
    )


def plan_call(
    fusion: Fusion,
    segments: Sequence[PlannedSegment],
    values: Mapping[str, int],
    alignment: Mapping[str, int],
    target: Target,
    knobs: Knobs,
) -> CallPlan:
    """Choose, compile and dimension every kernel of a call."""
    problem = problem_of(values, alignment, target, knobs)
    values = {**values, **agreed(segments, problem)}
    problem = problem_of(values, alignment, target, knobs)
    named = {t.name: t for t in fusion.tensors}
    results = [named[o.value.name] for o in fusion.outputs]
    outputs = tuple(_allocation(tensor, values) for tensor in dict.fromkeys(results))
    known = {allocation.name for allocation in outputs}
    between = [
        tensor
        for planned in segments
        for tensor in (o.value for o in planned.segment.fusion.outputs)
        if tensor.name not in known
    ]
    temporaries = tuple(_allocation(tensor, values) for tensor in between)
    index_type = index_type_for(_largest(fusion, (*outputs, *temporaries), values))
    made = _launches(segments, problem, index_type, knobs)
    launches = [launch for launch in made if launch is not None]
    overlapping = [replace(launch, early=launch.compiled.kernel.early) for launch in launches[1:]]
    elements = {each.name: _product(each.shape) for each in (*outputs, *temporaries)}
    unwritten = tuple(
        output.value.name
        for planned, launch in zip(segments, made, strict=True)
        for output in planned.segment.fusion.outputs
        if launch is None and elements[output.value.name]
    )
    kernels = (*launches[:1], *overlapping)
    return CallPlan(kernels, outputs, temporaries, problem, tuple(segments), unwritten)


def _allocation(tensor: TensorView, values: Mapping[str, int]) -> Allocation:
    numbers = dict(values)
    shape = tuple(evaluate(axis.extent, numbers) for axis in tensor.shape_axes)
    strides: tuple[int, ...] | None = None
    if tensor.stride_order is not None:
        steps = [0] * len(shape)
        step = 1
        for dimension in reversed(tensor.memory_order()):
            steps[dimension] = step
            step *= max(shape[dimension], 1)
        strides = tuple(steps)
    return Allocation(tensor.name, tensor.dtype.value, shape, strides)


def _largest(fusion: Fusion, allocations: Sequence[Allocation], values: Mapping[str, int]) -> int:
    """Elements that the largest array spans in memory, and the largest loop that covers one."""
    sizes = [_product(allocation.shape) for allocation in allocations]
    numbers = dict(values)
    for tensor in fusion.input_tensors:
        shape = [evaluate(a.extent, numbers) for a in tensor.shape_axes]
        steps = [values.get(f"{tensor.name}_stride{d}", 0) for d in range(len(shape))]
        last = sum((extent - 1) * step for extent, step in zip(shape, steps, strict=True))
        sizes += [_product(shape), last + 1]
    for tensor in fusion.computed:
        if tensor.has_reduction:
            sizes.append(_product([evaluate(a.extent, numbers) for a in tensor.root]))
    return max(sizes, default=1)


def _product(numbers: Sequence[int]) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result


def _launches(
    segments: Sequence[PlannedSegment], problem: Problem, index_type: DataType, knobs: Knobs
) -> list[Launch | None]:
    """One of each segment. Where several have no kernel yet, they are compiled at the same time:
    NVRTC, which takes most of it, lets other threads go on.
    """
    new = sum(not planned.kernels for planned in segments)
    if new < 2:
        return [_launch(planned, problem, index_type, knobs) for planned in segments]
    with ThreadPoolExecutor(new) as pool:
        waiting = [
            pool.submit(copy_context().run, _launch, planned, problem, index_type, knobs)
            for planned in segments
        ]
        return [future.result() for future in waiting]


def _launch(
    planned: PlannedSegment, problem: Problem, index_type: DataType, knobs: Knobs
) -> Launch | None:
    compiled, launch_values, params = planned.choose(problem, index_type, knobs)
    kernel = compiled.kernel
    numbers = {**problem.values, **launch_values}
    grid = tuple(evaluate(extent, numbers) for extent in kernel.launch.grid)
    block = tuple(evaluate(extent, numbers) for extent in kernel.launch.block)
    if 0 in grid or 0 in block:
        return None
    check_clusters(kernel.name, (grid[0], grid[1], grid[2]), kernel.launch.cluster)
    workspaces = []
    for buffer in kernel.parameters:
        if buffer.name.endswith(("_parts", "_arrivals")):
            elements = evaluate(buffer.size, numbers)
            zeroed = buffer.name.endswith("_arrivals")
            workspaces.append(Workspace(buffer.name, buffer.dtype.value, elements, zeroed))
    for reciprocal in kernel.reciprocals:
        magic, shift = Reciprocal.values(evaluate(reciprocal.divisor, numbers))
        numbers |= {reciprocal.magic.name: magic, reciprocal.shift.name: shift}
    for symbol, value in kernel.derived:
        numbers[symbol.name] = evaluate(value, numbers)
    given = {symbol.name for symbol in planned.segment.fusion.input_scalars}
    constants = tuple(
        None if symbol.name in given else numbers[symbol.name] for symbol in kernel.scalars
    )
    shared_bytes = reserved = evaluate(compiled.shared, numbers)
    if kernel.early and kernel.launch.cluster_blocks == 1:
        reserved = reserved_bytes(shared_bytes, _product(grid), problem.target.sm_count)
    return Launch(
        compiled=compiled,
        params=params,
        grid=(grid[0], grid[1], grid[2]),
        block=(block[0], block[1], block[2]),
        shared_bytes=shared_bytes,
        reserved_bytes=reserved,
        pointers=tuple(b.name for b in kernel.parameters if b.memory is MemoryType.global_),
        maps=tiled_maps(kernel, numbers),
        scalars=tuple(symbol.name for symbol in kernel.scalars),
        constants=constants,
        formats=formats_of(kernel),
        workspaces=tuple(workspaces),
    )
