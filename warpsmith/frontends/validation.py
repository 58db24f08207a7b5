"""Comparison of results with the float64 meaning of a program, within what its types allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsmith.engine.meaning import Allowance
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.evaluate import evaluate
from warpsmith.runtime import arrays
from warpsmith.testing import Tolerance, assert_close


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
    returned = _returned(fusion)
    if reference is None:
        reference = _exact(fusion, inputs)
    if not len(returned) == len(outputs) == len(reference):
        raise AssertionError(
            f"{len(outputs)} outputs and {len(reference)} references for {len(returned)} results"
        )
    allowed = Allowance(fusion, inputs)
    for position, (tensor, got, want) in enumerate(zip(returned, outputs, reference, strict=True)):
        within = allowed(tensor, arrays.to_numpy(want))
        assert_close(got, want, within=within, name=f"output {position} ({tensor.name})")


def tolerances(fusion: Fusion, inputs: Sequence[Any]) -> list[Tolerance]:
    """What `check` allows each returned output for such inputs."""
    allowed = Allowance(fusion, inputs)
    pairs = zip(_returned(fusion), _exact(fusion, inputs), strict=True)
    return [allowed(tensor, arrays.to_numpy(want)) for tensor, want in pairs]


def _returned(fusion: Fusion) -> list[TensorView]:
    return [output.value for output in fusion.outputs if output.alias_of is None]


def _exact(fusion: Fusion, inputs: Sequence[Any]) -> list[Any]:
    """What the program means in float64, of each returned output."""
    pairs = zip(fusion.outputs, evaluate(fusion, inputs, precise=True), strict=True)
    return [value for output, value in pairs if output.alias_of is None]
