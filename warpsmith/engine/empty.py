"""Calls in which some results are empty and others are not.

A kernel's grid may cover a dimension that only some of its results have. Where that is empty, the
kernel is not launched; what is empty is then left out, and the rest planned alone.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

from warpsmith.engine.launches import CallPlan
from warpsmith.errors import ArgumentError
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import evaluate
from warpsmith.ops.liveness import remove_dead


def filled(fusion: Fusion, values: Mapping[str, int]) -> tuple[int, ...]:
    """Positions of the outputs that have elements; of all outputs where none has any."""
    every = tuple(range(len(fusion.outputs)))
    return tuple(position for position in every if _elements(fusion, position, values)) or every


def _elements(fusion: Fusion, position: int, values: Mapping[str, int]) -> bool:
    axes = fusion.outputs[position].value.shape_axes
    return all(evaluate(axis.extent, dict(values)) for axis in axes)


def only(fusion: Fusion, kept: tuple[int, ...]) -> Fusion:
    """The fusion with some of its outputs: itself where these are all."""
    if len(kept) == len(fusion.outputs):
        return fusion
    part = copy.deepcopy(fusion)
    part.outputs = [part.outputs[position] for position in kept]
    remove_dead(part)
    return part


def refuse_unwritten(fusion: Fusion, call: CallPlan) -> None:
    """Raise ArgumentError where a result with elements is left to a kernel without blocks."""
    results = {output.value.name for output in fusion.outputs}
    lost = sorted(results.intersection(call.unwritten))
    if lost:
        raise ArgumentError(
            f"{lost[0]} has elements, and the grid of its kernel, which an empty result shares, "
            "has no blocks for these sizes",
            code="WS0326",
            remedy="give results of other sizes a kernel of their own",
        )
