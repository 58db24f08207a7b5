"""What is taken of a GPU's memory: by this process alone where the driver lists it, else by all."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bench.resident import MIB

_ASKED: Final = ("nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader")


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the device's memory that is watched.

    Attributes:
        whose: it is, in words.
        bytes: taken now; None where the driver does not say.
    """

    whose: str
    bytes: Callable[[], int | None]


def watched() -> Share:
    """The share of this process, which has a context by now; of all where it is not listed, as in
    a container with process numbers of its own.
    """

    def own() -> int | None:
        return listed(_listing(), os.getpid())

    if own() is not None:
        return Share(f"process {os.getpid()} on the device", own)
    return Share("the whole device, which does not list this process,", _whole)


def listed(listing: str, process: int) -> int | None:
    """Bytes of a process on all devices, by what `nvidia-smi` says; None where it is not there."""
    rows = re.findall(r"^(\d+), *(\d+) MiB$", listing, re.MULTILINE)
    found = [int(mib) * MIB for number, mib in rows if int(number) == process]
    return sum(found) if found else None


def _listing() -> str:
    try:
        return subprocess.run(_ASKED, capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _whole() -> int:
    import torch

    free, total = torch.cuda.mem_get_info()
    return int(total - free)
