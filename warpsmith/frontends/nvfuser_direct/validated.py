"""Results held against a reference, or the program's meaning in float64, as its types allow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from warpsmith.frontends import validation
from warpsmith.frontends.nvfuser_direct import pairs
from warpsmith.frontends.nvfuser_direct.fusion import Fusion
from warpsmith.runtime import arrays


def check(
    fusion: Fusion, inputs: Sequence[Any], outputs: Sequence[Any], reference: Sequence[Any] | None
) -> None:
    """Raise AssertionError for results that are off.

    Args:
        inputs: as they were before the call.
        reference: what is wanted; the meaning in float64 if None.
    """
    by_kernels = _by_kernels(fusion)
    found = [pairs.as_reals(outputs[place]) for place in by_kernels]
    wanted = reference and [pairs.as_reals(reference[place]) for place in by_kernels]
    validation.check(fusion.ours, _given(fusion, inputs), found, wanted)


def validate_with_auto_inferred_outputs(
    fusion: Fusion, fusion_outputs: Iterable[Any], args: Iterable[Any]
) -> None:
    """Raise AssertionError for results of a call that are off its meaning in float64."""
    check(fusion, list(args), list(fusion_outputs), None)


def get_val_tolerances(fusion: Fusion, args: Iterable[Any]) -> list[tuple[float, float]]:
    """How far each result may be off for such inputs: absolutely, and as a share of its element.

    Results that no kernel computes, or that are written into inputs, are allowed nothing.
    """
    allowed = validation.tolerances(fusion.ours, _given(fusion, list(args)))
    found = [(0.0, 0.0)] * len(fusion.results())
    for place, tolerance in zip(_by_kernels(fusion), allowed, strict=True):
        found[place] = (tolerance.absolute, tolerance.relative)
    return found


def _given(fusion: Fusion, inputs: Sequence[Any]) -> list[Any]:
    passed = fusion.arranged(inputs)
    return [arrays.to_numpy(x) if hasattr(x, "shape") else x for x in passed]


def _by_kernels(fusion: Fusion) -> list[int]:
    """Which results kernels compute."""
    return [
        place
        for place, value in enumerate(fusion.results())
        if not fusion.hidden.is_outside(value.value)
    ]
