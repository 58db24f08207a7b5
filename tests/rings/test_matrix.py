"""Circular buffers of every kind, length and distance, in every place that loops allow.

Each kernel meets all extents of the ring's dimension, two of them under several orders of warps
and copies.
"""

import zlib

import pytest

from tests.support.ring_cases import CASES, Case
from tests.support.ring_loads import Kind, Ring, rings

MATRIX = [
    pytest.param(case, ring, id=f"{case.name}-{ring}")
    for case in CASES
    for kind in case.kinds
    for ring in rings(kind)
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("case", "ring"), MATRIX)
def test_results(case: Case, ring: Ring) -> None:
    fd = case.schedule(ring)
    for extent in case.extents:
        inputs = case.inputs(extent, seed=zlib.crc32(f"{case.name}-{ring}".encode()))
        (result,) = fd.manual_execute(inputs)
        case.check(result, inputs)
        if extent in (3, case.extents[-1]):
            verification = fd.verify(inputs, schedules=3)
            assert verification.verdict == "clean", str(verification)


def test_a_loop_as_short_as_its_copies_are_ahead_waits_for_each_of_them() -> None:
    (case,) = (case for case in CASES if case.name == "single_dim_3")
    test_results(case, Ring(Kind.cp_async, 5, 4))
