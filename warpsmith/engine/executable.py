"""Runs a fusion on arrays: on the GPU where there is one, else on the simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

from warpsmith import knobs as knob_module
from warpsmith.engine.bind import Binder, Binding
from warpsmith.engine.empty import filled, only, refuse_unwritten
from warpsmith.engine.explain import explain_call
from warpsmith.engine.launches import CallPlan, Launch, plan_call, problem_of
from warpsmith.engine.plan import PlannedSegment, misfits, plan, require_roles
from warpsmith.engine.verification import Verification
from warpsmith.engine.watched import ready_to_launch
from warpsmith.errors import ArgumentError, DeviceError
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Symbol
from warpsmith.knobs import Knobs
from warpsmith.ops.evaluate import evaluate
from warpsmith.runtime import arrays, driver
from warpsmith.runtime.arguments import ArgumentBuffer
from warpsmith.runtime.clusters import clusters_at_once
from warpsmith.runtime.memory import DeviceMemory
from warpsmith.runtime.stream import current_stream
from warpsmith.schedulers.problem import Problem, Target
from warpsmith.schedulers.select import Refusals

if TYPE_CHECKING:
    from warpsmith.engine.simulated import Simulated

_MAPS_KEPT = 256
"""Addresses of a tensor whose maps a launch keeps encoded: allocators hand out the same ones."""

_Ready = Callable[[Sequence[object]], list[Any]]
"""A call signature that can be run: from inputs to results."""


class Executable:
    """A fusion with its compiled kernels and the launches of every signature met so far.

    Args:
        fusion: finished; not changed any more.
        scheduled: the user laid the schedule, so nothing is cut or scheduled automatically.
    """

    def __init__(self, fusion: Fusion, *, scheduled: bool = False) -> None:
        fusion.check_not_empty()
        self.fusion = fusion
        self._scheduled = scheduled
        self._binder = Binder(fusion)
        self._segments: dict[tuple[object, ...], tuple[PlannedSegment, ...]] = {}
        self._sizes = _size_arguments(fusion)
        self._ready: dict[tuple[object, ...], _Ready] = {}
        self._last_plan: CallPlan | None = None

    def run(self, inputs: Sequence[object]) -> list[Any]:
        """Results of the fusion for one list of arrays and numbers, in the order of its outputs.

        Outputs that alias an input are written into it and left out of the list.
        """
        key = (signature(inputs, self._sizes), knob_module.scoped_plan())
        ready = self._ready.get(key)
        if ready is None:
            ready = self._ready[key] = self._prepare(inputs)
        return ready(inputs)

    def prepared(self, inputs: Sequence[object]) -> Callable[[Sequence[Any]], list[Any]]:
        """What `run` does for arrays of exactly this signature, without looking at it again.

        Where a size depends on a number among the arguments, that is `run` itself.
        """
        if self._sizes:
            return self.run
        key = (signature(inputs), knob_module.scoped_plan())
        ready = self._ready.get(key)
        if ready is None:
            ready = self._ready[key] = self._prepare(inputs)
        return ready

    def plan_for(self, inputs: Sequence[object], knobs: Knobs | None = None) -> CallPlan:
        """Kernels and launches for these arrays, compiled; nothing is run."""
        binding = self._binder(inputs)
        return self._plan(binding, knobs or knob_module.current())

    def explain(self, *, sync: bool = False) -> str:
        """What was chosen for the last signature, and why."""
        if self._last_plan is None:
            return "nothing was planned yet: call the fusion, or plan_for, first"
        return explain_call(self._last_plan.segments, self._last_plan, sync=sync)

    def _fitting(self, problem: Problem, kept: tuple[int, ...]) -> tuple[PlannedSegment, ...]:
        """Segments of which each can take a call: schedulers that cannot are left out.

        They compute the outputs at the positions `kept`.
        """
        without: Refusals = ()
        while True:
            key = (kept, *(name for name, _ in without))
            if key not in self._segments:
                fusion = self.fusion if self._scheduled else only(self.fusion, kept)
                self._segments[key] = plan(fusion, scheduled=self._scheduled, without=without)
            found = misfits(self._segments[key], problem)
            if not found:
                if problem.warp_specialize is True:
                    require_roles(self._segments[key], problem, without)
                return self._segments[key]
            without += found

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
        """What the simulator says of each kernel that these arrays launch."""
        call = self._plan(self._binder(inputs), knob_module.current())
        return Verification(self._simulated(call).verify(inputs, schedules=schedules)[1])

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
        problem = problem_of(values, alignment, target, knobs)
        every = tuple(range(len(self.fusion.outputs)))
        for kept in (every, filled(self.fusion, values)):
            segments = self._fitting(problem, kept)
            call = plan_call(self.fusion, segments, values, alignment, target, knobs)
            if not call.unwritten:
                break
        refuse_unwritten(self.fusion, call)
        self._last_plan = call
        return call


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
            "WARPSMITH_DEVICE=gpu, and there is no GPU",
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
        results = dict(zip(names, evaluate(self._fusion, host), strict=True))
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


class _Loaded:
    """One launch with its kernel on a device and its argument buffer."""

    def __init__(self, launch: Launch, ordinal: int) -> None:
        self.launch = launch
        self.kernel = ready_to_launch(launch.compiled, ordinal, early=launch.early)
        self.arguments = ArgumentBuffer(launch.formats)
        # From the address of a tensor to its map. All else in a map is the same in every call.
        self._maps: tuple[tuple[str, Callable[[int], bytes]], ...] = tuple(
            (each.tensor, lru_cache(maxsize=_MAPS_KEPT)(partial(each.encode, ordinal=ordinal)))
            for each in launch.maps
        )

    def start(self, addresses: Mapping[str, int], scalars: Mapping[str, Any], stream: int) -> None:
        launch = self.launch
        values: list[Any] = [addresses[name] for name in launch.pointers]
        for tensor, encoded in self._maps:
            values.append(encoded(addresses[tensor]))
        for name, constant in zip(launch.scalars, launch.constants, strict=True):
            values.append(scalars[name] if constant is None else constant)
        self.arguments.set(tuple(values))
        self.kernel.launch(launch.grid, launch.block, launch.reserved_bytes, stream, self.arguments)


class _OnDevice:
    """PyTorch tensors on a GPU: asynchronous, on PyTorch's current stream and allocator."""

    def __init__(self, fusion: Fusion, call: CallPlan, ordinal: int) -> None:
        import torch

        self._torch = torch
        self._fusion = fusion
        self._call = call
        self._ordinal = ordinal
        self._loaded = tuple(_Loaded(launch, ordinal) for launch in call.launches)
        names = [v.name for v in fusion.inputs]
        tensors = {t.name for t in fusion.input_tensors}
        self._inputs = tuple(
            (position, name) for position, name in enumerate(names) if name in tensors
        )
        self._scalars = tuple(
            (position, name) for position, name in enumerate(names) if name not in tensors
        )
        self._arrivals: dict[tuple[int, str], Any] = {}
        self._new = tuple(
            (a.name, a.shape, a.strides, getattr(torch, _TORCH_NAMES[a.dtype]))
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
        for name, shape, strides, dtype in self._new:
            if strides is None:
                tensor = torch.empty(shape, dtype=dtype, device=self._device)
            else:
                tensor = torch.empty_strided(shape, strides, dtype=dtype, device=self._device)
            made[name] = tensor
            addresses[name] = tensor.data_ptr()
        stream = current_stream(self._ordinal)
        scalars = {name: inputs[position] for position, name in self._scalars}
        # All memory is there before the first launch: nothing may come between launches that
        # overlap, and what one of them wrote is no scratch for the next.
        spaces = [self._workspaces(loaded.launch, stream) for loaded in self._loaded]
        for loaded, own in zip(self._loaded, spaces, strict=True):
            for name, memory in own.items():
                addresses[name] = memory.data_ptr()
            loaded.start(addresses, scalars, stream)
        for name, position in self._aliased:
            inputs[position].copy_(made[name])
        return [made[name] for name in self._returned]

    def _workspaces(self, launch: Launch, stream: int) -> dict[str, Any]:
        """Scratch of one launch; the allocator reuses it in stream order once it is let go."""
        torch = self._torch
        kept = {}
        for space in launch.workspaces:
            dtype = getattr(torch, _TORCH_NAMES[space.dtype])
            if not space.zeroed:
                kept[space.name] = torch.empty(space.elements, dtype=dtype, device=self._device)
            else:
                kept[space.name] = self._counters(space.name, space.elements, stream)
        return kept

    def _counters(self, name: str, elements: int, stream: int) -> Any:
        """Arrival counters, zeroed once per stream: each kernel leaves them at zero.

        A graph that is being captured gets its own, zeroed by the graph, since its replays may
        overlap with other work of this stream.
        """
        torch = self._torch
        if torch.cuda.is_current_stream_capturing():
            return torch.zeros(elements, dtype=torch.int32, device=self._device)
        found = self._arrivals.get((stream, name))
        if found is None:
            found = torch.zeros(elements, dtype=torch.int32, device=self._device)
            self._arrivals[stream, name] = found
        return found


_TORCH_NAMES = {
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "bfloat16": "bfloat16",
    "int64": "int64",
    "int32": "int32",
    "bool": "bool",
}


class _ThroughDevice:
    """Arrays on the host: copied to the GPU and back, synchronously."""

    def __init__(self, fusion: Fusion, call: CallPlan, ordinal: int) -> None:
        self._fusion = fusion
        self._call = call
        self._ordinal = ordinal
        self._loaded = tuple(_Loaded(launch, ordinal) for launch in call.launches)

    def __call__(self, inputs: Sequence[object]) -> list[Any]:
        import numpy as np

        fusion, call = self._fusion, self._call
        addresses: dict[str, int] = {}
        scalars: dict[str, Any] = {}
        results: dict[str, np.ndarray] = {}
        with DeviceMemory(self._ordinal) as memory:
            for value, given in zip(fusion.inputs, inputs, strict=True):
                if is_array(given):
                    addresses[value.name] = memory.upload(arrays.to_numpy(given))
                else:
                    scalars[value.name] = given
            for a in (*call.outputs, *call.temporaries):
                host = arrays.empty(a.shape, a.dtype, kind="numpy", strides=a.strides)
                results[a.name] = host
                addresses[a.name] = memory.allocate(host.nbytes)
            spaces: list[dict[str, int]] = []
            for loaded in self._loaded:
                own = {}
                for space in loaded.launch.workspaces:
                    zeros = np.zeros(space.elements, arrays.NUMPY_DTYPES[space.dtype])
                    own[space.name] = memory.upload(zeros)
                spaces.append(own)
            for loaded, own in zip(self._loaded, spaces, strict=True):
                loaded.start(addresses | own, scalars, 0)
            for output in fusion.outputs:
                memory.download(addresses[output.value.name], results[output.value.name])
        return handed_back(fusion, inputs, results)
