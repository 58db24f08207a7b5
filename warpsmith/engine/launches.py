"""Everything about one call signature that does not change from call to call.

A signature is the shapes, strides, types and alignment of the arrays. For each, the launches are
worked out once: which kernels, grids, shared memory, and where each argument comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import field, fields, replace
from math import prod
from threading import Lock
from typing import Any, Final
from weakref import ref

from warpsmith.engine.allocations import Allocation, allocation, largest_index, pitches_of
from warpsmith.engine.arena import Arena, arena_between
from warpsmith.engine.autotune import recall
from warpsmith.engine.compiled import CompiledKernel
from warpsmith.engine.one_part import launched_for, sums_of_one
from warpsmith.engine.plan import INDEX_LIMIT, agreed, index_type_for
from warpsmith.engine.planned import PlannedSegment
from warpsmith.engine.progress import counted
from warpsmith.engine.room import check_room
from warpsmith.engine.same_memory import views_of
from warpsmith.engine.spread import reserved_bytes
from warpsmith.engine.tensor_maps import tiled_maps
from warpsmith.engine.together import check_together
from warpsmith.engine.unwritten import unwritten_of
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.kernel import Kernel
from warpsmith.knobs import Knobs
from warpsmith.runtime.launch import Extent, check_clusters, check_grid
from warpsmith.runtime.launch_kinds import LaunchKind
from warpsmith.runtime.tensor_maps import TiledMap
from warpsmith.runtime.turns import taken
from warpsmith.schedulers.params import Params
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.target import Target
from warpsmith.values import dataclass

FORMATS = {
    DataType.Double: "d",
    DataType.Float: "f",
    DataType.Int: "q",
    DataType.Int32: "i",
    DataType.Bool: "?",
}


_NOTHING: Final = "nothing is launched"

_COMPILERS = 16
"""Kernels that are compiled at the same time, at most."""


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
        segment: which of the call's it is, counted from 0.
        early: it starts while the launch before it, which is of the same call, still runs.
        values: of the symbols that the schedule's parameters decide, in order.
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
    segment: int = 0
    early: bool = False
    values: tuple[tuple[str, int], ...] = ()

    @property
    def kind(self) -> LaunchKind:
        """How it starts. What starts together finds all before it over, so its wait returns."""
        if self.compiled.kernel.launch.together:
            return LaunchKind.TOGETHER
        return LaunchKind.EARLY if self.early else LaunchKind.PLAIN


@dataclass(frozen=True, slots=True)
class CallPlan:
    """All launches of one signature, the arrays that they need, and what they were chosen for.

    Attributes:
        segments: those of the fusion that are launched.
        arena: where the temporaries lie in the one piece of memory that they share.
        unwritten: results with elements that no kernel writes, since something in it is empty.
        here: by name of a result that a kernel writes into an input, that of the input.
    """

    launches: tuple[Launch, ...]
    outputs: tuple[Allocation, ...]
    temporaries: tuple[Allocation, ...]
    problem: Problem
    segments: tuple[PlannedSegment, ...]
    arena: Arena
    unwritten: tuple[str, ...] = ()
    here: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Known:
    """A launch that was worked out, and does not keep its kernel from being forgotten."""

    compiled: ref[CompiledKernel]
    rest: dict[str, Any]

    @classmethod
    def of(cls, launch: Launch) -> _Known:
        names = (each.name for each in fields(launch) if each.name != "compiled")
        return cls(ref(launch.compiled), {name: getattr(launch, name) for name in names})

    def launch(self) -> Launch | None:
        """The launch; None where its kernel was forgotten."""
        compiled = self.compiled()
        return None if compiled is None else Launch(compiled=compiled, **self.rest)


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
        autotune=knobs.autotune,
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
    values = {**pitches_of(segments, values), **values}
    problem = problem_of(values, alignment, target, knobs)
    if knobs.autotune:
        deciding = [each for each in segments if each.candidate and each.candidate.decides]
        recall(deciding, problem, knobs)
    values = {**values, **agreed(segments, problem)}
    problem = problem_of(values, alignment, target, knobs)
    if knobs.autotune:
        recall(segments, problem, knobs)
    named = {t.name: t for t in fusion.tensors}
    here = {name: t.name for planned in segments for name, t in planned.segment.into.items()}
    results = [named[o.value.name] for o in fusion.outputs if o.place is None]
    written = tuple(allocation(tensor, values) for tensor in dict.fromkeys(results))
    outputs = tuple(each for each in written if each.name not in here)
    known = {o.value.name for o in fusion.outputs}
    between = [
        tensor
        for planned in segments
        for tensor in planned.segment.writes
        if tensor.name not in known
    ]
    temporaries = tuple(allocation(tensor, values) for tensor in between)
    index_type = index_type_for(largest_index(fusion, (*outputs, *temporaries), values))
    sums = sums_of_one(segments, outputs, temporaries, values)
    sums |= views_of(segments, outputs, temporaries)
    asked = launched_for(segments, sums)
    launches = _launches(asked, problem, index_type, knobs)
    scratch = max((space.elements for each in launches for space in each.workspaces), default=0)
    if scratch >= INDEX_LIMIT and index_type is DataType.Int32:
        launches = _launches(asked, problem, DataType.Int, knobs)
    idle = asked.keys() - {launch.segment for launch in launches}
    unwritten = unwritten_of(segments, idle, (*written, *temporaries), values)
    launches = [_renamed(x, x.segment, lambda name: sums.get(name, name)) for x in launches]
    temporaries = tuple(each for each in temporaries if each.name not in sums)
    overlapping = [
        replace(each, early=each.compiled.kernel.early and each.kind is LaunchKind.PLAIN)
        for each in launches[1:]
    ]
    kernels = (*launches[:1], *overlapping)
    arena = arena_between(segments, temporaries)
    return CallPlan(kernels, outputs, temporaries, problem, tuple(segments), arena, unwritten, here)


def _launches(
    segments: Mapping[int, PlannedSegment], problem: Problem, index_type: DataType, knobs: Knobs
) -> list[Launch]:
    """One of each segment, by its place, that has work. Where several have no kernel yet, they are
    compiled at the same time: NVRTC, which takes most of it, lets other threads go on.
    """
    new = [each for each in segments.values() if not each.kernels and not each.names]
    first: list[Launch | None] = []  # so that no kernel is forgotten before all are there
    with counted(len(new), knobs) as finished:
        if len(new) > 1:
            turn = Lock()

            def compiled(planned: PlannedSegment) -> Launch | None:
                with taken(turn):
                    launch = _launch(0, planned, problem, index_type, knobs)
                finished()
                return launch

            with ThreadPoolExecutor(min(len(new), _COMPILERS)) as pool:
                waiting = [pool.submit(copy_context().run, compiled, planned) for planned in new]
                first += [future.result() for future in waiting]
        made = [_launch(n, each, problem, index_type, knobs) for n, each in segments.items()]
    return [launch for launch in made if launch is not None]


def _launch(
    number: int, planned: PlannedSegment, problem: Problem, index_type: DataType, knobs: Knobs
) -> Launch | None:
    """The launch of a segment, worked out once for all that are alike and have equal sizes."""
    local = planned.local(problem)
    sizes = frozenset(local.values.items()), frozenset(local.alignment.items())
    asked = local.target, local.rings, local.warp_specialize, local.pace
    key = (sizes, asked, planned.favourite(local), index_type, knobs, planned.last)
    known = planned.launches.get(key)
    if known is _NOTHING:
        return None
    launch = known.launch() if isinstance(known, _Known) else None
    if launch is None:
        launch = _local_launch(planned, local, index_type, knobs)
        if known is None:
            planned.launches.put(key, _NOTHING if launch is None else _Known.of(launch))
        elif isinstance(known, _Known) and launch is not None:
            known.compiled = ref(launch.compiled)
    return launch and placed(launch, number, planned)


def placed(launch: Launch, number: int, planned: PlannedSegment) -> Launch:
    """The launch as that of one segment, by the names of the program."""
    if not planned.names:
        return replace(launch, segment=number)
    return _renamed(launch, number, planned.named)


def _renamed(launch: Launch, number: int, named: Callable[[str], str]) -> Launch:
    return replace(
        launch,
        segment=number,
        pointers=tuple(map(named, launch.pointers)),
        maps=tuple(replace(each, tensor=named(each.tensor)) for each in launch.maps),
        scalars=tuple(map(named, launch.scalars)),
        workspaces=tuple(replace(each, name=named(each.name)) for each in launch.workspaces),
    )


def _local_launch(
    planned: PlannedSegment, problem: Problem, index_type: DataType, knobs: Knobs
) -> Launch | None:
    compiled, launch_values, params = planned.choose(problem, index_type, knobs)
    return launch_of(compiled, params, launch_values, planned, problem)


def launch_of(
    compiled: CompiledKernel,
    params: Params | None,
    launch_values: Mapping[str, int],
    planned: PlannedSegment,
    problem: Problem,
) -> Launch | None:
    """The launch of a kernel in a call that is told in the candidate's names; None of no blocks."""
    kernel = compiled.kernel
    numbers = {**problem.values, **launch_values}
    grid = tuple(evaluate(extent, numbers) for extent in kernel.launch.grid)
    block = tuple(evaluate(extent, numbers) for extent in kernel.launch.block)
    if 0 in grid or 0 in block:
        return None
    limits = problem.target.family.limits
    check_grid(kernel.name, (grid[0], grid[1], grid[2]), limits)
    check_clusters(kernel.name, (grid[0], grid[1], grid[2]), kernel.launch.cluster)
    workspaces = []
    for buffer in kernel.parameters:
        if buffer.name.endswith(("_parts", "_arrivals")):
            elements = evaluate(buffer.size, numbers)
            zeroed = buffer.name.endswith("_arrivals")
            workspaces.append(Workspace(buffer.name, buffer.dtype.value, elements, zeroed))
    numbers = kernel.with_derived(numbers)
    given = {symbol.name for symbol in planned.segment.fusion.input_scalars}
    constants = tuple(
        None if planned.named(symbol.name) in given else numbers[symbol.name]
        for symbol in kernel.scalars
    )
    check_room(kernel, numbers, limits)
    shared_bytes = reserved = evaluate(compiled.shared, numbers)
    check_together(
        compiled,
        (grid[0], grid[1], grid[2]),
        (block[0], block[1], block[2]),
        shared_bytes,
        problem.target,
    )
    if kernel.early and kernel.launch.cluster_blocks == 1 and not kernel.launch.together:
        reserved = reserved_bytes(shared_bytes, prod(grid), problem.target)
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
        values=tuple(sorted(launch_values.items())),
    )
