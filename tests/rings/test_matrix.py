"""Circular buffers of every kind, length and distance, in every place that loops allow.

`make test` runs one kernel of each schedule and kind of load, `make test-all` all of them. Each
kernel meets all extents of the ring's dimension, two of them under several orders of warps and
copies.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator

import pytest

from tests.support.ring_cases import CASES, Case
from tests.support.ring_loads import Ring, rings

SAMPLE = 1
"""Kernels of each schedule and kind of load that are always run."""

ALWAYS = ("single_dim_3-cp_async-5-4",)
"""And these: a loop that is as short as its copies are ahead waits for each of them."""


def kernels() -> Iterator[object]:
    """Parameters of the whole matrix; all but the sample are slow."""
    for case in CASES:
        for kind in case.kinds:
            for rank, ring in enumerate(sorted(rings(kind), key=lambda r: digest(case, r))):
                name = f"{case.name}-{ring}"
                marks = () if rank < SAMPLE or name in ALWAYS else (pytest.mark.slow,)
                yield pytest.param(case, ring, id=name, marks=marks)


def digest(case: Case, ring: Ring) -> bytes:
    return hashlib.sha256(f"{case.name}-{ring}".encode()).digest()


@pytest.mark.parametrize(("case", "ring"), list(kernels()))
def test_results(case: Case, ring: Ring) -> None:
    fd = case.schedule(ring)
    for extent in case.extents:
        inputs = case.inputs(extent, seed=zlib.crc32(digest(case, ring)))
        (result,) = fd.manual_execute(inputs)
        case.check(result, inputs)
        if extent in (3, case.extents[-1]):
            verification = fd.verify(inputs, schedules=3)
            assert verification.verdict == "clean", str(verification)
