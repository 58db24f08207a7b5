"""Calls in which some results are empty and others are not.

A kernel's grid covers the dimensions of all of its results, so one that has an empty result among
them would not be launched. What is empty is therefore left out, and the rest planned alone.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import evaluate
from warpsmith.ops.liveness import remove_dead


def written(fusion: Fusion, values: Mapping[str, int]) -> tuple[int, ...]:
    """Positions of the outputs to compute: those with elements, where only some have any."""
    every = tuple(range(len(fusion.outputs)))
    kept = tuple(
        position
        for position, output in enumerate(fusion.outputs)
        if all(evaluate(axis.extent, dict(values)) for axis in output.value.shape_axes)
    )
    return kept or every


def only(fusion: Fusion, kept: tuple[int, ...]) -> Fusion:
    """The fusion with some of its outputs: itself where these are all."""
    if len(kept) == len(fusion.outputs):
        return fusion
    part = copy.deepcopy(fusion)
    part.outputs = [part.outputs[position] for position in kept]
    remove_dead(part)
    return part
