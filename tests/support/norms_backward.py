"""Norms backward beside sums of columns: programs, inputs, and what float64 makes of them."""

from typing import Any

import numpy as np

import warpsmith
from warpsmith import knobs, ops
from warpsmith.ir.dtypes import DataType
from warpsmith.runtime import arrays

FLOAT = DataType.Float
EPSILON = 1e-5


def rms_norm_backward(x: Any, dy: Any, weight: Any, scale: Any) -> Any:
    """dx and dW from saved statistics."""
    wide, given = x.to(FLOAT), dy.to(FLOAT)
    normal, weighted = wide * scale, given * weight
    along = ops.mean(weighted * normal, [-1], keepdim=True)
    rows = list(range(x.ndim - 1))
    return ((weighted - normal * along) * scale).to(x.dtype), ops.sum(given * normal, rows)


def layer_norm_backward(x: Any, dy: Any, weight: Any, mean: Any, scale: Any) -> Any:
    """dx, dW and dB from saved statistics."""
    wide, given = x.to(FLOAT), dy.to(FLOAT)
    normal, weighted = (wide - mean) * scale, given * weight
    first = ops.mean(weighted, [-1], keepdim=True)
    second = ops.mean(weighted * normal, [-1], keepdim=True)
    dx = ((weighted - first - normal * second) * scale).to(x.dtype)
    rows = list(range(x.ndim - 1))
    return dx, ops.sum(given * normal, rows).to(x.dtype), ops.sum(given, rows).to(x.dtype)


def residual_backward(x: Any, dy: Any, weight: Any, residual: Any) -> Any:
    """RMSNorm with a gradient that is added to dx, and statistics that are computed again."""
    wide, given = x.to(FLOAT), dy.to(FLOAT)
    scale = ops.rsqrt(ops.add(ops.mean(wide * wide, [-1], keepdim=True), EPSILON))
    normal, weighted = wide * scale, given * weight
    along = ops.mean(weighted * normal, [-1], keepdim=True)
    dx = (weighted - normal * along) * scale + residual
    return dx.to(x.dtype), ops.sum(given * normal, [0])


class Case:
    """Arrays of one norm backward, and what float64 makes of them."""

    def __init__(self, shape: tuple[int, ...], dtype: str, seed: int = 0) -> None:
        kind = arrays.NUMPY_DTYPES["bfloat16"] if dtype == "bfloat16" else np.dtype(dtype)
        rng = np.random.default_rng(seed)
        self.x, self.dy, self.residual = (rng.standard_normal(shape).astype(kind) for _ in range(3))
        self.weight = rng.standard_normal(shape[-1:]).astype(kind)
        wide = self.x.astype(np.float64)
        self.rms = (1 / np.sqrt((wide**2).mean(-1, keepdims=True) + EPSILON)).astype(np.float32)
        self.mean = wide.mean(-1, keepdims=True).astype(np.float32)
        self.scale = (1 / np.sqrt(wide.var(-1, keepdims=True) + EPSILON)).astype(np.float32)
        self.relative = 2.0**-7 if dtype == "bfloat16" else 2e-5

    def inputs(self, program: object) -> tuple[Any, ...]:
        if program is layer_norm_backward:
            return self.x, self.dy, self.weight, self.mean, self.scale
        last = self.rms if program is rms_norm_backward else self.residual
        return self.x, self.dy, self.weight, last

    def expected(self, program: object) -> list[np.ndarray]:
        x, dy, weight = (t.astype(np.float64) for t in (self.x, self.dy, self.weight))
        layer = program is layer_norm_backward
        mean, scale = (self.mean, self.scale) if layer else (0.0, self.rms)
        normal, weighted = (x - mean) * np.asarray(scale, np.float64), dy * weight
        second = (weighted * normal).mean(-1, keepdims=True)
        first = weighted.mean(-1, keepdims=True) if layer else 0.0
        dx = (weighted - first - normal * second) * scale
        if program is residual_backward:
            dx = dx + self.residual.astype(np.float64)
        rows = tuple(range(x.ndim - 1))
        found = [dx, (dy * normal).sum(rows)]
        return [*found, dy.sum(rows)] if layer else found


PROGRAMS = (rms_norm_backward, layer_norm_backward, residual_backward)


def on_simulator(program: Any, inputs: tuple[Any, ...], rings: Any = "auto") -> list[np.ndarray]:
    with knobs.scope(device="sim", rings=rings):
        return [np.asarray(r) for r in warpsmith.fuse(program)(*inputs)]


def explained(program: Any, inputs: tuple[Any, ...]) -> str:
    return str(warpsmith.fuse(program).lower(*inputs).compile().explain())


def shifted(array: np.ndarray, by: int = 1) -> np.ndarray:
    """The same values so many elements behind an address that vectors can be loaded from."""
    room = np.empty(array.size + by, array.dtype)[by:].reshape(array.shape)
    room[...] = array
    return room


def apart(array: np.ndarray, padding: int) -> np.ndarray:
    """The same values with so many elements between two rows."""
    rows, columns = array.shape
    room = np.zeros((rows, columns + padding), array.dtype)[:, :columns]
    room[...] = array
    return room
