"""Time to the first kernel: of a few programs, each time in a fresh process."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.compile_probe import PROBLEMS
from bench.measure import Setting, one_line, significant
from bench.peers import chosen, installed
from bench.row import Row

_ROOT = Path(__file__).parents[1]
_TIMES = 5
_QUICK_TIMES = 3
_LIMIT_S = 120.0
_IMPORTS = ("import", "import_cached")


class ProbeFailed(Exception):
    """A process that was to time a compile ended without a time."""


def measure_compile(setting: Setting, *, quick: bool) -> list[Row]:
    """Medians in microseconds of four things, for each of PROBLEMS.

    `import` of what a first compile needs, and `import_cached` of what kernels from the disk need;
    `pointwise_first`, definition to loaded cubin with empty caches; `pointwise_cached`, the same
    from the disk cache of another process. Without a GPU the cubin is compiled and not loaded, and
    there are no peers.
    """
    times = _QUICK_TIMES if quick else _TIMES
    rows: list[Row] = []
    impls = ["warpsmith"]
    if setting.gpu != "none":
        able = ("torch_compile", *(["nvfuser"] if installed("nvfuser") else []))
        impls += [name for name in able if name in chosen(setting.peers)]
    for impl in impls:
        for name in PROBLEMS:
            try:
                found = _medians(impl, name, times)
            except (ProbeFailed, subprocess.TimeoutExpired) as failure:
                rows.append(_row(setting, impl, name, "first", error=one_line(failure)))
                continue
            for what, ms in found.items():
                if what not in _IMPORTS or name == next(iter(PROBLEMS)):
                    rows.append(_row(setting, impl, name, what, us=1e3 * ms))
    return rows


def _medians(impl: str, name: str, times: int) -> dict[str, float]:
    """Milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        first = [_probe(impl, name, base / str(number)) for number in range(times)]
        found = {
            "import": [probe["import_ms"] for probe in first],
            "first": [probe["compile_ms"] for probe in first],
        }
        if impl == "warpsmith":
            again = [_probe(impl, name, base / "0") for _ in range(times)]
            found["import_cached"] = [probe["import_cached_ms"] for probe in again]
            found["cached"] = [probe["compile_ms"] for probe in again]
    return {what: statistics.median(ms) for what, ms in found.items()}


def _probe(impl: str, name: str, cache_dir: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.compile_probe", impl, name, str(cache_dir)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        said = done.stderr.strip().splitlines()
        raise ProbeFailed(said[-1] if said else f"exit status {done.returncode}")
    found: dict[str, float] = json.loads(lines[-1])
    return found


def _row(
    setting: Setting,
    impl: str,
    name: str,
    what: str,
    *,
    us: float | None = None,
    error: str | None = None,
) -> Row:
    problem = PROBLEMS[name]
    return Row(
        suite="compile",
        problem=what if what in _IMPORTS else f"{name}_{what}",
        shape=problem.shape,
        dtype=problem.dtype,
        impl=impl,
        us=significant(us, 4),
        gpu=setting.gpu,
        versions=setting.versions,
        date=setting.date,
        error=error,
    )
