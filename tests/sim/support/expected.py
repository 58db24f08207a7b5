"""What each correct kernel of tests/sim/kernels computes, in float64.

A function takes the kernel's spec and its buffers before the launch, and returns its outputs. What
a kernel leaves alone keeps its initial value.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]
Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Reference values, and how far from them a result may be: |error| <= atol + rtol * |value|."""

    compute: Callable[[Spec, Arrays], dict[str, np.ndarray]]
    rtol: float = 1e-6
    atol: float = 0.0


def assert_expected(
    expected: Expected, spec: Spec, before: Arrays, results: Mapping[str, np.ndarray]
) -> None:
    """All outputs of the spec are what the reference makes of the buffers before the launch."""
    values = expected.compute(spec, before)
    assert set(values) >= set(spec["outputs"])
    for name in spec["outputs"]:
        np.testing.assert_allclose(
            wide(results[name]), values[name], rtol=expected.rtol, atol=expected.atol, err_msg=name
        )


def scalar(spec: Spec, position: int) -> Any:
    """The value of a scalar parameter."""
    (value,) = spec["params"][position].values()
    return value


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


def _changed(before: np.ndarray, rows: int, values: np.ndarray) -> np.ndarray:
    """The first rows replaced."""
    after = wide(before)
    after[:rows] = values
    return after


def tma_ring(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    rows = spec["grid"][0] * scalar(spec, 2) * 8
    return {"y": _changed(arrays["y"], rows, 2 * wide(arrays["x"])[:rows] + 1)}


def bulk_ring(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    rows = spec["grid"][0] * scalar(spec, 3)
    added = wide(arrays["y"])[:rows] + scalar(spec, 2) * wide(arrays["x"])[:rows]
    return {"y": _changed(arrays["y"], rows, added)}


def ws_ring(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    rows = scalar(spec, 3) * 16
    return {"z": _changed(arrays["z"], rows, (wide(arrays["x"]) * wide(arrays["y"]))[:rows])}


def tma_store(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    rows = spec["grid"][0] * scalar(spec, 2) * 8
    return {"y": _changed(arrays["y"], rows, wide(arrays["x"])[:rows] ** 2)}


def wgmma_ring(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    size = scalar(spec, 3) * 64
    return {"d": wide(arrays["a"])[:, :size] @ wide(arrays["b"])[:, :size].T}


def pingpong(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    x, y = wide(arrays["x"]), wide(arrays["y"])
    carry = np.zeros(x.shape[1])
    for tile in range(scalar(spec, 2)):
        carry = y[tile] = x[tile] + 0.5 * carry[::-1]
    return {"y": y}


def cluster_multicast(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    tiles = spec["grid"][0] // 2 * scalar(spec, 2)
    x = wide(arrays["x"])[: tiles * 16].reshape(tiles, 2, 8, 64)
    return {"y": _changed(arrays["y"], tiles * 8, x.sum(axis=1).reshape(tiles * 8, 64))}


def norm_backward(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    x, dy, w = (wide(arrays[name]) for name in ("x", "dy", "w"))
    r = 1 / np.sqrt((x * x).mean(axis=1, keepdims=True) + scalar(spec, 8))
    g = dy * w
    dx = r * (g - x * r**2 * (g * x).mean(axis=1, keepdims=True))
    return {"dx": dx, "dw": (dy * x * r).sum(axis=0)}


def cp_async(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    size = scalar(spec, 3) * 32  # a and b are dense: a smaller size reads them as narrower arrays
    a = wide(arrays["a"]).reshape(-1)[: 64 * size].reshape(64, size)
    b = wide(arrays["b"]).reshape(-1)[: 128 * size].reshape(128, size)
    return {"d": a @ b.T}


def dsmem(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    x = wide(arrays["x"]).reshape(-1, 4 * scalar(spec, 2), 128)
    return {"y": (x - x.mean(axis=1, keepdims=True)).reshape(-1, 128)}


def grid_sync(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    values = wide(arrays["values"])
    steps = scalar(spec, 2)
    for step in range(steps):
        old = values[step % 2]
        values[(step + 1) % 2] = 0.25 * np.roll(old, 1) + 0.5 * old + 0.25 * np.roll(old, -1)
    return {"values": values, "counter": np.array([spec["grid"][0] * max(steps - 1, 0)])}


def tensormap_replace(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    tiles = spec["grid"][0]
    source = (3 * np.arange(tiles) + 1) % tiles
    return {"y": wide(arrays["x"]).reshape(tiles, 8, 32)[source].reshape(-1, 32) + 1}


def atomics_shuffles(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    x = arrays["x"].astype(np.int64) % 32
    warps = x.reshape(-1, 32)
    extremes = (warps.min(axis=1), warps.max(axis=1), np.bitwise_or.reduce(warps, axis=1))
    return {
        "counts": np.bincount(x, minlength=32),
        "scans": warps.cumsum(axis=1).reshape(-1),
        "rotated": np.roll(warps, -1, axis=1).reshape(-1),
        "extremes": np.stack(extremes, axis=1),
        "odd": (warps % 2 << np.arange(32)).sum(axis=1),
        "last": np.array([(x << 32 | np.arange(x.size)).max()]),
    }


def multi_role(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    rows = scalar(spec, 3)
    return {"z": _changed(arrays["z"], rows, (wide(arrays["x"]) * wide(arrays["y"]))[:rows])}


def corpus_ring(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    x = wide(arrays["x"])[: scalar(spec, 2)]
    return {"y": _changed(arrays["y"], len(x), x + x[:, ::-1])}


def corpus_prologue(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    rows = scalar(spec, 2)
    return {"y": _changed(arrays["y"], rows, -wide(arrays["x"])[:rows])}


def corpus_parity_trap(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    rows = scalar(spec, 2)
    return {"y": _changed(arrays["y"], rows, 2 * wide(arrays["x"])[:rows])}


def corpus_handoff(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    rows = scalar(spec, 2)
    return {"y": _changed(arrays["y"], rows, wide(arrays["x"])[:rows, ::-1])}


def corpus_store(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    rows = scalar(spec, 3)
    y = wide(arrays["x"])[:rows] + 1
    return {"y": _changed(arrays["y"], rows, y), "z": _changed(arrays["z"], rows, 2 * y)}


def corpus_cluster(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    rows = scalar(spec, 2)
    x = wide(arrays["x"])[: 2 * rows].reshape(2, rows, 64)
    return {"y": _changed(arrays["y"], 2 * rows, x[::-1, :, ::-1].reshape(2 * rows, 64))}


def corpus_multicast(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    return {"y": np.stack([wide(arrays["x"])] * 2)}


def corpus_named(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    tiles = scalar(spec, 2)
    turned = np.roll(wide(arrays["x"])[:tiles], -1, axis=1)
    return {"y": _changed(arrays["y"], tiles, turned)}


def corpus_registers(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    return {"y": wide(arrays["x"]) ** 2}


def corpus_wgmma(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    size = scalar(spec, 3) * 64
    b = wide(arrays["b"]).reshape(-1)[: 8 * size].reshape(8, size)
    return {"d": wide(arrays["a"])[:, :size] @ b.T}


def corpus_grid(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    return {"total": wide(arrays["x"])[: scalar(spec, 4)].sum(axis=0)}


BFLOAT16_ROUNDING = 2.0**-8

EXPECTED = {
    "tma_ring": Expected(compute=tma_ring, atol=1e-6),
    "bulk_ring": Expected(compute=bulk_ring, atol=1e-6),
    "ws_ring": Expected(compute=ws_ring),
    "tma_store": Expected(compute=tma_store),
    "wgmma_ring": Expected(compute=wgmma_ring, rtol=BFLOAT16_ROUNDING, atol=1e-3),
    "pingpong": Expected(compute=pingpong, atol=1e-6),
    "cluster_multicast": Expected(compute=cluster_multicast, atol=1e-6),
    "norm_backward": Expected(compute=norm_backward, rtol=BFLOAT16_ROUNDING, atol=1e-4),
    "cp_async": Expected(compute=cp_async, rtol=1e-4, atol=1e-3),
    "dsmem": Expected(compute=dsmem, atol=1e-6),
    "grid_sync": Expected(compute=grid_sync, atol=1e-6),
    "tensormap_replace": Expected(compute=tensormap_replace, atol=1e-6),
    "atomics_shuffles": Expected(compute=atomics_shuffles, rtol=0.0),
    "multi_role": Expected(compute=multi_role),
    "corpus/ring": Expected(compute=corpus_ring, atol=1e-6),
    "corpus/prologue": Expected(compute=corpus_prologue),
    "corpus/parity_trap": Expected(compute=corpus_parity_trap),
    "corpus/handoff": Expected(compute=corpus_handoff),
    "corpus/store": Expected(compute=corpus_store, atol=1e-6),
    "corpus/cluster": Expected(compute=corpus_cluster),
    "corpus/multicast": Expected(compute=corpus_multicast),
    "corpus/named": Expected(compute=corpus_named),
    "corpus/registers": Expected(compute=corpus_registers),
    "corpus/wgmma": Expected(compute=corpus_wgmma, rtol=1e-4, atol=1e-3),
    "corpus/grid": Expected(compute=corpus_grid, atol=1e-6),
}
