"""The line of a user's Python that asked for something."""

from __future__ import annotations

import sys
from pathlib import PurePath
from types import FrameType

Line = tuple[str, int]
"""File and line number."""

_OWN = "warpsmith."
_PASSED_OVER = ("warpsmith", "torch")
"""Packages between a user's line and what it asks for: torch stands between `nn` and its calls."""


def caller(above: int = 0) -> Line | None:
    """The innermost line that is being run outside of warpsmith.

    Where a scheduler laid a schedule, that is the line that called the fused function. None where
    all of the stack is warpsmith's own. Every operation that is defined asks for its line, so the
    usual way is short.

    Args:
        above: calls between this one and the user's at least, which are not looked at.
    """
    frame: FrameType | None = sys._getframe(above + 1)
    while frame is not None and frame.f_globals.get("__name__", "")[:10] == _OWN:
        frame = frame.f_back
    while frame is not None and _package(frame) in _PASSED_OVER:
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def line_text(line: Line | None) -> str:
    """A line as `model.py:12`; empty for None."""
    return "" if line is None else f"{PurePath(line[0]).name}:{line[1]}"


def caller_line() -> str:
    """The text of `caller`."""
    return line_text(caller())
