"""`nvfuser_direct.idm`: nvFuser's maps between axes, which are not here."""

from __future__ import annotations

from typing import Any

from warpsmith.frontends.nvfuser_direct.absent import absent


def __getattr__(name: str) -> Any:
    if name != "IdModel":
        raise AttributeError(f"module 'nvfuser_direct.idm' has no attribute '{name}'")
    return absent(name)
