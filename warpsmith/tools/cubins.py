"""The files of the cache: a list of them, and the removal of old ones."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

from warpsmith.errors import DeviceError
from warpsmith.knobs import Knobs
from warpsmith.runtime.disk import Entry, entries
from warpsmith.runtime.kept import cache_info

_DAY_S = 86400.0


def summary(knobs: Knobs) -> str:
    """How much is kept, and how much may be: on disk, and in each process."""
    directory = knobs.cache_dir
    lines = [f"on disk     {_sum(entries(directory))} of {knobs.cache_mib} in {directory}"]
    kept = (f"{held.limit} {name}" for name, held in cache_info().items())
    lines.append(f"a process   at most {', '.join(kept)}; `warpsmith.cache_info()` says how many")
    return "\n".join(lines)


def listing(directory: Path) -> str:
    """One line a file, and the sum."""
    found = entries(directory)
    lines = [
        f"{datetime.fromtimestamp(entry.used_s):%Y-%m-%d %H:%M}  "
        f"{entry.size_bytes / 1024:7.1f} KiB  {entry.path.stem[:16]}"
        for entry in found
    ]
    return "\n".join([*lines, f"{_sum(found)} in {directory}"])


def prune(directory: Path, days: float) -> str:
    """Remove what was last used at least `days` ago, and say how much that was.

    Raises DeviceError where the directory cannot be changed.
    """
    latest = time.time() - days * _DAY_S
    old = [entry for entry in entries(directory) if entry.used_s <= latest]
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
    return f"{count} file{'' if count == 1 else 's'}, {size / 2**20:.2f} MiB"
