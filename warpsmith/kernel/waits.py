"""Waits that end: each knows what it waits for, so that a kernel that hangs can say so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from warpsmith.kernel.effects import plain
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.rings import Await
from warpsmith.kernel.traversal import walk
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class WaitSite:
    """What one wait of a kernel is for.

    Attributes:
        number: of the site; the sites of a kernel have 0, 1, 2 and so on.
        role: that waits; empty in a kernel without roles.
        ring: the pipeline whose stage is waited for.
        buffers: names of what the stage holds; none in an order, where a group waits for its turn.
        full: whether the stage is to be filled; else it is to be free.
        where: the line of Python that asked for the ring; empty if unknown.
    """

    number: int
    role: str
    ring: str
    buffers: tuple[str, ...]
    full: bool
    where: str


@dataclass(frozen=True, slots=True)
class WatchedAwait(Await):
    """A wait that is given up after `limit` nanoseconds, reports, and traps."""

    site: WaitSite = field(metadata=plain())
    limit: int = field(metadata=plain())


def wait_sites(statements: Iterable[Statement]) -> tuple[WaitSite, ...]:
    """The sites of all watched waits, in the order of their numbers."""
    return tuple(s.site for s in walk(tuple(statements)) if isinstance(s, WatchedAwait))
