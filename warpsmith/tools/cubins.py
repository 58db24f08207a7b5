"""The kernels on disk: a list of them, and the removal of old ones."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from warpsmith.errors import DeviceError

_DAY_S = 86400.0
_PATTERNS = ("*.cubin", ".writing-*")  # the second: left by processes that died while writing


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of the cache; `written_s` counts seconds since the epoch."""

    path: Path
    size_bytes: int
    written_s: float


def entries(directory: Path, pattern: str = "*.cubin") -> list[Entry]:
    """Files of the cache, the newest first. A directory that is not there has none."""
    found = []
    for path in directory.glob(pattern):
        try:
            status = path.stat()
        except FileNotFoundError:  # another process removed it
            continue
        found.append(Entry(path, status.st_size, status.st_mtime))
    return sorted(found, key=lambda entry: entry.written_s, reverse=True)


def listing(directory: Path) -> str:
    """One line a kernel, and the sum."""
    found = entries(directory)
    lines = [
        f"{datetime.fromtimestamp(entry.written_s):%Y-%m-%d %H:%M}  "
        f"{entry.size_bytes / 1024:7.1f} KiB  {entry.path.stem[:16]}"
        for entry in found
    ]
    return "\n".join([*lines, f"{_sum(found)} in {directory}"])


def prune(directory: Path, days: float) -> str:
    """Remove what was written at least `days` ago, and say how much that was.

    Raises DeviceError where the directory cannot be changed.
    """
    latest = time.time() - days * _DAY_S
    old = [e for p in _PATTERNS for e in entries(directory, p) if e.written_s <= latest]
    for entry in old:
        try:
            entry.path.unlink(missing_ok=True)
        except OSError as refusal:
            raise DeviceError(
                f"{entry.path} cannot be removed: {refusal.strerror}",
                code="WS0603",
                remedy="look at the permissions of the cache directory",
            ) from None
    return f"removed {_sum(old)} from {directory}"


def _sum(found: list[Entry]) -> str:
    count = len(found)
    size = sum(entry.size_bytes for entry in found)
    return f"{count} kernel{'' if count == 1 else 's'}, {size / 2**20:.2f} MiB"
