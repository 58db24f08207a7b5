"""The machine's C, compiled on first use and kept in the cache directory."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from warpsmith import knobs
from warpsmith.errors import SimulationError
from warpsmith.sim import isa

_SOURCES: Final = Path(__file__).parent / "native"
_FLAGS: Final = (
    *("-std=c11", "-O2", "-fPIC"),
    *("-ffp-contract=off", "-frounding-math"),
)
_COMPILERS: Final = ("cc", "gcc", "clang")


def library(compiling: Callable[[], None] | None = None) -> ctypes.CDLL:
    """The machine as a loaded library; compiling it takes some seconds, once a version.

    Args:
        compiling: called before it is compiled, if it has to be.

    Raises SimulationError when there is no C compiler, or it refuses.
    """
    path = _path(knobs.current().cache_dir)
    if compiling is not None and not path.exists():
        compiling()
    return _load(path)


@functools.cache
def _path(cache: Path) -> Path:
    digest = hashlib.sha256("\0".join((*_FLAGS, isa.header())).encode())
    for source in sorted(_SOURCES.rglob("*.[ch]")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return cache / f"machine-{digest.hexdigest()[:24]}.so"


@functools.cache
def _load(path: Path) -> ctypes.CDLL:
    try:
        if not path.exists():
            _compile(sorted(_SOURCES.rglob("*.c")), isa.header(), path)
        return ctypes.CDLL(str(path))
    except OSError as failure:
        raise SimulationError(
            f"the simulator cannot be put into {path.parent}: {failure}",
            code="WS0810",
            remedy="set WARPSMITH_CACHE_DIR to a directory that can be written",
        ) from None


def _compile(sources: list[Path], header: str, path: Path) -> None:
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise SimulationError(
            f"the simulator needs a C compiler, and none of {', '.join(_COMPILERS)} is on the PATH",
            code="WS0810",
            remedy="install one (Debian: `apt install gcc`)",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".building-") as folder:
        (Path(folder) / "isa.h").write_text(header)
        objects = [f"{folder}/{source.stem}.o" for source in sources]
        commands = [
            [compiler, *_FLAGS, f"-I{folder}", f"-I{_SOURCES}", "-c", str(source), "-o", made]
            for source, made in zip(sources, objects, strict=True)
        ]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(_run, commands))
        made = f"{folder}/{path.name}"
        _run([compiler, *_FLAGS, "-shared", *objects, "-o", made, "-lm"])
        os.replace(made, path)


def _run(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SimulationError(
            f"{command[0]} cannot compile the simulator:\n{result.stderr.strip()[:2000]}",
            code="WS0810",
            remedy="use GCC 9 or Clang 12, or later",
        )
