"""What scheduling says about roles and stages, and lowering checks once more."""

from __future__ import annotations

from warpsmith.errors import ScheduleError
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.tensor import TensorView

COMPUTE = "compute"
"""The role of what names none, and is not needed by one role alone."""


def check_slice(tensor: TensorView, position: object) -> None:
    """Refuse a slice position that lies outside the tensor's loops, or inside a copy by TMA."""
    if position is None:
        return
    if not isinstance(position, int) or isinstance(position, bool) or position < 0:
        raise ScheduleError(
            f"slice position {position!r} of {tensor.name}: it is a number of loops, 0 or more",
            code="WS0243",
            remedy=f"use 1 to {len(tensor.loop) - 1}, or None",
        )
    outside = [axis for axis in tensor.loop[:position] if axis.parallel is ParallelType.tma]
    if outside and position <= len(tensor.loop):
        raise ScheduleError(
            f"slice position {position} of {tensor.name} is right of {outside[0]!r}, which is "
            "bound to tma: one copy cannot fill several stages",
            code="WS0244",
            remedy="put the position left of the loops bound to tma, or bind fewer",
        )
    if position >= len(tensor.loop):
        raise ScheduleError(
            f"slice position {position} of {tensor.name}, which has {len(tensor.loop)} loops: a "
            "stage would hold none of them",
            code="WS0243",
            remedy=f"use 1 to {len(tensor.loop) - 1}, or None",
        )
