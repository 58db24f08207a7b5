"""What a program means: the float64 values of its outputs, and how far results may be from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Matmul, Precision, Reduction, Scan, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.evaluate import evaluate, reduction_origin
from warpsmith.ops.scalars import ScalarEvaluator, symbols_of_call
from warpsmith.testing import Tolerance, difference, tolerance
from warpsmith.values import dataclass

ROUNDING: Mapping[Precision, float] = {"exact": 0.0, "tf32": 2.0**-9, "fast": 2.0**-8}
"""The relative error of a product that a precision allows: two operands cut to 11 bits, or 32 terms
that each lose what is below 13 bits behind the point of the largest (`ir/exprs.py`)."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one output must be.

    Attributes:
        name: of the output in messages.
        values: computed in float64 and rounded nowhere.
        within: how far a result may be from them.
        rounded: gives the values as the program's own types have them. Where those decide between
            results (a comparison, a floor, a sum that cancels), a kernel may be close to them.
    """

    name: str
    values: np.ndarray[Any, Any]
    within: Tolerance
    rounded: Callable[[], np.ndarray[Any, Any]]

    def wrong(self, got: np.ndarray[Any, Any]) -> str:
        """The result's name and worst element, both values and the tolerance; empty if right."""
        found = difference(got, self.values, self.within, self.rounded)
        return found and f"{self.name}{found}"


def meaning(fusion: Fusion, inputs: Sequence[Any]) -> dict[str, Wanted]:
    """What the outputs must be, by their tensors' names.

    Args:
        inputs: arrays on the host and numbers, known to fit.
    """
    allowed = Allowance(fusion, inputs)
    rounded = cache(partial(evaluate, fusion, inputs))
    return {
        output.value.name: Wanted(
            f"output {position} ({output.value.name})",
            values,
            allowed(output.value, values),
            partial(_at, rounded, position),
        )
        for position, (output, values) in enumerate(
            zip(fusion.outputs, evaluate(fusion, inputs, precise=True), strict=True)
        )
    }


def _at(values: Callable[[], Sequence[np.ndarray[Any, Any]]], place: int) -> np.ndarray[Any, Any]:
    return values()[place]


class Allowance:
    """How far results of one program may be from their references, for inputs of these shapes."""

    def __init__(self, fusion: Fusion, inputs: Sequence[Any]) -> None:
        self._fusion = fusion
        self._terms = _longest_reduction(fusion, inputs)
        self._coarse = _coarsest_rounding(fusion)

    def __call__(self, tensor: TensorView, reference: np.ndarray[Any, Any]) -> Tolerance:
        """Tolerance of a result.

        A sum of so many numbers that cancels is about their root times as large as one of them, so
        the largest result tells the size of a term. What the user rounded within the program
        counts by the size of the largest result too. A double that comes of floats is no closer
        than a float.
        """
        if not tensor.dtype.is_float:
            return Tolerance(0.0, 0.0)
        dtype = self._narrowest(tensor) if tensor.dtype is DataType.Double else tensor.dtype
        magnitudes = np.abs(reference.astype(np.float64))
        peak = float(magnitudes[np.isfinite(magnitudes)].max(initial=0.0))
        limits = tolerance(dtype.value, self._terms, peak / math.sqrt(self._terms))
        return Tolerance(limits.relative + self._coarse, limits.absolute + self._coarse * peak)

    def _narrowest(self, tensor: TensorView) -> DataType:
        """Float where any value that a result depends on was computed in it or in fewer bits."""
        made = (t for op in self._fusion.depends_on([tensor]) for t in op.outputs)
        short = any(t.dtype.is_float and t.dtype is not DataType.Double for t in made)
        return DataType.Float if short else DataType.Double


def _coarsest_rounding(fusion: Fusion) -> float:
    """The largest relative error of a tensor that the program computes and reads again, and of a
    product that need not be exact.

    Values that their user knows as 16-bit ones go through memory as such.
    """
    operations = fusion.operations
    products = [operation for operation in operations if isinstance(operation, Matmul)]
    read = {t.number for operation in operations for t in tensor_inputs(operation)}
    types = {
        tensor.dtype if tensor.narrow is None else tensor.narrow
        for operation in operations
        for tensor in operation.outputs
        if tensor.number in read
    }
    narrow = (tolerance(t.value).relative for t in types if t.is_narrow)
    return max((0.0, *narrow, *(ROUNDING[product.precision] for product in products)))


def _longest_reduction(fusion: Fusion, inputs: Sequence[Any]) -> int:
    """Number of elements in the longest reduction of the program, at least 1."""
    scalars = ScalarEvaluator(symbols_of_call(zip(fusion.inputs, inputs, strict=True)))
    longest = 1
    for operation in fusion.operations:
        if isinstance(operation, Reduction):
            source, dims = reduction_origin(operation)
            extents = (scalars.integer(source.shape_axes[d].extent) for d in dims)
            longest = max(longest, math.prod(extents))
        elif isinstance(operation, Scan):
            extent = operation.output.root[operation.dim].extent
            longest = max(longest, scalars.integer(extent))
        elif isinstance(operation, Matmul):
            longest = max(longest, scalars.integer(operation.output.root[-1].extent))
    return longest
