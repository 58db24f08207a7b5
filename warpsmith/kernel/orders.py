"""What a kernel's accesses of memory must wait for, and what was chosen to make them."""

from __future__ import annotations

from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A dependence between two accesses, and the mechanism that orders them; all in words.

    Attributes:
        hazard: read after write, write after read, or write after write.
        first, second: who does what by which proxy; the second must find the first over.
        carried: what passes between the two: iterations of a loop, or stages of a ring.
        mechanism: what orders them; `none` where nothing must.
        why: the reason for it, or for the want of it.
        statements: numbers of the statements that it became.
    """

    buffer: str
    hazard: str
    first: str
    second: str
    carried: str
    mechanism: str
    why: str
    statements: tuple[int, ...]
