"""A named part of the prelude."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Device code that a kernel includes only when it needs it: parsing costs compile time.

    Every name that `text` defines begins with `ws_`. It includes no header, and defines nothing
    but templates and `__device__ __forceinline__` functions, so what is unused costs no code; only
    the watchdog has variables, which hosts write to.
    `needs` names the pieces that have to stand before it.
    """

    name: str
    needs: tuple[str, ...] = ()
    text: str
