"""Schedules of roles that are refused, and what the words of the refusal advise."""

from collections.abc import Callable

import numpy as np
import pytest

from warpsmith import FusionDefinition
from warpsmith.errors import WarpsmithError

Make = Callable[[], FusionDefinition]


def inputs_of(fd: FusionDefinition, rows: int = 37) -> list[np.ndarray]:
    """Random arrays for the inputs, -1 filled in by a number of rows or by 300 columns."""
    random = np.random.default_rng(rows)
    shapes = []
    for tensor in fd.fusion.inputs:
        extents = [str(axis.extent) for axis in tensor.logical]
        known = [int(e) if e.isdigit() else None for e in extents]
        shapes.append([e or (rows if place == 0 else 300) for place, e in enumerate(known)])
    return [random.uniform(-2, 2, shape).astype(np.float32) for shape in shapes]


def refused(make: Make, code: str, *says: str) -> None:
    """That making it or lowering it raises the code, with these words."""

    def run() -> None:
        fd = make()
        fd.manual_execute(inputs_of(fd))

    with pytest.raises(WarpsmithError) as caught:
        run()
    assert caught.value.code == code, str(caught.value)
    for words in says:
        assert words in str(caught.value)


def works(make: Make, meaning: Callable[..., np.ndarray]) -> None:
    """That the schedule is right, under several orders of warps and copies."""
    fd = make()
    inputs = inputs_of(fd)
    (result,) = fd.manual_execute(inputs)
    wanted = meaning(*(array.astype(np.float64) for array in inputs))
    np.testing.assert_allclose(result, wanted, rtol=2e-4, atol=2e-4)
    verification = fd.verify(inputs, schedules=3)
    assert verification.verdict == "clean", str(verification)
