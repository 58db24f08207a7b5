"""Comparison of results with the float64 meaning of a program, within what its types allow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from warpsmith.ir.exprs import Matmul, Reduction, Welford
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.evaluate import evaluate, reduction_origin
from warpsmith.ops.scalars import ScalarEvaluator
from warpsmith.runtime import arrays
from warpsmith.testing import Tolerance, assert_close, tolerance


def check(
    fusion: Fusion,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    reference: Sequence[Any] | None = None,
) -> None:
    """Raise AssertionError unless every returned output is close to its reference.

    Args:
        inputs: arrays on the host as they were before the call, and numbers.
        outputs: what the call returned: the results that are not written into an input.
        reference: what is wanted; the program evaluated in float64 if None.
    """
    returned = [output.value for output in fusion.outputs if output.alias_of is None]
    if reference is None:
        exact = evaluate(fusion, inputs, precise=True)
        pairs = zip(fusion.outputs, exact, strict=True)
        reference = [value for output, value in pairs if output.alias_of is None]
    if not len(returned) == len(outputs) == len(reference):
        raise AssertionError(
            f"{len(outputs)} outputs and {len(reference)} references for {len(returned)} results"
        )
    terms = _longest_reduction(fusion, inputs)
    coarse = _coarsest_rounding(fusion)
    for position, (tensor, got, want) in enumerate(zip(returned, outputs, reference, strict=True)):
        within = _allowed(tensor, arrays.to_numpy(want), terms, coarse)
        assert_close(got, want, within=within, name=f"output {position} ({tensor.name})")


def _allowed(tensor: TensorView, reference: np.ndarray, terms: int, coarse: float) -> Tolerance:
    """Tolerance of a result.

    A sum of `terms` numbers that cancel is about their root times as large as one of them, so the
    largest result tells the size of a term. What the user rounded within the program (`coarse`)
    counts by the size of the largest result too.
    """
    if not tensor.dtype.is_float:
        return Tolerance(0.0, 0.0)
    magnitudes = np.abs(reference.astype(np.float64))
    peak = float(magnitudes[np.isfinite(magnitudes)].max(initial=0.0))
    limits = tolerance(tensor.dtype.value, terms, peak / math.sqrt(terms))
    return Tolerance(limits.relative + coarse, limits.absolute + coarse * peak)


def _coarsest_rounding(fusion: Fusion) -> float:
    """The largest relative error of a tensor that the program computes and reads again."""
    roundings = [
        tolerance(output.dtype.value).relative
        for operation in fusion.operations
        for output in operation.outputs
        if output.dtype.is_narrow and fusion.uses(output)
    ]
    return max(roundings, default=0.0)


def _longest_reduction(fusion: Fusion, inputs: Sequence[Any]) -> int:
    """Number of elements in the longest reduction of the program, at least 1."""
    values: dict[str, float] = {}
    for declared, given in zip(fusion.inputs, inputs, strict=True):
        if isinstance(declared, Symbol):
            values[declared.name] = given
            continue
        for axis, extent in zip(declared.shape_axes, given.shape, strict=True):
            if isinstance(axis.extent, Symbol):
                values[axis.extent.name] = extent
    scalars = ScalarEvaluator(values)
    longest = 1
    for operation in fusion.operations:
        if isinstance(operation, Reduction | Welford):
            source, dims = reduction_origin(operation)
            extents = (scalars.integer(source.shape_axes[d].extent) for d in dims)
            longest = max(longest, math.prod(extents))
        elif isinstance(operation, Matmul):
            longest = max(longest, scalars.integer(operation.output.root[-1].extent))
    return longest
