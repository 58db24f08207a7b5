"""Waits for a time: fills that keep to the memory's pace."""

from __future__ import annotations

from dataclasses import field

from warpsmith.ir.scalar import Expr
from warpsmith.kernel.effects import Orders, expression, plain
from warpsmith.kernel.nodes import Statement
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class StartClock(Statement, orders=Orders.NOTHING):
    """Each thread notes the time, from which `AwaitClock` counts."""

    words = "start the clock"


@dataclass(frozen=True, slots=True)
class AwaitClock(Statement):
    """Wait until `times` times so many nanoseconds are over since `StartClock`.

    It orders nothing, and always ends. No time at all is over at once.
    """

    words = "await {times} times {nanoseconds} ns on the clock"

    times: Expr = field(metadata=expression())
    nanoseconds: int = field(metadata=plain())
