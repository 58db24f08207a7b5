"""C that is compiled where it is first needed, and kept in the cache directory."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

COMPILERS: Final = ("cc", "gcc", "clang")
DIGEST_BYTES: Final = hashlib.sha256().digest_size


class NotCompiled(Exception):
    """Why there is no library, in words, and what to do about it."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why)
        self.remedy = remedy


def is_checkout() -> bool:
    """Whether somebody may be at work on warpsmith: its files may change, and its tests replace
    parts of it while it runs, which its files do not tell.
    """
    return (Path(__file__).parents[1] / "pyproject.toml").is_file()


def loaded(path: Path, what: str, compiled: Callable[[Path], Path], load: Callable[[Path], T]) -> T:
    """A library from where it is kept, or compiled, kept and loaded.

    One that is damaged is compiled again; where it cannot be kept, each process compiles its own.
    Both are warned of.

    Args:
        what: the library in messages: `the simulator`.
        compiled: compiles it in a folder.

    Raises NotCompiled.
    """
    try:
        return _kept(path, what, load) or _built(path, compiled, load)
    except OSError as failure:
        _warn(
            f"{what} cannot be kept in {path.parent} ({failure}), and each process compiles it "
            "anew; set WARPSMITH_CACHE_DIR to a directory that can be written"
        )
    try:
        with tempfile.TemporaryDirectory(prefix="warpsmith-") as folder:
            return load(compiled(Path(folder)))
    except OSError as failure:
        raise NotCompiled(
            f"{what} cannot be compiled in {tempfile.gettempdir()}: {failure}",
            "set WARPSMITH_CACHE_DIR or TMPDIR to a directory that can be written",
        ) from None


def digest_of(sources: Sequence[Path], *also: str) -> str:
    """What tells versions of a library apart: its files, and what they are compiled with."""
    digest = hashlib.sha256("\0".join(also).encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:24]


def compile_library(
    sources: Sequence[Path], made: Path, what: str, flags: Sequence[str], linked: Sequence[str] = ()
) -> Path:
    """Compile C files, each by itself and at the same time, into the shared library `made`."""
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise NotCompiled(
            f"{what} needs a C compiler, and none of {', '.join(COMPILERS)} is on the PATH",
            "install one (Debian: `apt install gcc`)",
        )

    def run(command: list[str]) -> None:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            said = result.stderr.strip()[:2000]
            raise NotCompiled(
                f"{command[0]} cannot compile {what}:\n{said}", "use GCC 9 or Clang 12, or later"
            )

    objects = [str(made.parent / f"{source.stem}.o") for source in sources]
    commands = [
        [compiler, *flags, "-c", str(source), "-o", each]
        for source, each in zip(sources, objects, strict=True)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(run, commands))
    run([compiler, *flags, "-shared", *objects, "-o", str(made), *linked])
    return made


def _kept(path: Path, what: str, load: Callable[[Path], T]) -> T | None:
    """The library, if it is there and whole: loading a part of it can end the process.

    A digest stands behind it, where the loader does not look.
    """
    try:
        content = path.read_bytes()
    except OSError:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # it was used, for those who remove what was not
    body, digest = content[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
    if hashlib.sha256(body).digest() == digest:
        return load(path)
    _warn(f"{what} in {path} is damaged, and is compiled again")
    return None


def _built(path: Path, compiled: Callable[[Path], Path], load: Callable[[Path], T]) -> T:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".building-") as folder:
        made = compiled(Path(folder))
        body = made.read_bytes()
        made.write_bytes(body + hashlib.sha256(body).digest())
        os.replace(made, path)
    return load(path)


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=5)
