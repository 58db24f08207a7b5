"""The kernels of a call at smaller sizes, so that the simulator can run them in little time.

A kernel is the same for all sizes of a class. Sizes are made smaller as long as it can be launched
for them as it is, with the parameters that were chosen for the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import combinations
from math import prod
from typing import Any, Final, TypeVar

import numpy as np

from warpsmith.engine.allocations import allocation, pitches_of
from warpsmith.engine.bind import Binder
from warpsmith.engine.launches import CallPlan, Launch, launch_of, placed, problem_of
from warpsmith.engine.plan import agreed
from warpsmith.engine.planned import PlannedSegment
from warpsmith.errors import WarpsmithError
from warpsmith.ir.exprs import Matmul
from warpsmith.ir.scalar import Symbol
from warpsmith.knobs import Knobs
from warpsmith.runtime.arrays import NUMPY_DTYPES, ArrayInfo, describe
from warpsmith.schedulers.problem import Problem
from warpsmith.values import dataclass

MULTIPROCESSORS: Final = 2
"""Of the target that grids are chosen for, so that its few blocks have much to do each."""

_CAPS: Final = tuple(2**power for power in range(12, 0, -1))
"""Extents up to which dimensions are cut down, the longest first."""

_STEP: Final = 64
"""What a dimension is cut down by multiples of, where it is longer."""

_MOVED: Final = 16
"""Terms of products that take the simulator as long as an element that is moved, roughly."""

_GROUPS: Final = 4
"""Independent extents of which all combinations are tried."""

_Place = tuple[int, int]
"""An argument, and one of its dimensions."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Smaller:
    """One kernel at other sizes.

    Attributes:
        problem: the call, by the program's names.
        scalars: numbers among its arguments, by name.
        work: what the simulator has to do, in terms of products: an element that is moved is as
            much as `_MOVED` of them.
    """

    launch: Launch
    planned: PlannedSegment
    problem: Problem
    scalars: Mapping[str, float]
    work: float = field(compare=False)


def smaller(
    call: CallPlan,
    number: int,
    binder: Binder,
    inputs: Sequence[object],
    knobs: Knobs,
    most: float,
) -> Iterator[Smaller]:
    """Segment `number` of a call at smaller sizes, the largest first, and at its own if they are
    small enough.

    Args:
        inputs: of the call.
        most: work that is not too much.
    """
    launch = next((each for each in call.launches if each.segment == number), None)
    if launch is None:
        return
    segments = tuple(_held(call, position) for position in range(len(call.segments)))
    for given in _reduced(inputs, _together(binder, inputs)):
        found = _at(call, segments, launch, binder, given, knobs)
        if found is not None and found.work <= most:
            yield found


def _held(call: CallPlan, number: int) -> PlannedSegment:
    """A segment of a call, whose parameters are what they are now."""
    planned = call.segments[number]
    params = next((each.params for each in call.launches if each.segment == number), None)
    old = planned.candidate
    if old is None or params is None:
        return planned
    return planned.with_candidate(replace(old, held=params))


def _at(
    call: CallPlan,
    segments: Sequence[PlannedSegment],
    launch: Launch,
    binder: Binder,
    given: Sequence[object],
    knobs: Knobs,
) -> Smaller | None:
    """The kernel for these arguments; None where they are of another class."""
    planned = segments[launch.segment]
    target = replace(call.problem.target, sm_count=MULTIPROCESSORS)
    try:
        binding = binder(given)
        values = {
            name: value
            for name, value in binding.values.items()
            if isinstance(value, int) and not isinstance(value, bool)
        }
        values |= pitches_of(segments, values)
        problem = problem_of(values, {}, target, knobs)
        values |= agreed(segments, problem)
        problem = problem_of(values, {}, target, knobs)
        local = planned.local(problem)
        symbols = planned.candidate.choose(local)[1] if planned.candidate is not None else {}
        if not planned.serves(launch.compiled, local, symbols):
            return None
        made = launch_of(launch.compiled, launch.params, symbols, planned, local)
    except WarpsmithError:
        return None
    if made is None:
        return None
    made = placed(made, launch.segment, planned)
    work = _work(planned, problem)
    return Smaller(made, planned, problem, binding.values, work)


def _work(planned: PlannedSegment, problem: Problem) -> float:
    tensors = (*planned.segment.reads, *planned.segment.writes)
    moved = sum(prod(map(problem.size, _extents(tensor))) for tensor in tensors)
    products = (op for op in planned.segment.fusion.operations if isinstance(op, Matmul))
    return _MOVED * moved + sum(
        prod(problem.size(axis.extent) for axis in product.output.root) for product in products
    )


def _extents(tensor: Any) -> Iterator[Any]:
    return (axis.extent for axis in tensor.shape_axes)


def _together(binder: Binder, inputs: Sequence[object]) -> list[tuple[_Place, ...]]:
    """Dimensions of the arrays among the arguments, by what the program asks to be equal."""
    binding = binder(inputs)
    positions = [place for place, each in enumerate(inputs) if hasattr(each, "shape")]
    names = {
        f"{tensor.name}_size{dim}": (position, dim)
        for position, tensor in zip(positions, binding.fusion.input_tensors, strict=True)
        for dim in range(tensor.rank)
    }
    group = {place: {place} for place in names.values()}
    for agreement in binder.asked(binding.form):
        sides = (agreement.left, agreement.right)
        ends = [names[end.name] for end in sides if isinstance(end, Symbol) and end.name in names]
        if agreement.asks == "==" and len(ends) == 2:
            both = group[ends[0]] | group[ends[1]]
            group |= dict.fromkeys(both, both)
    return list(dict.fromkeys(tuple(sorted(each)) for each in group.values()))


def _reduced(
    inputs: Sequence[object], together: Sequence[tuple[_Place, ...]]
) -> Iterator[list[object]]:
    """The arguments, and smaller ones, in which dimensions that go together stay equal."""
    infos = {n: describe(each) for n, each in enumerate(inputs) if hasattr(each, "shape")}
    extents = {
        places: max((infos[position].shape[dim] for position, dim in places), default=1)
        for places in together
    }
    longest = sorted(extents, key=extents.__getitem__, reverse=True)
    seen: set[tuple[tuple[int, ...], ...]] = set()
    for cap in (max(extents.values(), default=1), *_CAPS):
        for chosen in _subsets([places for places in longest if extents[places] > cap]):
            shapes = {position: list(info.shape) for position, info in infos.items()}
            for places in chosen:
                for position, dim in places:
                    if shapes[position][dim] == extents[places]:  # one that is repeated stays 1
                        shapes[position][dim] = cut(extents[places], cap)
            key = tuple(tuple(shape) for shape in shapes.values())
            if key not in seen:
                seen.add(key)
                yield [
                    _array(infos[position], shapes[position]) if position in infos else each
                    for position, each in enumerate(inputs)
                ]


def _subsets(groups: Sequence[_T]) -> Iterator[tuple[_T, ...]]:
    """All of them first, then fewer."""
    counts = range(len(groups), -1, -1) if len(groups) <= _GROUPS else (len(groups), 1)
    for count in counts:
        yield from combinations(groups, count)


def cut(extent: int, cap: int) -> int:
    """The greatest extent up to the cap that leaves the same remainder by 64, or by the cap."""
    return cap - (cap - extent) % min(cap, _STEP)


def _array(info: ArrayInfo, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """An array of zeros like another one, but for its extents: gaps between rows are as long."""
    strides = [0] * len(shape)
    old = new = 1
    for d in sorted(range(len(shape)), key=info.strides.__getitem__):
        if info.strides[d] == 0 or info.shape[d] == 1:
            continue
        gap = info.strides[d] - old
        strides[d] = new + max(gap, 0)
        old, new = info.strides[d] * info.shape[d], strides[d] * shape[d]
    dtype = NUMPY_DTYPES[info.dtype]
    content = np.zeros(max(new, 1), dtype)
    steps = [step * dtype.itemsize for step in strides]
    return np.lib.stride_tricks.as_strided(content, shape, steps)


def arrays_of(found: Smaller) -> Iterator[tuple[str, np.ndarray[Any, Any], bool]]:
    """The arrays of the launch by name, and whether they are defined before: floats are drawn, and
    whole numbers 0, which are within all bounds.
    """
    random = np.random.default_rng(0)
    segment, values = found.planned.segment, found.problem.values
    written = {tensor.name for tensor in segment.writes}
    for tensor in dict.fromkeys((*segment.reads, *segment.writes)):
        place = allocation(tensor, values)
        dtype = NUMPY_DTYPES[place.dtype]
        array = np.zeros(place.bytes // dtype.itemsize, dtype)
        if tensor.dtype.is_float:
            array[...] = random.standard_normal(array.size).astype(dtype)
        if place.strides is not None:
            steps = [step * dtype.itemsize for step in place.strides]
            array = np.lib.stride_tricks.as_strided(array, place.shape, steps)
        else:
            array = array.reshape(place.shape)
        yield tensor.name, array, tensor.name not in written
    for space in found.launch.workspaces:
        zeros = np.zeros(space.elements, NUMPY_DTYPES[space.dtype])
        yield space.name, zeros, space.zeroed
