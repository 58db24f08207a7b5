"""Programs that are compiled for sizes, and run nowhere."""

from collections.abc import Callable
from typing import Any

import numpy as np

import warpsmith
from warpsmith import ops
from warpsmith.frontends.lowered import Compiled


def compiled(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Compiled:
    """Of 16-bit floats."""
    given = [np.zeros(shape, np.float16) for shape in shapes]
    return warpsmith.fuse(function).lower(*given).compile()


def four_layers(x: Any, w: Any) -> Any:
    """Products one after the other, of which those in the middle are alike."""
    for _ in range(4):
        x = ops.linear(x, w)
    return x
