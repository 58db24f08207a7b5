"""The machine's C, compiled on first use and kept in the cache directory."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Final

from warpsmith import knobs, native
from warpsmith.errors import SimulationError
from warpsmith.locks import ProcessLock
from warpsmith.sim import isa

_SOURCES: Final = Path(__file__).parent / "native"
_FLAGS: Final = (
    *("-std=c11", "-O2", "-fPIC"),
    *("-ffp-contract=off", "-frounding-math"),
)
_WHAT: Final = "the simulator"

_LOADED: Final[dict[Path, ctypes.CDLL]] = {}
_LOADING: Final = ProcessLock()


def library(compiling: Callable[[], None] = lambda: None) -> ctypes.CDLL:
    """The machine as a loaded library; compiling it takes some seconds, once a version.

    One that is damaged is compiled again. Where it cannot be kept, each process compiles its own.
    Both are warned of.

    Args:
        compiling: called before it is compiled, if it has to be.

    Raises SimulationError when there is no C compiler, or it refuses.
    """

    def compiled(folder: Path) -> Path:
        compiling()
        return _compiled(folder)

    path = _path(knobs.current().cache_dir)
    with _LOADING.own:
        if path not in _LOADED:
            try:
                made = native.loaded(path, _WHAT, compiled, lambda found: ctypes.CDLL(str(found)))
            except native.NotCompiled as failure:
                raise SimulationError(str(failure), code="WS0810", remedy=failure.remedy) from None
            _LOADED[path] = made
        return _LOADED[path]


@functools.cache
def _path(cache: Path) -> Path:
    sources = sorted(_SOURCES.rglob("*.[ch]"))
    return cache / f"machine-{native.digest_of(sources, *_FLAGS, isa.header())}-sealed.so"


def _compiled(folder: Path) -> Path:
    """The library, made in this folder."""
    (folder / "isa.h").write_text(isa.header())
    flags = (*_FLAGS, f"-I{folder}", f"-I{_SOURCES}")
    sources = sorted(_SOURCES.rglob("*.c"))
    return native.compile_library(sources, folder / "machine.so", _WHAT, flags, ("-lm",))
