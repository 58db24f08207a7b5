"""`nvfuser_direct.multidevice`: names of what runs on several GPUs, and refuses to here."""

from __future__ import annotations

from typing import Any

from warpsmith.frontends.nvfuser_direct.absent import MULTIDEVICE, absent


def __getattr__(name: str) -> Any:
    if name not in MULTIDEVICE:
        raise AttributeError(f"module 'nvfuser_direct.multidevice' has no attribute '{name}'")
    return absent(name)
