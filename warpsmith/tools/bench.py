"""The command `bench`: finds the package of benchmarks and hands over to it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import warpsmith
from warpsmith.errors import ArgumentError, DeviceError


def run_bench(
    suites: Sequence[str],
    json_path: Path | None,
    peers: str,
    *,
    quick: bool,
    sizes: str,
    limit_s: float | None,
) -> None:
    """Run suites, whose names may have hyphens (`norm-fwd`), and print their tables.

    Raises ArgumentError and DeviceError for what cannot be run.
    """
    shapes = parse_sizes(sizes)
    runner = bench_module("run")
    choice = runner.Choice(quick=quick, sizes=shapes, limit_s=limit_s)
    names = [suite.replace("-", "_") for suite in suites]
    runner.run(names, json_path, peers, choice=choice)


def run_unseen(
    suites: Sequence[str],
    json_path: Path | None,
    peers: str,
    *,
    seed: int,
    shapes: int,
    minutes: float,
    plot: Path | None,
) -> None:
    """Time families of rows at sizes that a seed says, for so many minutes, and print how they did.

    Args:
        shapes: others than the chosen one that are timed of each problem.
        plot: an SVG file for a picture of it.

    Raises ArgumentError and DeviceError for what cannot be run.
    """
    runner = bench_module("unseen")
    names = tuple(suite.replace("-", "_") for suite in suites)
    asked = {"minutes": minutes, "peers": peers, "json_path": json_path, "plot": plot}
    print("\n".join(runner.run(names, seed, shapes, **asked)))


def bench_module(name: str) -> ModuleType:
    """A module of the benchmarks, which live beside the package in the source tree.

    Raises DeviceError where they, or what they import, are missing.
    """
    home = Path(warpsmith.__file__).parents[1]
    if (home / "bench" / "run.py").is_file() and str(home) not in sys.path:
        sys.path.append(str(home))
    try:
        return importlib.import_module(f"bench.{name}")
    except ModuleNotFoundError as missing:
        raise DeviceError(
            f"the benchmarks need the module {missing.name!r}, which is not here",
            code="WS0613",
            remedy="run them from a checkout of the source, with PyTorch installed",
        ) from missing


def parse_sizes(text: str) -> tuple[tuple[int, ...], ...]:
    """`8192x1024,64x64` as tuples. Raises ArgumentError for anything else."""
    shapes = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        parts = word.split("x")
        if not all(part.isdecimal() for part in parts):
            raise ArgumentError(
                f"{word!r} is no shape", code="WS0342", remedy="write 8192x1024,8192x4096"
            )
        shapes.append(tuple(int(part) for part in parts))
    return tuple(shapes)
