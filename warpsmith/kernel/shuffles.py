"""Elements that trade places among the registers of a warp's lanes."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from warpsmith.kernel.effects import plain, reads, writes
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.layouts.changes import Change
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Shuffle(Statement):
    """All that a warp's lanes hold of `source` goes to the lanes and registers of `target`.

    Attributes:
        change: the rounds, of words of `change.packed` elements.
    """

    collective: ClassVar[bool] = True
    words = "{target} = {source} by shuffles"

    target: Buffer = field(metadata=writes(count=""))
    source: Buffer = field(metadata=reads(count=""))
    change: Change = field(metadata=plain())
