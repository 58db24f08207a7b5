"""Tensor maps as the machine holds them: 128 bytes, of a layout of its own."""

from __future__ import annotations

import ctypes
from typing import Final

from warpsmith.errors import SimulationError
from warpsmith.sim.library import library
from warpsmith.values import dataclass

BYTES: Final = 128
RANK: Final = 5

# By the numbers of CUtensorMapDataType.
TYPES: Final = {
    "uint8": 0,
    "uint16": 1,
    "uint32": 2,
    "int32": 3,
    "uint64": 4,
    "int64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
    "float32_ftz": 10,
    "tfloat32": 11,
    "tfloat32_ftz": 12,
    "float8_e4m3fn": 0,
    "float8_e5m2": 0,
    "int8": 0,
    "int16": 1,
}
INTERLEAVES: Final = {"none": 0, "16B": 1, "32B": 2}
SWIZZLES: Final = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
FILLS: Final = {"zero": 0, "nan": 1}


class _Map(ctypes.Structure):
    """`tensor_map` of native/tensor/tensor.h."""

    _fields_ = (
        ("address", ctypes.c_uint64),
        ("dim", ctypes.c_uint64 * RANK),
        ("stride", ctypes.c_uint64 * (RANK - 1)),
        ("box", ctypes.c_uint32 * RANK),
        ("element_stride", ctypes.c_uint32 * RANK),
        *((name, ctypes.c_uint8) for name in ("rank", "type", "interleave", "swizzle", "fill")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMap:
    """The arguments of cuTensorMapEncodeTiled, innermost dimension first.

    `strides_bytes` starts with that of the second dimension. Names of types, interleaves, swizzles
    and fills are the keys of the tables above.
    """

    address: int
    dtype: str
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: str = "none"
    swizzle: str = "none"
    fill: str = "zero"

    def encode(self) -> bytes:
        """The 128 bytes. Raises SimulationError for what cuTensorMapEncodeTiled refuses."""
        rank = len(self.dims)
        record = _Map(
            address=self.address,
            dim=(*self.dims, *(1,) * (RANK - rank)),
            stride=(*self.strides_bytes, *(0,) * (RANK - 1 - len(self.strides_bytes))),
            box=(*self.box, *(1,) * (RANK - rank)),
            element_stride=(*self.element_strides, *(1,) * (RANK - rank)),
            rank=rank,
            type=TYPES[self.dtype],
            interleave=INTERLEAVES[self.interleave],
            swizzle=SWIZZLES[self.swizzle],
            fill=FILLS[self.fill],
        )
        native = library()
        text = ctypes.create_string_buffer(300)
        native.tensor_map_error.restype = ctypes.c_char_p
        wrong = native.tensor_map_error(ctypes.byref(record), text, ctypes.c_size_t(len(text)))
        if wrong:
            raise SimulationError(f"a tensor map: {wrong.decode()}")
        encoded = ctypes.create_string_buffer(BYTES)
        native.tensor_map_encode(ctypes.byref(record), encoded)
        return encoded.raw
