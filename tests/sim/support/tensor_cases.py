"""Tensor maps and copies that were run on an H200, from seeds."""

from dataclasses import dataclass

import numpy as np

from tests.sim.support.native_parts import TensorMap, tensor_map
from tests.sim.support.random_bits import Bits

SIZES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
FIRST_FLOAT = 6
POOL_BYTES = 1 << 20  # global memory
DUMP_BYTES = 32768  # shared memory that is looked at
UNTOUCHED = 0xA5  # what it holds before a load


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorCase:
    """One map and one copy. `address` and `base` are offsets from the two memories' starts."""

    type: int
    address: int
    dim: list[int]
    stride: list[int]
    box: list[int]
    element_stride: list[int]
    swizzle: int
    fill: int
    coordinates: list[int]
    base: int

    def map(self, memory: int = 0) -> TensorMap:
        return tensor_map(
            address=memory + self.address,
            rank=len(self.dim),
            type=self.type,
            dim=self.dim,
            stride=self.stride,
            box=self.box,
            element_stride=self.element_stride,
            swizzle=self.swizzle,
            fill=self.fill,
        )


def _copy(bits: Bits, *, store: bool, far: bool) -> TensorCase:
    while True:
        made = _attempt(bits, store=store, far=far)
        if made is not None:
            return made


def _attempt(bits: Bits, *, store: bool, far: bool) -> TensorCase | None:
    """A copy, or nothing where the numbers drawn are too large or illegal."""
    type_ = bits.below(13)
    size = SIZES[type_]
    rank = bits.between(1, 5)
    swizzle = bits.below(4)
    if swizzle:
        inner = 16 * bits.between(1, 1 << swizzle)
        if bits.below(2):
            inner = 16 << swizzle
    else:
        inner = 16 * bits.between(1, 10)
    box = [inner // size]
    limit = (0, 1, 40, 12, 6, 4)[rank]
    box += [bits.between(1, limit) for _ in range(rank - 1)]
    steps = [1 if bits.below(3) else bits.between(1, 4) for _ in range(rank)]
    outer = zip(box[1:], steps[1:], strict=True)
    box[1:] = [min(256, x * e) if bits.below(2) else x for x, e in outer]
    dim = [bits.between(1, 2 * box[0] + 5)] + [bits.between(1, x + 6) for x in box[1:]]
    stride, total = [], dim[0] * size
    for length in dim[1:]:
        stride.append(-(-total // 16) * 16 + 16 * bits.below(3))
        total = stride[-1] * length
    rows = int(np.prod([-(-x // e) for x, e in zip(box[1:], steps[1:], strict=True)]))
    pitch = max(inner, 16 << swizzle) if swizzle else inner
    if total > POOL_BYTES // 2 or rows * pitch > 16384:
        return None
    coordinates = [bits.between(-x - 1, length + 1) for x, length in zip(box, dim, strict=True)]
    if bits.below(2):
        coordinates = [bits.between(-3, max(1, length - 1)) for length in dim]
    if far:
        ends = (-1000, 100000, -(2**31), 2**31 - 1, 2**31 - 300)
        coordinates = [x if bits.below(2) else bits.choice(ends) for x in coordinates]
    if store and bits.below(2):
        coordinates = [abs(x) for x in coordinates]
    fill = bits.below(2) if type_ >= FIRST_FLOAT else 0
    base = 128 * bits.below(8) if bits.below(2) else 0
    return TensorCase(
        type=type_,
        dim=dim,
        stride=stride,
        box=box,
        element_stride=steps,
        swizzle=swizzle,
        fill=fill,
        coordinates=coordinates,
        base=base,
        address=16 * bits.below(64),
    )


def loads() -> list[TensorCase]:
    bits = Bits(101)
    return [_copy(bits, store=False, far=False) for _ in range(420)]


def far_loads() -> list[TensorCase]:
    bits = Bits(102)
    return [_copy(bits, store=False, far=True) for _ in range(60)]


def stores() -> list[TensorCase]:
    bits = Bits(103)
    return [_copy(bits, store=True, far=False) for _ in range(160)]


def legal(case: TensorCase, *, store: bool) -> bool:
    """Whether the GPU takes the copy; else it raises an illegal instruction."""
    aligned = case.coordinates[0] * SIZES[case.type] % 16 == 0
    return aligned and not (store and min(case.coordinates) < 0)


SPECIAL_TYPES = (7, 10, 11, 12)  # float32, and those that loads change
SPECIAL_ROW = 256


def special_pool() -> np.ndarray:
    """Floats that are hard to flush and to round: subnormal, infinite, NaN, ties, carries."""
    bits = Bits(9)
    shape = (POOL_BYTES // 4,)
    exponent = np.array([0, 0, 1, 127, 254, 255])[bits.array(6, shape)]
    high = np.array([0, 1, 2, 0x1FF, 0x3FF])[bits.array(5, shape)]
    low = np.array([0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF])[bits.array(6, shape)]
    sign = bits.array(2, shape)
    return (sign << 31 | exponent << 23 | high << 13 | low).astype(np.uint32).view(np.uint8)


def special_loads() -> list[TensorCase]:
    return [
        TensorCase(
            type=type_,
            address=4 * SPECIAL_ROW * row,
            dim=[SPECIAL_ROW],
            stride=[],
            box=[SPECIAL_ROW],
            element_stride=[1],
            swizzle=0,
            fill=0,
            coordinates=[0],
            base=0,
        )
        for type_ in SPECIAL_TYPES
        for row in range(4)
    ]
