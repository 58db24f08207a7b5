"""The simulator's test kernels on the GPU: specs, launcher and reference results agree."""

from __future__ import annotations

import pytest

from tests.sim.support.catalog import NAMES, TRITON, TWINS, cases, read_ptx, read_spec
from tests.sim.support.expected import EXPECTED, assert_expected
from tests.sim.support.expected_triton import EXPECTED_TRITON
from tests.support.launch_spec import initial_arrays, launch_spec

REFERENCE = {**EXPECTED, **EXPECTED_TRITON}


@pytest.mark.parametrize(("name", "trips"), list(cases((*NAMES, *TWINS, *TRITON))))
def test_results(name: str, trips: int | None) -> None:
    spec = read_spec(name, trips)
    results = launch_spec(read_ptx(name), spec)
    assert_expected(REFERENCE[name], spec, initial_arrays(spec), results)
