"""The main job on real input: fuse an RMSNorm backward, show the kernels, run, check."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import warpsmith
from warpsmith import knobs, ops
from warpsmith.frontends.lowered import Compiled
from warpsmith.runtime import arrays, driver
from warpsmith.sim.library import library
from warpsmith.testing import do_bench_interleaved, relative_error
from warpsmith.tools.texts import kernel_source

EPSILON = 1e-6
LARGEST_ERROR = 2.0**-8
"""One unit in the last place of bfloat16: both results are rounded to it once."""

SCHEDULES = 4
"""Orders of warps that the simulator runs the kernels under."""


def rms_norm_backward(x: Any, dy: Any, weight: Any, rstd: Any) -> tuple[Any, Any]:
    """Gradients of `x * rstd * weight` by x and by weight.

    Args:
        x: [rows, columns], what was normalized.
        dy: [rows, columns], gradient of the result.
        weight: [columns].
        rstd: [rows, 1] float, one over the root mean square of each row.
    """
    normalized = x.to(warpsmith.DataType.Float) * rstd
    gradient = dy.to(warpsmith.DataType.Float)
    weighted = gradient * weight
    along = ops.mean(weighted * normalized, [-1], keepdim=True)
    dx = rstd * (weighted - normalized * along)
    dweight = (gradient * normalized).sum([0])
    return dx.to(x.dtype), dweight.to(weight.dtype)


def reference(x: Any, dy: Any, weight: Any, rstd: Any) -> tuple[np.ndarray, np.ndarray]:
    """The same in float64 NumPy, from the same rounded inputs."""
    x, dy, weight, rstd = (value.astype(np.float64) for value in (x, dy, weight, rstd))
    normalized = x * rstd
    weighted = dy * weight
    along = (weighted * normalized).mean(axis=1, keepdims=True)
    return rstd * (weighted - normalized * along), (dy * normalized).sum(axis=0)


def draw(rows: int, columns: int) -> tuple[np.ndarray, ...]:
    """x, dy, weight (bfloat16) and rstd (float), normally distributed."""
    random = np.random.default_rng()
    bfloat16 = arrays.NUMPY_DTYPES["bfloat16"]
    x, dy = (random.standard_normal((rows, columns)).astype(bfloat16) for _ in range(2))
    weight = (1 + 0.1 * random.standard_normal(columns)).astype(bfloat16)
    square = np.square(x.astype(np.float64)).mean(axis=1, keepdims=True)
    rstd = (1 / np.sqrt(square + EPSILON)).astype(np.float32)
    return x, dy, weight, rstd


def bytes_moved(rows: int, columns: int) -> int:
    """Fewest bytes that the job reads and writes."""
    return 3 * 2 * rows * columns + 2 * 2 * columns + 4 * rows


def run_demo(rows: int, columns: int, *, full: bool) -> bool:
    """Print the whole story; False when an answer is off."""
    fused = warpsmith.fuse(rms_norm_backward)
    host = draw(rows, columns)
    inputs, place = _placed(host)
    _heading(f"RMSNorm backward, {rows} x {columns}, bfloat16, on {place}")
    begun = time.perf_counter()
    compiled = fused.lower(*inputs).compile()
    spent_ms = 1e3 * (time.perf_counter() - begun)
    arch = compiled.kernels[0].target.family.arch
    print(f"traced, scheduled and compiled for {arch} in {spent_ms:.0f} ms")
    _heading("chosen")
    print(compiled.explain().rstrip("\n"))
    for number, kernel in enumerate(compiled.kernels):
        _heading(f"kernel {number}: {kernel.name}")
        cuda = str(kernel.asm["cuda"])
        print(cuda.strip() if full else kernel_source(cuda))
        print(f"\n{kernel.n_regs} registers, {kernel.n_spills} bytes spilled")
    _heading("answer")
    if _simulated():
        library(lambda: print("compiling the simulator, once: some seconds", flush=True))
    right = _check(fused(*inputs), reference(*host))
    if _simulated():
        right = _verify(compiled) and right
    elif _gpu() is None:
        print("run by the NumPy reference; no GPU is used, so there is nothing to time")
    else:
        _time(lambda: fused(*inputs), rows, columns, on_torch=inputs is not host)
    return right


def _placed(host: tuple[np.ndarray, ...]) -> tuple[tuple[Any, ...], str]:
    """The inputs on the GPU where there are one and PyTorch, else as they are; and where."""
    name = _gpu()
    if name is None:
        return host, "the CPU"
    try:
        import torch
    except ImportError:
        return host, name
    if not torch.cuda.is_available():
        return host, name
    like = torch.empty(0, device="cuda")
    return tuple(arrays.from_numpy(array, like) for array in host), name


def _gpu() -> str | None:
    """Name of the GPU that calls run on; None where there is none, or the knobs say so."""
    if knobs.current().device in ("sim", "reference") or driver.device_count() == 0:
        return None
    return driver.device_properties(0).name


def _simulated() -> bool:
    """Whether calls run on the simulator."""
    return _gpu() is None and knobs.current().device != "reference"


def _verify(compiled: Compiled) -> bool:
    """Print what the simulator says of the kernels; False when one is not clean."""
    begun = time.perf_counter()
    verification = compiled.verify(schedules=SCHEDULES)
    print(verification)
    instructions = sum(report.stats["instructions"] for report in verification.reports)
    print(
        f"run by the simulator in place of a GPU: {instructions} warp instructions a schedule, "
        f"{time.perf_counter() - begun:.1f} s for {SCHEDULES}; nothing is timed"
    )
    return verification.verdict == "clean"


def _check(results: Any, expected: tuple[np.ndarray, np.ndarray]) -> bool:
    """Print the error of each result; False when one is off."""
    right = True
    for name, result, want in zip(("dx", "dweight"), results, expected, strict=True):
        error = relative_error(arrays.to_numpy(result), want)
        good = error <= LARGEST_ERROR  # a NaN is not
        verdict = "right" if good else f"WRONG, more than {LARGEST_ERROR:.1e}"
        print(f"{name:8} relative error against float64 {error:.2e}: {verdict}")
        right = right and good
    return right


def _time(call: Callable[[], object], rows: int, columns: int, *, on_torch: bool) -> None:
    """Time beside the fastest copy or add that moves the same bytes."""
    if not on_torch:
        print("not timed: timing needs PyTorch with CUDA")
        return
    from warpsmith.errors import DeviceError
    from warpsmith.tools.bench import bench_module

    passes: dict[str, Callable[[], object]] = {}
    try:
        ceilings = bench_module("ceilings")
        passes = ceilings.traffic_passes(bytes_moved(rows, columns), "bfloat16")
    except DeviceError:
        print("the benchmarks are not installed, so there is no ceiling to compare with")
    times = do_bench_interleaved({"warpsmith": call, **passes})
    us = 1e3 * times.pop("warpsmith")
    print(f"{us:.1f} us, {bytes_moved(rows, columns) / us / 1e6:.2f} TB/s")
    if times:
        name = min(times, key=lambda n: times[n])
        ceiling = 1e3 * times[name]
        print(
            f"{100 * ceiling / us:.0f} % of the ceiling: {name} of as many bytes {ceiling:.1f} us"
        )


def _heading(text: str) -> None:
    print(f"\n== {text}")
