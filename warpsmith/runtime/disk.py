"""The files of a cache directory, within a limit: those that were not used for longest go.

A file's time of modification is that of its last use. Any process may remove any file: whoever
reads one that is gone makes it again.
"""

from __future__ import annotations

import contextlib
import os
from functools import lru_cache
from pathlib import Path
from typing import Final

from warpsmith.locks import ProcessLock
from warpsmith.values import dataclass

_KINDS: Final = (
    *(
        ("", ".cubin"),
        ("", ".kernel"),
        ("", ".cut"),
        ("machine-", ".so"),
        ("launcher-", ".so"),
        (".writing-", ""),
    ),
)
"""How names begin and end: of machine code, kernels as they were emitted, decisions on cuts, the
simulator, the launcher, and what processes left that died while they were writing."""

_SHARE: Final = 8
"""A full directory is emptied by one part in so many at a time."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file; `used_s` counts seconds since the epoch."""

    path: Path
    size_bytes: int
    used_s: float


def entries(directory: Path) -> list[Entry]:
    """Files of the cache, the last used first. A directory that is not there has none."""
    found = []
    with contextlib.suppress(OSError), os.scandir(directory) as files:
        for file in files:
            name = file.name
            if not any(name.startswith(first) and name.endswith(last) for first, last in _KINDS):
                continue
            try:
                status = file.stat()
            except OSError:  # another process removed it
                continue
            found.append(Entry(Path(file.path), status.st_size, status.st_mtime))
    return sorted(found, key=lambda entry: entry.used_s, reverse=True)


def mark_used(path: Path) -> None:
    """Note that a file is used now, as far as the directory can be written."""
    with contextlib.suppress(OSError):
        os.utime(path)


@lru_cache(maxsize=64)
def limited(directory: Path, limit_bytes: int) -> Limited:
    """The one that counts what this process writes to a directory."""
    return Limited(directory, limit_bytes)


class Limited:
    """Keeps a directory within a number of bytes, as files are added to it.

    It looks at the directory at the first file, when the limit may have been reached, and after
    each sixteenth of the limit, since other processes write there, too.
    """

    def __init__(self, directory: Path, limit_bytes: int) -> None:
        self._directory = directory
        self._limit = limit_bytes
        self._lock = ProcessLock()
        self._seen: int | None = None
        self._written = 0

    def added(self, size_bytes: int) -> None:
        """A file of so many bytes was written."""
        with self._lock.own:
            self._written += size_bytes
            room = 0 if self._seen is None else min(self._limit - self._seen, self._limit // 16)
            if self._written > room or self._seen is None:
                self._seen = self._trimmed()
                self._written = 0

    def _trimmed(self) -> int:
        """Bytes that are left after what is too much was removed."""
        files = entries(self._directory)
        total = sum(file.size_bytes for file in files)
        if total <= self._limit:
            return total
        wanted = self._limit - self._limit // _SHARE
        while files and total > wanted:
            oldest = files.pop()
            with contextlib.suppress(OSError):
                oldest.path.unlink(missing_ok=True)
                total -= oldest.size_bytes
        return total
