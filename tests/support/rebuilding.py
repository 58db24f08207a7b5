"""Definitions that are made again of their text."""

from typing import Any

from warpsmith import CarryRule, DataType, FusionDefinition


def rebuilt(text: str) -> FusionDefinition:
    """What the text of a definition defines."""
    kinds = (CarryRule, DataType, FusionDefinition)
    names: dict[str, Any] = {kind.__name__: kind for kind in kinds}
    exec(text, names)
    with FusionDefinition() as fd:
        names["nvfuser_fusion"](fd)
    return fd
