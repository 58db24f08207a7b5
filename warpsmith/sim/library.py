"""The machine's C, compiled on first use and kept in the cache directory."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from warpsmith import knobs
from warpsmith.errors import SimulationError
from warpsmith.sim import isa

_SOURCES: Final = Path(__file__).parent / "native"
_FLAGS: Final = (
    *("-std=c11", "-O2", "-fPIC", "-shared"),
    *("-ffp-contract=off", "-frounding-math"),
)
_COMPILERS: Final = ("cc", "gcc", "clang")


def library() -> ctypes.CDLL:
    """The machine as a loaded library; compiling it takes some seconds, once a version.

    Raises SimulationError when there is no C compiler, or it refuses.
    """
    return _load(knobs.current().cache_dir)


@functools.cache
def _load(cache: Path) -> ctypes.CDLL:
    sources = sorted(_SOURCES.glob("*.[ch]"))
    header = isa.header()
    digest = hashlib.sha256("\0".join((*_FLAGS, header)).encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    path = cache / f"machine-{digest.hexdigest()[:24]}.so"
    if not path.exists():
        _compile([source for source in sources if source.suffix == ".c"], header, path)
    return ctypes.CDLL(str(path))


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
        made = Path(folder) / path.name
        command = [compiler, *_FLAGS, f"-I{folder}", *map(str, sources), "-o", str(made), "-lm"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise SimulationError(
                f"{compiler} cannot compile the simulator:\n{result.stderr.strip()[:2000]}",
                code="WS0810",
                remedy="use GCC 9 or Clang 12, or later",
            )
        os.replace(made, path)
