"""Statements that a whole warp comes to, of which its elected lane executes some.

`ELECTED` of `kernel/rings.py` is one thread of a block or group. `lower/passes/elect_by_warp.py`
divides what is for it between its warp and its lane.
"""

from __future__ import annotations

from dataclasses import field

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.effects import Orders, body, expression
from warpsmith.kernel.nodes import Statement
from warpsmith.values import dataclass

ELECTED_WARP = Symbol("elected_warp", dtype=DataType.Bool)
"""True in the warp that has the elected thread; ptxas knows that its lanes agree."""

ELECTED_LANE = Symbol("elected_lane", dtype=DataType.Bool)
"""True in one thread of each warp."""


@dataclass(frozen=True, slots=True)
class Converge(Statement, orders=Orders.NOTHING):
    """The lanes of a warp meet: `__syncwarp()`; ptxas then knows that they are together."""

    words = "converge"


@dataclass(frozen=True, slots=True)
class ByLane(Statement):
    """A whole warp comes to one statement, and its elected lane executes it: `@p` before it."""

    words = "by the elected lane"

    body: tuple[Statement] = field(metadata=body())


@dataclass(frozen=True, slots=True)
class CopyIf(Statement):
    """A whole warp asks for copies, or leaves them out: `if (condition)`.

    The condition is that of each copy inside: one that is left out moves no bytes.
    """

    words = "copy if {condition}"

    condition: Expr = field(metadata=expression())
    body: tuple[Statement, ...] = field(metadata=body())
