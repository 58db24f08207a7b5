"""`nvfuser_direct.nvf_cutlass`: names of CUTLASS's products, which refuse to run here."""

from __future__ import annotations

from typing import Any

from warpsmith.frontends.nvfuser_direct.absent import CUTLASS, absent


def __getattr__(name: str) -> Any:
    if name not in CUTLASS:
        raise AttributeError(f"module 'nvfuser_direct.nvf_cutlass' has no attribute '{name}'")
    return absent(name)
