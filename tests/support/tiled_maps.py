"""A tensor map that the TMA unit takes, and changes after which it still does."""

from typing import Any

from warpsmith.runtime.tensor_maps import TiledMap

GOOD = TiledMap(
    tensor="T3",
    dtype="bfloat16",
    sizes=(100, 70, 6),
    strides=(208, 16000),
    box=(64, 16, 2),
    steps=(1, 1, 3),
    swizzle=128,
)

ACCEPTED: dict[str, dict[str, Any]] = {
    "as it is": {},
    "largest size": {"sizes": (2**31, 70, 6)},
    "smallest sizes": {"sizes": (1, 1, 1)},
    "largest stride": {"strides": (208, 2**40 - 16)},
    "stride 0": {"strides": (0, 16000)},
    "longest box": {"box": (64, 256, 2)},
    "shortest box": {"box": (8, 1, 1)},
    "longest span": {"box": (64, 16, 32), "steps": (1, 1, 8)},
    "no swizzle": {"swizzle": 0, "box": (256, 1, 1)},
    "swizzle 32": {"swizzle": 32, "box": (16, 4, 1)},
    "swizzle 64": {"swizzle": 64, "box": (32, 4, 1)},
    "a line": {"sizes": (9,), "strides": (), "box": (64,), "steps": (1,)},
    "five": {"sizes": (64,) * 5, "strides": (16,) * 4, "box": (64, *(2,) * 4), "steps": (1,) * 5},
    "bytes": {"dtype": "bool", "box": (128, 1, 1)},
    "doubles": {"dtype": "double", "box": (16, 1, 1)},
}
