"""`warpsmith.verify`: is what a fusion compiles to right, and free of hangs and races?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpsmith.errors import DefinitionError
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.frontends.fuse import Fused

if TYPE_CHECKING:
    from warpsmith.engine.verification import Verification


def verify(fusion: object, inputs: Sequence[object], *, schedules: int = 8) -> Verification:
    """Run every kernel of a fusion on the simulator, without a GPU, and report what it finds.

    Results that are not what the program means in float64, within what its types allow, are
    findings of kind `wrong-output`. Integers and bools are to be exact.

    Args:
        fusion: a FusionDefinition, or a function made by `fuse`.
        inputs: what it would be called with; they are not changed.
        schedules: orders of warps and asynchronous copies that each kernel is run under.

    Example:
        print(warpsmith.verify(fused, [x, y]).verdict)

    Raises DefinitionError for what is no fusion, and what a call with these inputs raises.
    """
    if isinstance(fusion, FusionDefinition):
        return fusion.verify(inputs, schedules=schedules)
    if isinstance(fusion, Fused):
        return fusion.lower(*inputs).compile().verify(schedules=schedules)
    raise DefinitionError(
        f"verify got a value of type {type(fusion).__name__}",
        code="WS0158",
        remedy="pass a FusionDefinition or a function decorated with warpsmith.fuse",
    )
