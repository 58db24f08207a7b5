"""Parameters of schedules and compilations, by nvFuser's names.

warpsmith chooses its own; these carry what a caller says to where it is looked at, which is the
type of scheduler alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from warpsmith.frontends.nvfuser_direct.enums import DataType, SchedulerType
from warpsmith.values import dataclass


@dataclass
class LaunchParams:
    """Blocks and threads; -1 where a launch finds out."""

    bdimx: int = -1
    bdimy: int = -1
    bdimz: int = -1
    gdimx: int = -1
    gdimy: int = -1
    gdimz: int = -1


@dataclass(kw_only=True)
class CompileParams:
    """How a kernel is compiled; warpsmith decides by sizes, and changes nothing for these."""

    index_type: DataType | None = None
    maxrregcount: int = 255
    enable_magic_zero: bool = True
    enable_ptxas_verbose: bool = False
    device: int | None = None
    include_paths: Sequence[str] = ()


@dataclass
class HeuristicParams:
    """What a scheduler chose: which one it is, and what it says of its choice."""

    scheduler_type: SchedulerType = SchedulerType.none
    lparams: LaunchParams = field(default_factory=LaunchParams)
    cparams: CompileParams = field(default_factory=CompileParams)
    chosen: Any = None

    def hash(self) -> int:
        return hash((self.scheduler_type, repr(self.chosen)))

    def __repr__(self) -> str:
        return f"{self.scheduler_type.name}: {self.chosen!r}"
