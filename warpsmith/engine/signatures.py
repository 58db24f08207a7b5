"""What the launches of a call depend on, as a key that every call makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsmith.engine.bind import Binding
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Symbol
from warpsmith.runtime.arrays import start_of


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
            start = start_of(tensor)
            parts.append((tensor.shape, stride(), tensor.dtype, place, start))
        elif hasattr(value, "__array_interface__"):
            array: Any = value
            parts.append((array.shape, array.strides, array.dtype, array.ctypes.data & 15))
        elif position in sizes:
            parts.append(value)
        else:
            parts.append(type(value))
    return tuple(parts)


def size_arguments(fusion: Fusion) -> frozenset[int]:
    """Positions of the scalar arguments that some tensor's size, or some loop's, depends on."""
    used = {
        node.name
        for tensor in fusion.tensors
        for made in (tensor.root, tensor.logical, *(t.results for t in tensor.transforms))
        for axis in made
        for node in axis.extent.walk()
        if isinstance(node, Symbol)
    }
    return frozenset(
        position
        for position, value in enumerate(fusion.inputs)
        if isinstance(value, Symbol) and value.name in used
    )


def alignments(binding: Binding) -> dict[str, int]:
    """By tensor, the bytes of which its address is a multiple: 16 at most."""
    found = {
        tensor.name: 16 if info.pointer == 0 else min(16, info.pointer & -info.pointer)
        for tensor, info in zip(binding.fusion.input_tensors, binding.infos, strict=True)
    }
    for output in binding.fusion.outputs:
        if output.alias_of is not None:  # it may be written there
            found[output.value.name] = found[output.alias_of.name]
    return found
