"""Runs a fusion on arrays: on the GPU where there is one, else on the simulator."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

from warpsmith import knobs as knob_module
from warpsmith.engine.bind import Binder, Binding
from warpsmith.engine.classes import Classes
from warpsmith.engine.contiguous import Dimensions, contiguous_dimensions
from warpsmith.engine.explain import explain_call
from warpsmith.engine.launches import CallPlan, Workspace, pitches_of, plan_call, problem_of
from warpsmith.engine.loaded import Loaded
from warpsmith.engine.plan import (
    NoKernelError,
    PlannedSegment,
    misfits,
    plan,
    plan_prepared,
    prepare,
    require_roles,
)
from warpsmith.errors import ArgumentError, DeviceError, PlanWarning
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Symbol
from warpsmith.knobs import Knobs
from warpsmith.ops.evaluate import evaluate
from warpsmith.planner.empty import empty_tensors
from warpsmith.planner.operands import NO_PACKING, Packing, packing
from warpsmith.planner.pairs import Pair, apart, pairs_of
from warpsmith.planner.segment import Unfit
from warpsmith.runtime import arrays, driver
from warpsmith.runtime.clusters import clusters_at_once
from warpsmith.runtime.kept import CUTS, PLANS, WORKSPACES
from warpsmith.runtime.memory import DeviceMemory, host_arrays, no_room, span
from warpsmith.runtime.recent import Recent
from warpsmith.runtime.stream import current_stream
from warpsmith.schedulers.problem import Problem, Target

if TYPE_CHECKING:
    from warpsmith.engine.simulated import Simulated
    from warpsmith.engine.verification import Verification

_Ready = Callable[[Sequence[object]], list[Any]]
"""A call signature that can be run: from inputs to results."""

_COUNTERS: Final[Recent[tuple[int, int, int, int], Any]] = Recent(WORKSPACES)
"""Arrival counters by device, stream and how many they are."""


_Cut = tuple[Dimensions, tuple[Unfit, ...], Packing, frozenset[int], frozenset[int]]
"""What decides how a program is cut: dimensions that lie contiguous, schedulers that are left out,
operands that are copied, numbers of the tensors that have no elements, and of products whose
epilogue has a kernel of its own."""


class Executable:
    """A fusion with its compiled kernels and the launches of every signature met so far.

    Args:
        fusion: finished; not changed any more.
        scheduled: the user laid the schedule, so nothing is cut or scheduled automatically.

    Attributes:
        classes: of sizes that were planned so far, each with its kernel.
    """

    def __init__(self, fusion: Fusion, *, scheduled: bool = False) -> None:
        fusion.check_not_empty()
        self.fusion = fusion
        self._scheduled = scheduled
        self._binder = Binder(fusion)
        self._segments: Recent[_Cut, tuple[PlannedSegment, ...]] = Recent(CUTS)
        self._prepared: Recent[Dimensions, tuple[Fusion, tuple[Pair, ...]]] = Recent(CUTS)
        self._sizes = _size_arguments(fusion)
        self._ready: Recent[tuple[object, ...], _Ready] = Recent(PLANS)
        self._last_plan: CallPlan | None = None
        self.classes = Classes(fusion)

    def run(self, inputs: Sequence[object]) -> list[Any]:
        """Results of the fusion for one list of arrays and numbers, in the order of its outputs.

        Outputs that alias an input are written into it and left out of the list.
        """
        key = (signature(inputs, self._sizes), knob_module.scoped_plan())
        ready = self._ready.get(key) or self._ready.put(key, self._prepare(inputs))
        return ready(inputs)

    def prepared(self, inputs: Sequence[object]) -> Callable[[Sequence[Any]], list[Any]]:
        """What `run` does for arrays of exactly this signature, without looking at it again.

        Where a size depends on a number among the arguments, that is `run` itself.
        """
        if self._sizes:
            return self.run
        key = (signature(inputs), knob_module.scoped_plan())
        return self._ready.get(key) or self._ready.put(key, self._prepare(inputs))

    def takes(self, inputs: Sequence[object]) -> bool:
        """Whether the arguments fit the definition, as a call would find."""
        try:
            self._binder(inputs)
        except ArgumentError:
            return False
        return True

    def plan_for(self, inputs: Sequence[object], knobs: Knobs | None = None) -> CallPlan:
        """Kernels and launches for these arrays, compiled; nothing is run."""
        binding = self._binder(inputs)
        return self._plan(binding, knobs or knob_module.current())

    def explain(self, *, sync: bool = False) -> str:
        """What was chosen for the last signature, and why."""
        if self._last_plan is None:
            return "nothing was planned yet: call the fusion, or plan_for, first"
        return explain_call(self._last_plan, self.classes, sync=sync)

    def _fitting(
        self,
        problem: Problem,
        dimensions: Dimensions,
        without: tuple[Unfit, ...],
        empty: frozenset[int],
    ) -> tuple[PlannedSegment, ...]:
        """Segments of which each can take a call: schedulers that cannot are left out."""
        chosen, apart_now = NO_PACKING, frozenset[int]()
        if not self._scheduled:
            program, pairs = self._program_for(dimensions)
            chosen, apart_now = packing(program, problem), apart(pairs, problem)
        while True:
            key = (dimensions, without, chosen, empty, apart_now)
            segments = self._segments.get(key)
            if segments is None:
                segments = self._segments.put(key, self._cut(*key))
            pitches = pitches_of(segments, problem.values)
            padded = replace(problem, values={**problem.values, **pitches})
            found = misfits(segments, padded)
            if not found:
                if problem.warp_specialize is True:
                    require_roles(segments, problem, without)
                return segments
            without += found

    def _cut(
        self,
        dimensions: Dimensions,
        without: tuple[Unfit, ...],
        chosen: Packing,
        empty: frozenset[int],
        apart_now: frozenset[int],
    ) -> tuple[PlannedSegment, ...]:
        if self._scheduled:
            return plan(self.fusion, scheduled=True)
        program, _ = self._program_for(dimensions)
        return plan_prepared(program, without, chosen, empty, apart_now)

    def _program_for(self, dimensions: Dimensions) -> tuple[Fusion, tuple[Pair, ...]]:
        """The program as it is planned where these dimensions lie contiguous, with its products and
        what is behind each."""
        known = self._prepared.get(dimensions)
        if known is None:
            made = prepare(self.fusion, dimensions)
            known = self._prepared.put(dimensions, (made, pairs_of(made)))
        return known

    def _prepare(self, inputs: Sequence[object]) -> _Ready:
        binding = self._binder(inputs)
        knobs = knob_module.current()
        place = _place(binding, knobs)
        if place == "reference":
            return _Reference(self.fusion)
        call = self._plan(binding, knobs)
        if place == "sim":
            return self._simulated(call)
        on_device = bool(binding.infos) and binding.infos[0].device_kind == "cuda"
        runner = _OnDevice if on_device or _is_torch_call(binding) else _ThroughDevice
        return runner(self.fusion, call, place)

    def _simulated(self, call: CallPlan) -> Simulated:
        from warpsmith.engine.simulated import Simulated

        return Simulated(self.fusion, call)

    def verify(self, inputs: Sequence[object], *, schedules: int) -> Verification:
        """What the simulator says of each kernel that these arrays launch, and of the results."""
        call = self._plan(self._binder(inputs), knob_module.current())
        return self._simulated(call).verify(inputs, schedules=schedules)

    def _plan(self, binding: Binding, knobs: Knobs) -> CallPlan:
        values = {
            k: v
            for k, v in binding.values.items()
            if isinstance(v, int) and not isinstance(v, bool)
        }
        names = [tensor.name for tensor in self.fusion.input_tensors]
        alignment = {
            name: _alignment(info.pointer) for name, info in zip(names, binding.infos, strict=True)
        }
        target = _target(knobs)
        without: tuple[Unfit, ...] = ()
        empty: frozenset[int] = frozenset()
        scheduled = self._scheduled
        dimensions = frozenset() if scheduled else contiguous_dimensions(self.fusion, values)
        while True:
            problem = problem_of(values, alignment, target, knobs)
            segments = self._fitting(problem, dimensions, without, empty)
            try:
                call = plan_call(self.fusion, segments, values, alignment, target, knobs)
            except NoKernelError as failure:
                without += (failure.unfit,)
                _warn_of(failure.unfit)
                continue
            if not call.unwritten:
                break
            found = frozenset[int]()
            if not scheduled:
                found = empty_tensors(self._program_for(dimensions)[0], values)
            if found == empty:
                raise _unwritten(call)
            empty = found
        self._last_plan = call
        self.classes.meet(call)
        return call


def _warn_of(unfit: Unfit) -> None:
    warnings.warn(
        f"{unfit.scheduler} takes a part of the program, but {unfit.reason}; the part is planned "
        "without it, which may be slower: please report it",
        PlanWarning,
        stacklevel=3,
    )


def _unwritten(call: CallPlan) -> ArgumentError:
    return ArgumentError(
        f"{call.unwritten[0]} has elements, and the grid of its kernel, which an empty result "
        "shares, has no blocks for these sizes",
        code="WS0327",
        remedy="give results of other sizes a kernel of their own",
    )


def _size_arguments(fusion: Fusion) -> frozenset[int]:
    """Positions of the scalar arguments that some tensor's size depends on."""
    used = {
        node.name
        for tensor in fusion.tensors
        for axis in (*tensor.root, *tensor.logical)
        for node in axis.extent.walk()
        if isinstance(node, Symbol)
    }
    return frozenset(
        position
        for position, value in enumerate(fusion.inputs)
        if isinstance(value, Symbol) and value.name in used
    )


def signature(inputs: Sequence[object], sizes: frozenset[int] = frozenset()) -> tuple[object, ...]:
    """What the launches of a call depend on; cheap, since every call makes one.

    Arrays count by shape, strides, type, device and alignment; numbers by type, or by value where
    a size depends on them.
    """
    parts: list[object] = []
    for position, value in enumerate(inputs):
        stride = getattr(value, "stride", None)
        if stride is not None:  # a torch tensor
            tensor: Any = value
            place = tensor.get_device()
            parts.append((tensor.shape, stride(), tensor.dtype, place, tensor.data_ptr() & 15))
        elif hasattr(value, "__array_interface__"):
            array: Any = value
            parts.append((array.shape, array.strides, array.dtype, array.ctypes.data & 15))
        elif position in sizes:
            parts.append(value)
        else:
            parts.append(type(value))
    return tuple(parts)


def refuse_gradients(position: int) -> None:
    """Fused programs record nothing for autograd; a result without its gradient would be wrong."""
    import torch

    if torch.is_grad_enabled():
        raise ArgumentError(
            f"argument {position} requires a gradient, and fused programs carry none",
            code="WS0315",
            remedy="call under torch.no_grad(), or pass a detached tensor",
        )


def _alignment(pointer: int) -> int:
    return 16 if pointer == 0 else min(16, pointer & -pointer)


def _target(knobs: Knobs) -> Target:
    if knobs.device in ("sim", "reference") or driver.device_count() == 0:
        return Target()
    properties = driver.device_properties(0)
    return Target(
        sm_count=properties.sm_count,
        threads_per_sm=properties.max_threads_per_sm,
        clusters=clusters_at_once(0),
        memory_bytes_per_us=properties.memory_bytes_per_us,
    )


def _place(binding: Binding, knobs: Knobs) -> int | Literal["sim", "reference"]:
    """The GPU to run on by its ordinal, or what stands in for one."""
    if knobs.device in ("sim", "reference"):
        return knobs.device
    on_gpu = next((i for i in binding.infos if i.device_kind == "cuda"), None)
    if on_gpu is not None:
        return int(on_gpu.ordinal)
    if driver.device_count() > 0:
        return 0
    if knobs.device == "gpu":
        raise DeviceError(
            f"WARPSMITH_DEVICE=gpu, and there is no GPU: {driver.why_no_device()}",
            code="WS0601",
            remedy="use `auto`, `sim` or `reference`",
        )
    return "sim"


def _is_torch_call(binding: Binding) -> bool:
    return not binding.infos


class _Reference:
    """The NumPy meaning."""

    def __init__(self, fusion: Fusion) -> None:
        self._fusion = fusion

    def __call__(self, inputs: Sequence[object]) -> list[Any]:
        for position, value in enumerate(inputs):
            if getattr(value, "requires_grad", False):
                refuse_gradients(position)
        host: list[Any] = [arrays.to_numpy(x) if is_array(x) else x for x in inputs]
        names = [output.value.name for output in self._fusion.outputs]
        try:
            results = dict(zip(names, evaluate(self._fusion, host), strict=True))
        except MemoryError as failure:
            raise DeviceError(
                f"the call does not fit into the memory of this machine: {failure}",
                code="WS0607",
                remedy="pass smaller tensors, or parts of them one after the other",
            ) from None
        return handed_back(self._fusion, inputs, results)


def is_array(value: object) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def handed_back(fusion: Fusion, inputs: Sequence[object], results: Mapping[str, Any]) -> list[Any]:
    """Host results by name as the caller gets them: like the inputs, or written into an alias."""
    like = next((x for x in inputs if is_array(x)), None)
    returned = []
    for output in fusion.outputs:
        host = results[output.value.name]
        if output.alias_of is None:
            returned.append(host if like is None else arrays.from_numpy(host, like))
        else:
            target = inputs[fusion.inputs.index(output.alias_of)]
            arrays.to_numpy(target)[...] = host
    return returned


class _OnDevice:
    """PyTorch tensors on a GPU: asynchronous, on PyTorch's current stream and allocator."""

    def __init__(self, fusion: Fusion, call: CallPlan, ordinal: int) -> None:
        import torch

        self._torch = torch
        self._ordinal = ordinal
        self._loaded = tuple(Loaded(launch, ordinal) for launch in call.launches)
        names = [v.name for v in fusion.inputs]
        tensors = {t.name for t in fusion.input_tensors}
        self._inputs = tuple(
            (position, name) for position, name in enumerate(names) if name in tensors
        )
        self._scalars = tuple(
            (position, name) for position, name in enumerate(names) if name not in tensors
        )
        self._new = tuple(
            (a.name, a.shape, a.strides, arrays.torch_dtypes()[a.dtype])
            for a in (*call.outputs, *call.temporaries)
        )
        self._device = torch.device("cuda", ordinal)
        self._returned = tuple(o.value.name for o in fusion.outputs if o.alias_of is None)
        self._aliased = tuple(
            (o.value.name, fusion.inputs.index(o.alias_of))
            for o in fusion.outputs
            if o.alias_of is not None
        )

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        torch = self._torch
        addresses: dict[str, int] = {}
        for position, name in self._inputs:
            tensor = inputs[position]
            if tensor.requires_grad:
                refuse_gradients(position)
            addresses[name] = tensor.data_ptr()
        made: dict[str, Any] = {}
        try:
            for name, shape, strides, dtype in self._new:
                if strides is None:
                    tensor = torch.empty(shape, dtype=dtype, device=self._device)
                else:
                    tensor = torch.empty_strided(shape, strides, dtype=dtype, device=self._device)
                made[name] = tensor
                addresses[name] = tensor.data_ptr()
        except RuntimeError as failure:  # of the allocator, or of a size beyond all numbers
            made.clear()
            raise self._no_room(name, math.prod(shape) * dtype.itemsize) from failure
        stream = current_stream(self._ordinal)
        scalars = {name: inputs[position] for position, name in self._scalars}
        # All memory is there before the first launch: nothing may come between launches that
        # overlap, and what one of them wrote is no scratch for the next.
        spaces = [self._scratch(loaded.workspaces, stream) for loaded in self._loaded]
        for loaded, own in zip(self._loaded, spaces, strict=True):
            for name, memory in own.items():
                addresses[name] = memory.data_ptr()
            loaded.start(addresses, scalars, stream)
        for name, position in self._aliased:
            inputs[position].copy_(made[name])
        return [made[name] for name in self._returned]

    def _scratch(self, spaces: Sequence[Workspace], stream: int) -> dict[str, Any]:
        """Scratch of one launch; the allocator reuses it in stream order once it is let go."""
        kept = {}
        for place, space in enumerate(spaces):
            dtype = arrays.torch_dtypes()[space.dtype]
            if not space.zeroed:
                kept[space.name] = self._empty(space.name, space.elements, dtype)
            else:
                kept[space.name] = self._counters(place, space.elements, stream)
        return kept

    def _empty(self, name: str, elements: int, dtype: Any) -> Any:
        try:
            return self._torch.empty(elements, dtype=dtype, device=self._device)
        except RuntimeError as failure:
            raise self._no_room(name, elements * dtype.itemsize) from failure

    def _no_room(self, name: str, byte_count: int) -> DeviceError:
        what = f"{name}, which the call makes,"
        return no_room(what, byte_count, str(self._device), *self._torch.cuda.mem_get_info())

    def _counters(self, place: int, elements: int, stream: int) -> Any:
        """Arrival counters, zeroed once per stream: each kernel leaves them at zero.

        Kernels of a stream share them: none touches them before the one before it is over. Those of
        one kernel, told apart by their `place` among its scratch, are never the same. A graph that
        is being captured gets its own, zeroed by the graph, since its replays may overlap with
        other work of this stream.
        """
        torch = self._torch
        if torch.cuda.is_current_stream_capturing():
            return torch.zeros(elements, dtype=torch.int32, device=self._device)
        key = (self._ordinal, stream, place, elements.bit_length())
        found = _COUNTERS.get(key)
        if found is None:
            room = (1 << elements.bit_length()) - 1  # any number of as many bits
            found = _COUNTERS.put(key, torch.zeros(room, dtype=torch.int32, device=self._device))
        return found


class _ThroughDevice:
    """Arrays on the host: copied to the GPU and back, synchronously."""

    def __init__(self, fusion: Fusion, call: CallPlan, ordinal: int) -> None:
        self._fusion = fusion
        self._made = (*call.outputs, *call.temporaries)
        self._ordinal = ordinal
        self._loaded = tuple(Loaded(launch, ordinal) for launch in call.launches)

    def __call__(self, inputs: Sequence[object]) -> list[Any]:
        import numpy as np

        fusion = self._fusion
        addresses: dict[str, int] = {}
        scalars: dict[str, Any] = {}
        results = host_arrays(self._made)
        with DeviceMemory(self._ordinal) as memory:
            for value, given in zip(fusion.inputs, inputs, strict=True):
                if is_array(given):
                    host = arrays.to_numpy(given)
                    addresses[value.name] = memory.upload(host, value.name)
                else:
                    scalars[value.name] = given
            for name, host in results.items():
                addresses[name] = memory.allocate(span(host)[1], name)
            spaces: list[dict[str, int]] = []
            for loaded in self._loaded:
                own = {}
                for space in loaded.workspaces:
                    zeros = np.zeros(space.elements, arrays.NUMPY_DTYPES[space.dtype])
                    own[space.name] = memory.upload(zeros, space.name)
                spaces.append(own)
            for loaded, own in zip(self._loaded, spaces, strict=True):
                loaded.start(addresses | own, scalars, 0)
            for output in fusion.outputs:
                memory.download(addresses[output.value.name], results[output.value.name])
        return handed_back(fusion, inputs, results)
