"""Tensor maps for the TMA unit: what it takes, and the 128 bytes that tell it.

The driver answers a map that breaks a rule with "invalid value" and no more, so every rule of
`cuTensorMapEncodeTiled` is checked here first.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

from warpsmith.errors import ArgumentError, DeviceError
from warpsmith.runtime.driver import check, in_context, initialized
from warpsmith.values import dataclass

MAP_BYTES: Final = 128
"""Bytes of an encoded tensor map."""

_TYPES: Final = {
    "double": ("FLOAT64", 8),
    "float": ("FLOAT32", 4),
    "half": ("FLOAT16", 2),
    "bfloat16": ("BFLOAT16", 2),
    "float8_e4m3fn": ("UINT8", 1),
    "float8_e5m2": ("UINT8", 1),
    "int64": ("INT64", 8),
    "int32": ("INT32", 4),
    "int16": ("UINT16", 2),
    "int8": ("UINT8", 1),
    "uint8": ("UINT8", 1),
    "bool": ("UINT8", 1),
}
"""By our names: the end of the name in CUtensorMapDataType, and bytes of an element."""

_MAX_RANK: Final = 5
_MAX_SIZE: Final = 2**31  # the driver takes twice as many, but coordinates are 32-bit, signed
_STRIDE_END: Final = 2**40
_MAX_SPAN: Final = 256
_MAX_STEP: Final = 8
_GRAIN: Final = 16  # bytes: the TMA unit moves whole chunks of so many
_SWIZZLES: Final = (0, 32, 64, 128)

# Bytes of DRAM that a miss brings to L2. Tiles of one tensor are read by neighbouring blocks at
# about the same time, so a line of L2 is wanted whole; 256 would bring more than that where rows
# are padded or boxes are narrow.
_L2_PROMOTION: Final = "CU_TENSOR_MAP_L2_PROMOTION_L2_128B"


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledMap:
    """All that a tensor map says, but for the address; dimensions are listed fastest first.

    Attributes:
        tensor: name of what is mapped, for messages.
        dtype: of the elements, named as in `arrays.NUMPY_DTYPES`.
        sizes: extents of the tensor, in elements.
        strides: bytes from neighbour to neighbour along every dimension but the first.
        box: elements that a tile takes along each dimension.
        steps: it takes every so many-th index.
        swizzle: bytes of the rows in which 16-byte chunks are permuted in shared memory; 0 is none.
        rounds: floats are rounded to TF32 on their way to shared memory.
        before: bytes before the tensor's first element at which the map begins.
    """

    tensor: str
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    swizzle: int = 0
    rounds: bool = False
    before: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the tensor has no elements; the TMA unit knows no such tensors."""
        return 0 in self.sizes

    @property
    def spans(self) -> tuple[int, ...]:
        """Positions that a tile covers along each dimension: `boxDim`, which counts skipped ones.

        The copy moves `ceil(boxDim / elementStride)` elements.
        """
        return tuple(count * step for count, step in zip(self.box, self.steps, strict=True))

    def check(self) -> None:
        """Hold the map against the rules that do not ask for an address.

        Raises:
            DeviceError: what the kernel decides (type, rank, box, steps, swizzle) is no map's.
            ArgumentError: what a call decides (sizes and strides) is not.
        """
        self._check_form()
        self._check_tile()
        self._check_tensor()

    def check_address(self, address: int) -> None:
        """Raise ArgumentError for an address that the TMA unit cannot start at."""
        if address % _GRAIN:
            raise ArgumentError(
                f"the address of {self.tensor} is {address:#x}, and the TMA unit needs a multiple "
                f"of {_GRAIN} bytes",
                code="WS0324",
                remedy="pass an aligned tensor: a copy, or a view that starts at such an address",
            )

    def encode(self, address: int, ordinal: int) -> bytes:
        """The 128 bytes of the map of a tensor at `address`, for kernels on device `ordinal`.

        The map of a tensor without elements is all zeros: it is no map, and the kernel copies
        nothing by it. The other rules are the caller's to `check`, once for all addresses.

        Raises:
            ArgumentError: the address is not aligned.
            DeviceError: there is no driver, or it refuses the map.
        """
        if self.is_empty:
            return bytes(MAP_BYTES)
        self.check_address(address)
        with in_context(ordinal):
            return self._encoded(initialized(), address)

    def _encoded(self, driver: Any, address: int) -> bytes:
        kind, swizzle, promotion = _codes(driver, self)
        # A line has no strides, but the driver wants a pointer to some.
        strides = self.strides or (_GRAIN,)
        try:
            encoded = check(
                driver.cuTensorMapEncodeTiled(
                    kind,
                    len(self.sizes),
                    address - self.before,
                    [driver.cuuint64_t(size) for size in self.sizes],
                    [driver.cuuint64_t(stride) for stride in strides],
                    [driver.cuuint32_t(span) for span in self.spans],
                    [driver.cuuint32_t(step) for step in self.steps],
                    driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
                    swizzle,
                    promotion,
                    # No special fill: what lies out of bounds is read as zeros.
                    driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
                )
            )
        except DeviceError as refusal:
            raise DeviceError(
                f"the driver takes no tensor map of {self.tensor} at {address:#x} ({self}): "
                f"{refusal.message}",
                code="WS0605",
                remedy="it breaks none of the rules known here; please report it",
            ) from None
        return ctypes.string_at(int(encoded.getPtr()), MAP_BYTES)

    def _check_form(self) -> None:
        rank = len(self.sizes)
        if self.dtype not in _TYPES:
            raise self._unfit(
                f"the elements of {self.tensor} are of type {self.dtype}, and the TMA unit moves "
                f"{', '.join(_TYPES)}",
                "copy it without tma",
            )
        if not 1 <= rank <= _MAX_RANK:
            raise self._unfit(
                f"{self.tensor} is mapped with {rank} dimensions, and a tensor map has 1 to "
                f"{_MAX_RANK}",
                "merge dimensions that are contiguous, or copy it without tma",
            )
        if (len(self.strides), len(self.box), len(self.steps)) != (rank - 1, rank, rank):
            raise self._unfit(
                f"the tensor map of {self.tensor} has {rank} sizes, {len(self.strides)} strides, "
                f"{len(self.box)} box lengths and {len(self.steps)} steps",
                "give a stride for all dimensions but the first, and a length and a step for all",
            )
        if self.swizzle not in _SWIZZLES:
            raise self._unfit(
                f"the tile of {self.tensor} is swizzled by {self.swizzle} bytes",
                "swizzle by 32, 64 or 128 bytes, or by 0, which is not at all",
            )

    def _check_tile(self) -> None:
        for dimension, step in enumerate(self.steps):
            if not 1 <= step <= _MAX_STEP:
                raise self._unfit(
                    f"a tile of {self.tensor} takes indices of dimension {dimension} (0 is the "
                    f"fastest) at steps of {step}, and the TMA unit at steps of 1 to {_MAX_STEP}",
                    "split the dimension, so that what is skipped is a dimension of its own",
                )
        if self.steps[0] != 1:  # the unit does not refuse it, it ignores it
            raise self._unfit(
                f"a tile of {self.tensor} takes elements of the fastest dimension at steps of "
                f"{self.steps[0]}, and the TMA unit takes all of them",
                "copy it without tma",
            )
        for dimension, (count, step) in enumerate(zip(self.box, self.steps, strict=True)):
            if count < 1 or count * step > _MAX_SPAN:
                steps = f" at steps of {step}, which span {count * step}" if step > 1 else ""
                raise self._unfit(
                    f"a tile of {self.tensor} has {count} elements along dimension {dimension} "
                    f"(0 is the fastest){steps}, and the TMA unit takes 1 to {_MAX_SPAN}",
                    f"split the dimension, and copy tiles of at most {_MAX_SPAN}",
                )
        inner = self.box[0] * _TYPES[self.dtype][1]
        if inner % _GRAIN:
            raise self._unfit(
                f"the rows of a tile of {self.tensor} have {inner} bytes ({self.box[0]} elements), "
                f"and the TMA unit moves multiples of {_GRAIN} bytes",
                f"make its fastest dimension a multiple of {_GRAIN} bytes long",
            )
        if self.swizzle and inner > self.swizzle:
            raise self._unfit(
                f"the rows of a tile of {self.tensor} have {inner} bytes ({self.box[0]} elements), "
                f"and swizzling by {self.swizzle} bytes allows as many bytes at most",
                f"make rows of {self.swizzle} bytes"
                + (", swizzle by more" if self.swizzle < _SWIZZLES[-1] else "")
                + ", or do not swizzle",
            )

    def _check_tensor(self) -> None:
        if self.is_empty:
            return
        for dimension, size in enumerate(self.sizes):
            if not 1 <= size <= _MAX_SIZE:
                raise ArgumentError(
                    f"dimension {dimension} (0 is the fastest) of {self.tensor}, as the TMA unit "
                    f"sees it, has {size} elements, and must have 1 to 2**31",
                    code="WS0323",
                    remedy="pass a smaller tensor, or copy it without tma",
                )
        for dimension, stride in enumerate(self.strides, start=1):
            if stride % _GRAIN or not 0 <= stride < _STRIDE_END:
                raise ArgumentError(
                    f"the stride of dimension {dimension} (0 is the fastest) of {self.tensor}, as "
                    f"the TMA unit sees it, is {stride} bytes, and must be a multiple of {_GRAIN} "
                    "from 0 to less than 2**40",
                    code="WS0323",
                    remedy="pass a contiguous tensor, with rows of a multiple of "
                    f"{_GRAIN} bytes, or copy it without tma",
                )

    def _unfit(self, message: str, remedy: str) -> DeviceError:
        return DeviceError(message, code="WS0604", remedy=remedy)


def type_codes(tiled: TiledMap) -> tuple[int, int, int]:
    """The driver's numbers of the map's type, its swizzle, and what L2 reads ahead."""
    kind, swizzle, promotion = _codes(initialized(), tiled)
    return int(kind), int(swizzle), int(promotion)


def _codes(driver: Any, tiled: TiledMap) -> tuple[Any, Any, Any]:
    kind = "TFLOAT32" if tiled.rounds else _TYPES[tiled.dtype][0]
    swizzle = f"{tiled.swizzle}B" if tiled.swizzle else "NONE"
    return (
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{kind}"),
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
        getattr(driver.CUtensorMapL2promotion, _L2_PROMOTION),
    )
