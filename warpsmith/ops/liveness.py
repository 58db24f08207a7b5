"""What a fusion's outputs do not need."""

from __future__ import annotations

from warpsmith.ir.fusion import Fusion


def remove_dead(fusion: Fusion) -> None:
    """Drop operations whose results no output needs, such as roundings that were read past.

    Call it before scheduling: users may hold the tensors that go.
    """
    fusion.operations[:] = fusion.depends_on([output.value for output in fusion.outputs])
