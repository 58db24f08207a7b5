"""The line of a user's Python that a schedule was laid by."""

from __future__ import annotations

import sys
from pathlib import PurePath

_PACKAGE = "warpsmith"


def caller_line() -> str:
    """The innermost line that is being run outside of warpsmith, as `model.py:12`.

    Where a scheduler laid the schedule, that is the line that called the fused function. Empty
    where all of the stack is warpsmith's own.
    """
    frame = sys._getframe(1)
    while str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE:
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return f"{PurePath(frame.f_code.co_filename).name}:{frame.f_lineno}"
