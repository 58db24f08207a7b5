"""The tensor maps of a kernel with the numbers of a launch."""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.tiles import TensorMap
from warpsmith.runtime.tensor_maps import TiledMap

# For a dimension of one element, whose stride means nothing and is often unfit for the TMA unit.
_ANY_STRIDE = 16


def tiled_maps(kernel: Kernel, numbers: Mapping[str, int]) -> tuple[TiledMap, ...]:
    """What a launch needs to encode the kernel's maps, in their order, but for the addresses.

    Args:
        numbers: of all scalars of the kernel that are integers, by name.

    Raises:
        DeviceError: the kernel asks for a map that no TMA unit takes.
        ArgumentError: sizes or strides of this call are not for the TMA unit.
    """
    maps = tuple(_tiled(each, dict(numbers)) for each in kernel.tensor_maps)
    for each in maps:
        each.check()
    return maps


def _tiled(described: TensorMap, numbers: dict[str, int]) -> TiledMap:
    sizes = tuple(evaluate(size, numbers) for size in described.sizes)
    strides = (evaluate(stride, numbers) * described.dtype.size for stride in described.strides)
    return TiledMap(
        tensor=described.tensor,
        dtype=described.dtype.value,
        sizes=sizes,
        strides=tuple(
            _ANY_STRIDE if size == 1 else stride
            for size, stride in zip(sizes[1:], strides, strict=True)
        ),
        box=described.box,
        steps=described.steps,
        swizzle=described.swizzle,
        rounds=described.rounds,
        before=evaluate(described.before, numbers) * described.dtype.size,
    )
