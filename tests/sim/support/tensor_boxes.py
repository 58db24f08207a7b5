"""Boxes for tensor_boxes.cu: ranks, types, swizzles, and places in part out of bounds."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.sim.support.catalog import read_ptx
from tests.sim.support.expected import Arrays
from tests.support.launch_spec import numpy_type

UNTOUCHED = 0xCD
_SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128}


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A box of a tensor; sizes and places are innermost first, as in a tensor map."""

    name: str
    dtype: str
    dims: tuple[int, ...]
    box: tuple[int, ...]
    load_at: tuple[int, ...]
    store_at: tuple[int, ...]
    swizzle: str = "none"

    @property
    def item(self) -> int:
        return numpy_type(self.dtype).itemsize

    @property
    def bytes(self) -> int:
        """What the load brings, what is out of bounds included."""
        return math.prod(self.box) * self.item

    @property
    def pitch(self) -> int:
        """Bytes from row to row in shared memory: a swizzled row takes its whole span."""
        return _SPANS[self.swizzle] or self.box[0] * self.item

    @property
    def shared_bytes(self) -> int:
        return self.bytes // (self.box[0] * self.item) * self.pitch

    def ptx(self) -> str:
        return read_ptx("tensor_boxes", (f"RANK={len(self.dims)}",))

    def spec(self) -> dict[str, Any]:
        shape = list(reversed(self.dims))
        init = "randint" if self.dtype.startswith(("int", "uint")) else "randn"
        places = [
            {"i32": at}
            for places in (self.load_at, self.store_at)
            for at in (*places, 0, 0, 0, 0)[:5]
        ]
        return {
            "kernel": "tensor_boxes",
            "grid": [1, 1, 1],
            "block": [64, 1, 1],
            "cluster": [1, 1, 1],
            "shared_bytes": 0,
            "registers": 32,
            "buffers": {
                "x": {"dtype": self.dtype, "shape": shape, "init": init},
                "y": {"dtype": self.dtype, "shape": shape, "init": init},
                "raw": {"dtype": "uint32", "shape": [self.shared_bytes // 4], "init": "zeros"},
            },
            "params": [
                {"tensormap": self._map("x")},
                {"tensormap": self._map("y")},
                {"ptr": "raw"},
                {"u32": self.shared_bytes},
                {"u32": self.bytes},
                {"struct": places},
            ],
            "outputs": ["y", "raw"],
        }

    def expected(self, before: Arrays) -> dict[str, np.ndarray]:
        """The outputs, in the buffers' own types: copies are exact."""
        tile = np.zeros(self.box[::-1], numpy_type(self.dtype))
        inside, source = self._overlap(self.load_at)
        tile[inside] = before["x"][source]
        after = before["y"].copy()
        inside, target = self._overlap(self.store_at)
        after[target] = tile[inside]
        return {"y": after, "raw": self._swizzled(tile)}

    def _overlap(self, at: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """What of the box lies within the tensor: its place in the box and in the tensor."""
        inside, outside = [], []
        for first, length, dim in zip(at[::-1], self.box[::-1], self.dims[::-1], strict=True):
            low, high = min(max(first, 0), dim), max(min(first + length, dim), 0)
            inside.append(slice(low - first, max(high, low) - first))
            outside.append(slice(low, max(high, low)))
        return tuple(inside), tuple(outside)

    def _swizzled(self, tile: np.ndarray) -> np.ndarray:
        """Shared memory: the chunk number of 16 bytes, with the number of the 128 bytes above it.

        128B exchanges eight chunks, 64B four, 32B two; the address bits from 7 on say how.
        """
        rows = np.frombuffer(tile.tobytes(), np.uint8).reshape(-1, self.box[0] * self.item)
        linear = np.full((len(rows), self.pitch), UNTOUCHED, np.uint8)
        linear[:, : rows.shape[1]] = rows
        linear = linear.reshape(-1)
        address = np.arange(linear.size)
        chunks = _SPANS[self.swizzle] // 16
        if chunks:
            address = address ^ ((address >> 7 & chunks - 1) << 4)
        memory = np.empty_like(linear)
        memory[address] = linear
        return memory.view(np.uint32)

    def _map(self, buffer: str) -> dict[str, Any]:
        strides = [math.prod(self.dims[:i]) * self.item for i in range(1, len(self.dims))]
        return {
            "buffer": buffer,
            "dtype": self.dtype,
            "dims": list(self.dims),
            "strides_bytes": strides,
            "box": list(self.box),
            "element_strides": [1] * len(self.dims),
            "swizzle": self.swizzle,
        }


def _box(name: str, dtype: str, *sizes: tuple[int, ...], swizzle: str = "none") -> Box:
    dims, box, load_at, store_at = sizes
    return Box(
        name=name, dtype=dtype, dims=dims, box=box, load_at=load_at, store_at=store_at,
        swizzle=swizzle,
    )  # fmt: skip


BOXES = (
    _box("line", "float32", (100,), (64,), (60,), (44,)),
    _box("line_before", "float32", (100,), (64,), (-12,), (4,)),
    _box("rows", "float32", (40, 30), (24, 8), (4, 6), (16, 22)),
    _box("corner", "float32", (40, 30), (24, 8), (-8, -3), (20, 25)),
    _box("outside", "float32", (40, 30), (24, 8), (64, 2), (4, 30)),
    _box("bytes_32", "uint8", (96, 20), (32, 16), (16, 7), (80, 9), swizzle="32B"),
    _box("halves_64", "float16", (72, 40), (32, 24), (8, -5), (56, 20), swizzle="64B"),
    _box("halves_128", "bfloat16", (72, 40), (64, 24), (-16, 17), (24, 20), swizzle="128B"),
    _box("narrow_32", "uint8", (96, 20), (16, 16), (16, 7), (80, 9), swizzle="32B"),
    _box("narrow_64", "float16", (72, 40), (24, 8), (8, 5), (40, 20), swizzle="64B"),
    _box("narrow_128", "bfloat16", (72, 40), (40, 16), (8, 3), (0, 30), swizzle="128B"),
    _box("cube", "float32", (20, 6, 5), (8, 4, 3), (-4, 4, 1), (16, 1, 3)),
    _box("cube_128", "float32", (36, 6, 5), (32, 4, 3), (8, -1, 3), (4, 3, 0), swizzle="128B"),
    _box("narrow_cube", "float32", (36, 6, 5), (12, 4, 3), (8, 1, 1), (4, 1, 0), swizzle="128B"),
    _box("four", "int32", (12, 5, 4, 3), (8, 2, 2, 2), (8, -1, 3, 1), (0, 3, 1, 2)),
    _box("five", "float16", (16, 3, 4, 3, 2), (8, 2, 2, 3, 2), (8, 2, -1, 1, 0), (0, 1, 2, 0, 1)),
)

# The H200 answers each of these with an illegal instruction: the innermost coordinate must be a
# multiple of 16 bytes both ways, and a store takes no negative one. The kinds name it rightly.
REFUSED = (
    (_box("load_off", "float32", (40, 30), (24, 8), (2, 6), (16, 22)), ("misaligned",)),
    (_box("load_off_128", "bfloat16", (72, 40), (64, 24), (3, 17), (24, 20), swizzle="128B"),
     ("misaligned",)),
    (_box("store_off", "float32", (40, 30), (24, 8), (4, 6), (6, 22)), ("misaligned",)),
    (_box("store_before", "float32", (40, 30), (24, 8), (4, 6), (-8, -2)),
     ("illegal-argument", "out-of-bounds")),
)  # fmt: skip
