"""How fast the simulator is, each time against the limit that it promises. Needs no GPU."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from bench.measure import Setting, one_line, significant
from bench.row import Row
from bench.sim_kernels import Kernel, arithmetic, matmul_tile, norm_backward, unrolled
from warpsmith.errors import WarpsmithError
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Source
from warpsmith.sim import Report, run
from warpsmith.sim.ptx import read
from warpsmith.sim.simulate import simulate
from warpsmith.sim.spec import prepare

INSTRUCTION_US = 4.0
"""250,000 warp instructions a second."""
RUN_US = 5e6
READ_US = 1e6
LINES = 5000

_ROWS, _COLUMNS, _K = 64, 2048, 512
_TIMES, _QUICK_TIMES = 5, 3

_Measured = tuple[str, tuple[int, ...], str, float, Callable[[int], float]]


def measure_sim(setting: Setting, *, quick: bool) -> list[Row]:
    """Median microseconds of five things, under one schedule.

    `instruction` of a loop of arithmetic and of a norm's backward; `norm_backward` and
    `matmul_tile` whole, with reading and checking; `read` of a text of 5,000 lines.
    """
    times = _QUICK_TIMES if quick else _TIMES
    rows = []
    for problem, shape, dtype, limit_us, measured in _problems(2_000 if quick else 20_000):
        error, us = None, None
        try:
            us = measured(times)
        except (WarpsmithError, AssertionError) as failure:
            error = one_line(failure)
        rows.append(
            Row(
                suite="sim",
                problem=problem,
                shape=shape,
                dtype=dtype,
                impl="warpsmith",
                us=significant(us, 4),
                limit_us=limit_us,
                gpu=processor(),
                versions=tuple(
                    pair for pair in setting.versions if pair[0] in ("nvrtc", "warpsmith")
                ),
                date=setting.date,
                error=error,
            )
        )
    return rows


def _problems(trips: int) -> Iterator[_Measured]:
    norm, tile = norm_backward(_ROWS, _COLUMNS), matmul_tile(_K)
    loop = arithmetic(trips)
    yield "instruction, arithmetic", (trips,), "float", INSTRUCTION_US, _instruction(loop)
    yield "instruction, norm", (_ROWS, _COLUMNS), "bfloat16", INSTRUCTION_US, _instruction(norm)
    yield "norm_backward", (_ROWS, _COLUMNS), "bfloat16", RUN_US, _whole(norm, _check_norm)
    yield "matmul_tile", (128, 256, _K), "bfloat16", RUN_US, _whole(tile, _check_tile)
    yield "read", (LINES,), "ptx", READ_US, _reading(LINES)


def ptx_of(kernel: Kernel) -> str:
    """PTX by NVRTC, with line numbers."""
    source = Source(text=kernel.cuda, entry=kernel.entry, options=("-lineinfo",), arch="sm_90a")
    return compile_source(source).ptx


def _instruction(kernel: Kernel) -> Callable[[int], float]:
    """Time of one warp instruction, reading and preparing left out."""

    def measured(times: int) -> float:
        job = prepare(read(ptx_of(kernel)), kernel.spec)
        simulate(job.launch, count=1)
        found = []
        for _ in range(times):
            start = time.perf_counter()
            report = simulate(job.launch, count=1)
            spent = time.perf_counter() - start
            assert report.verdict == "clean", str(report)
            found.append(1e6 * spent / report.stats["instructions"])
        return statistics.median(found)

    return measured


def _whole(kernel: Kernel, check: Callable[[Report], None]) -> Callable[[int], float]:
    """Time from the text to the report."""

    def measured(times: int) -> float:
        ptx = ptx_of(kernel)
        check(run(ptx, kernel.spec, schedules=1))
        return _median(lambda: run(ptx, kernel.spec, schedules=1), times)

    return measured


def _reading(lines: int) -> Callable[[int], float]:
    def measured(times: int) -> float:
        ptx = ptx_of(unrolled(lines // 7))
        count = ptx.count("\n")
        assert lines <= count < 1.5 * lines, f"the text has {count} lines"
        return _median(lambda: read(ptx), times) * lines / count

    return measured


def _median(work: Callable[[], object], times: int) -> float:
    found = []
    for _ in range(times):
        read.cache_clear()
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return 1e6 * statistics.median(found)


def _check_norm(report: Report) -> None:
    x, dy, w, dx, dw = (report.arrays[n].astype(np.float64) for n in ("x", "dy", "w", "dx", "dw"))
    r = 1 / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5)
    mean = (x * dy * w).mean(1, keepdims=True)
    _check(report, dx, r * (dy * w - x * r * r * mean))
    _check(report, dw, (dy * x * r).sum(0))


def _check_tile(report: Report) -> None:
    a, b, out = (report.arrays[name].astype(np.float64) for name in ("a", "b", "out"))
    _check(report, out, a @ b.T)


def _check(report: Report, got: np.ndarray, want: np.ndarray) -> None:
    assert report.verdict == "clean", str(report)
    error = np.linalg.norm(got - want) / np.linalg.norm(want)
    assert error < 5e-3, f"wrong result, relative error {error:.3g}"


def processor() -> str:
    """The kind of the processor, and how many cores this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    name = next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), "")
    return f"{name or platform.machine()}, {cores} cores"
