"""The machine's C, compiled on first use and kept in the cache directory."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
import warnings
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


_DIGEST_BYTES: Final = hashlib.sha256().digest_size

_LOADED: Final[dict[Path, ctypes.CDLL]] = {}
_LOADING: Final = threading.Lock()


def library(compiling: Callable[[], None] = lambda: None) -> ctypes.CDLL:
    """The machine as a loaded library; compiling it takes some seconds, once a version.

    One that is damaged is compiled again. Where it cannot be kept, each process compiles its own.
    Both are warned of.

    Args:
        compiling: called before it is compiled, if it has to be.

    Raises SimulationError when there is no C compiler, or it refuses.
    """
    path = _path(knobs.current().cache_dir)
    with _LOADING:
        if path not in _LOADED:
            _LOADED[path] = _kept(path) or _built(path, compiling)
        return _LOADED[path]


@functools.cache
def _path(cache: Path) -> Path:
    digest = hashlib.sha256("\0".join((*_FLAGS, isa.header())).encode())
    for source in sorted(_SOURCES.rglob("*.[ch]")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return cache / f"machine-{digest.hexdigest()[:24]}-sealed.so"


def _kept(path: Path) -> ctypes.CDLL | None:
    """The library in the cache, if it is there and whole: loading a part of it can end the process.

    A digest stands behind it, where the loader does not look.
    """
    try:
        content = path.read_bytes()
    except OSError:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # it was used, for those who remove what was not
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() == digest:
        return ctypes.CDLL(str(path))
    _warn(f"the simulator in {path} is damaged, and is compiled again")
    return None


def _built(path: Path, compiling: Callable[[], None]) -> ctypes.CDLL:
    compiling()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".building-") as folder:
            made = _compiled(Path(folder))
            body = made.read_bytes()
            made.write_bytes(body + hashlib.sha256(body).digest())
            os.replace(made, path)
        return ctypes.CDLL(str(path))
    except OSError as failure:
        _warn(
            f"the simulator cannot be kept in {path.parent} ({failure}), and each process compiles "
            "it anew; set WARPSMITH_CACHE_DIR to a directory that can be written"
        )
    try:
        with tempfile.TemporaryDirectory(prefix="warpsmith-") as folder:
            return ctypes.CDLL(str(_compiled(Path(folder))))
    except OSError as failure:
        raise SimulationError(
            f"the simulator cannot be compiled in {tempfile.gettempdir()}: {failure}",
            code="WS0810",
            remedy="set WARPSMITH_CACHE_DIR or TMPDIR to a directory that can be written",
        ) from None


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=5)


def _compiled(folder: Path) -> Path:
    """The library, made in this folder."""
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise SimulationError(
            f"the simulator needs a C compiler, and none of {', '.join(_COMPILERS)} is on the PATH",
            code="WS0810",
            remedy="install one (Debian: `apt install gcc`)",
        )
    (folder / "isa.h").write_text(isa.header())
    sources = sorted(_SOURCES.rglob("*.c"))
    objects = [f"{folder}/{source.stem}.o" for source in sources]
    commands = [
        [compiler, *_FLAGS, f"-I{folder}", f"-I{_SOURCES}", "-c", str(source), "-o", made]
        for source, made in zip(sources, objects, strict=True)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_run, commands))
    made = folder / "machine.so"
    _run([compiler, *_FLAGS, "-shared", *objects, "-o", str(made), "-lm"])
    return made


def _run(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SimulationError(
            f"{command[0]} cannot compile the simulator:\n{result.stderr.strip()[:2000]}",
            code="WS0810",
            remedy="use GCC 9 or Clang 12, or later",
        )
