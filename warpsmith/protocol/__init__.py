"""Synchronization as objects: what roles and rings promise each other, and whether they keep it.

Each name is imported when it is first used: most kernels have no roles and rings.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpsmith.protocol.block_numbers import check_numbers
    from warpsmith.protocol.blocks_together import check_meetings
    from warpsmith.protocol.checks import RingFacts, Verdict, check, check_any_sizes, check_blocks
    from warpsmith.protocol.succession import check_start

__all__ = [
    "RingFacts",
    "Verdict",
    "check",
    "check_any_sizes",
    "check_blocks",
    "check_meetings",
    "check_numbers",
    "check_start",
]

_HOMES = {
    "check_meetings": "blocks_together",
    "check_numbers": "block_numbers",
    "check_start": "succession",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'checks')}"), name)
