"""What runs a planned call, by where its arrays are: on the GPU, on the host, or by NumPy alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from warpsmith.engine.agreements import Agreement
from warpsmith.engine.allocations import Allocation
from warpsmith.engine.counters import counters, counters_of_call
from warpsmith.engine.launches import CallPlan
from warpsmith.engine.lines import Line, line_of, sketch_of
from warpsmith.engine.lives import own_memory, turns_of
from warpsmith.engine.loaded import Loaded
from warpsmith.engine.recipes import recipe_of
from warpsmith.errors import ArgumentError, DeviceError
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.places import parts_of, written_part
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.evaluate import evaluate
from warpsmith.runtime import arrays
from warpsmith.runtime.memory import DeviceMemory, host_arrays, no_room, span
from warpsmith.runtime.stream import current_stream

_Sizes = tuple[int, ...]


def _form(of: Allocation) -> tuple[str, _Sizes, _Sizes | None, Any]:
    """The name of a tensor, and what torch asks for to make it."""
    return of.name, of.shape, of.strides, arrays.torch_dtypes()[of.dtype]


class OnDevice:
    """PyTorch tensors on a GPU: asynchronous, on PyTorch's current stream and allocator.

    Attributes:
        recipe: the same for the launcher in C; None where that cannot run it.
        sketch: what lines to other calls are drawn by; None where there are none.
        in_turns: whether `consumed` gives each launch its memory for itself.
    """

    def __init__(
        self,
        fusion: Fusion,
        call: CallPlan,
        ordinal: int,
        agreements: Sequence[Agreement] | None = None,
    ) -> None:
        import torch

        self._torch = torch
        self._fusion = fusion
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
        self._new = tuple(map(_form, call.outputs))
        self._offsets = call.arena.offsets
        self._device = arrays.torch_device("cuda", ordinal)
        self._returned = tuple(o.value.name for o in fusion.outputs if o.alias_of is None)
        self._aliased = tuple(
            (o.value.name, fusion.inputs.index(o.alias_of))
            for o in fusion.outputs
            if o.alias_of is not None and o.place is None and o.value.name not in call.here
        )
        self._parts = tuple(parts_of(fusion).items())
        self._own, self._spaces = own_memory(call)
        self._zeroed = tuple(
            {
                space.name: (place, space.elements)
                for place, space in enumerate(loaded.workspaces)
                if space.zeroed
            }
            for loaded in self._loaded
        )
        self._turns = tuple(
            (tuple(map(_form, turn.made)), turn.done) for turn in turns_of(fusion, call)
        )
        self.in_turns = bool(self._turns)
        self.recipe = self._recipe(call, None)
        self.sketch = None
        if self.recipe is not None and agreements is not None:
            self.sketch = sketch_of(fusion, call)
        self._agreements = agreements or ()
        self._call: CallPlan | None = call  # until it is run: plans hold kernels
        self._line: Any = None

    def line_from(self, other: Any, its_recipe: Any) -> Any:
        """A recipe of the calls between one of another `sketch` and this one; None for none.

        It is kept as long as this is, and asked for before the first run. At the larger size, and
        at the smaller one where nothing is in an arena, it has the numbers of that call.
        """
        call, line = self._call, None
        if call is not None and self.sketch is not None:
            line = line_of(other, self.sketch, call, self._agreements)
        if line is None:
            return None
        made = self._recipe(line.call, line)
        own, its = (line.high, line.low)[:: 1 if line.own_is_high else -1]
        ends = {own: self.recipe, its: its_recipe}
        sure = (line.high,) if line.call.arena.offsets else (line.low, line.high)
        if made is None or any(made.numbers(end) != ends[end].numbers(0) for end in sure):
            return None
        self._line = made
        return made

    def _recipe(self, call: CallPlan, line: Line | None) -> Any:
        made = partial(counters, self._ordinal)
        return recipe_of(self._fusion, call, self._loaded, self._ordinal, made, line)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        self._call = None
        addresses = self._addresses(inputs)
        made: dict[str, Any] = {}
        try:
            for form in self._new:
                made[form[0]] = tensor = self._empty(*form)
                addresses[form[0]] = tensor.data_ptr()
        except DeviceError:
            made.clear()
            raise
        start = 0
        if self._own:
            what, size = "what passes between kernels", (self._own,)
            between = self._empty(what, size, None, self._torch.uint8)
            start = between.data_ptr()
        addresses |= {name: start + offset for name, offset in self._offsets}
        stream = current_stream(self._ordinal)
        scalars = {name: inputs[position] for position, name in self._scalars}
        # All memory is there before the first launch: nothing may come between launches that
        # overlap, and what one of them wrote is no scratch for the next.
        zeros = counters_of_call(self._ordinal, self._zeroed, stream)
        for loaded, own, zeroed in zip(self._loaded, self._spaces, zeros, strict=True):
            addresses |= {name: start + offset for name, offset in own.items()}
            addresses |= {name: memory.data_ptr() for name, memory in zeroed.items()}
            loaded.start(addresses, scalars, stream)
        for name, position in self._aliased:
            inputs[position].copy_(made[name])
        return [made[name] for name in self._returned]

    def consumed(self, inputs: list[Any]) -> list[Any]:
        """The same for inputs that the caller needs no more: where tensors are large they leave the
        list, and each launch gets its memory for itself, from what launches before it let go of.
        """
        if not self.in_turns:
            return self(inputs)
        self._call = None
        addresses = self._addresses(inputs)
        scalars = {name: inputs[position] for position, name in self._scalars}
        held: dict[str, Any] = {name: inputs[position] for position, name in self._inputs}
        inputs.clear()
        stream = current_stream(self._ordinal)
        # Counters are zeroed by kernels, of which none comes between launches that overlap.
        zeros = counters_of_call(self._ordinal, self._zeroed, stream)
        for loaded, own, (made, done) in zip(self._loaded, zeros, self._turns, strict=True):
            try:
                new = {form[0]: self._empty(*form) for form in made}
            except DeviceError:
                held.clear()
                raise
            addresses |= {name: memory.data_ptr() for name, memory in (own | new).items()}
            held |= new
            loaded.start(addresses, scalars, stream)
            new.clear()
            for name in done:
                del held[name]
        for name, position in self._aliased:
            held[self._fusion.inputs[position].name].copy_(held[name])
        return [held[name] for name in self._returned]

    def _addresses(self, inputs: Sequence[Any]) -> dict[str, int]:
        """Where the tensors among the inputs are, by name."""
        found: dict[str, int] = {}
        for position, name in self._inputs:
            tensor = inputs[position]
            if tensor.requires_grad:
                refuse_gradients(position)
            found[name] = tensor.data_ptr()
        return found | {part: found[whole] for part, whole in self._parts}

    def _empty(self, name: str, shape: _Sizes, strides: _Sizes | None, dtype: Any) -> Any:
        try:
            if strides is None:
                return self._torch.empty(shape, dtype=dtype, device=self._device)
            return self._torch.empty_strided(shape, strides, dtype=dtype, device=self._device)
        except RuntimeError as failure:  # of the allocator, or of a size beyond all numbers
            raise self._no_room(name, math.prod(shape) * dtype.itemsize) from failure

    def _no_room(self, name: str, byte_count: int) -> DeviceError:
        what = f"{name}, which the call makes,"
        return no_room(
            what, byte_count, str(self._device), *self._torch.cuda.mem_get_info(self._device)
        )


class ThroughDevice:
    """Arrays on the host: copied to the GPU and back, synchronously."""

    def __init__(self, fusion: Fusion, call: CallPlan, ordinal: int) -> None:
        self._fusion = fusion
        self._outputs = call.outputs
        self._wholes = wholes_of(fusion, call)
        self._arena = call.arena
        self._ordinal = ordinal
        self._loaded = tuple(Loaded(launch, ordinal) for launch in call.launches)

    def __call__(self, inputs: Sequence[object]) -> list[Any]:
        fusion = self._fusion
        addresses: dict[str, int] = {}
        scalars: dict[str, Any] = {}
        results = host_arrays(self._outputs)
        with DeviceMemory(self._ordinal) as memory:
            for value, given in zip(fusion.inputs, inputs, strict=True):
                if is_array(given):
                    host = arrays.to_numpy(given)
                    addresses[value.name] = memory.upload(host, value.name)
                else:
                    scalars[value.name] = given
            for name, host in results.items():
                addresses[name] = memory.allocate(span(host)[1], name)
            if self._arena.offsets:
                start = memory.allocate(self._arena.size, "what passes between kernels")
                addresses |= {name: start + offset for name, offset in self._arena.offsets}
            spaces: list[dict[str, int]] = []
            for loaded in self._loaded:
                own = {}
                for space in loaded.workspaces:
                    zeros = np.zeros(space.elements, arrays.NUMPY_DTYPES[space.dtype])
                    own[space.name] = memory.upload(zeros, space.name)
                spaces.append(own)
            addresses |= {part: addresses[whole] for part, whole in parts_of(fusion).items()}
            for loaded, own in zip(self._loaded, spaces, strict=True):
                loaded.start(addresses | own, scalars, 0)
            for name, host in results.items():
                memory.download(addresses[name], host)
            for name, host in on_host(fusion, inputs).items():
                if name in self._wholes:
                    memory.download(addresses[name], host)
        return handed_back(fusion, inputs, results)


class Reference:
    """The NumPy meaning."""

    def __init__(self, fusion: Fusion) -> None:
        self._fusion = fusion

    def __call__(self, inputs: Sequence[object]) -> list[Any]:
        for position, value in enumerate(inputs):
            if getattr(value, "requires_grad", False):
                refuse_gradients(position)
        host: list[Any] = [arrays.to_numpy(x) if is_array(x) else x for x in inputs]
        values = [output.value for output in self._fusion.outputs]
        try:
            found = zip(values, evaluate(self._fusion, host), strict=True)
            results = {value.name: _in_memory_order(value, array) for value, array in found}
        except MemoryError as failure:
            raise DeviceError(
                f"the call does not fit into the memory of this machine: {failure}",
                code="WS0607",
                remedy="pass smaller tensors, or parts of them one after the other",
            ) from None
        return handed_back(self._fusion, inputs, results)


def _in_memory_order(tensor: TensorView, array: np.ndarray) -> np.ndarray:
    """The array as a kernel would leave the tensor: without gaps, in its order of dimensions."""
    order = tensor.memory_order()
    return np.asarray(array.transpose(order), order="C").transpose(np.argsort(order))


def is_array(value: object) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def handed_back(fusion: Fusion, inputs: Sequence[object], results: Mapping[str, Any]) -> list[Any]:
    """Host results by name as the caller gets them: like the inputs, or written into an alias."""
    like = next((x for x in inputs if is_array(x)), None)
    given = on_host(fusion, inputs)
    returned = []
    for output in fusion.outputs:
        name = output.value.name
        if output.alias_of is None:
            host = results[name]
            returned.append(host if like is None else arrays.from_numpy(host, like))
        elif name in results:  # else kernels wrote the part of the input
            written_part(output, given)[...] = results[name]
    return returned


def on_host(fusion: Fusion, inputs: Sequence[object]) -> dict[str, Any]:
    """The arrays of a call by name, as those of NumPy that share their memory."""
    named = zip(fusion.inputs, inputs, strict=True)
    return {value.name: arrays.to_numpy(given) for value, given in named if is_array(given)}


def wholes_of(fusion: Fusion, call: CallPlan) -> frozenset[str]:
    """Names of the inputs that kernels write, or parts of them."""
    return frozenset((*parts_of(fusion).values(), *call.here.values()))


def refuse_gradients(position: int) -> None:
    """Fused programs record nothing for autograd; a result without its gradient would be wrong."""
    import torch

    if torch.is_grad_enabled():
        raise ArgumentError(
            f"argument {position} requires a gradient, and fused programs carry none",
            code="WS0315",
            remedy="call under torch.no_grad(), or pass a detached tensor",
        )
