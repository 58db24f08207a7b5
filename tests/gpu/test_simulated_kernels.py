"""The simulator's test kernels on the GPU: specs, launcher and reference results agree."""

import numpy as np
import pytest

from tests.sim.support.catalog import NAMES, TRITON, TWINS, cases, read_ptx, read_spec
from tests.sim.support.expected import EXPECTED, assert_expected
from tests.sim.support.expected_triton import EXPECTED_TRITON
from tests.sim.support.tensor_boxes import BOXES, Box
from tests.support.launch_spec import initial_arrays, launch_spec

REFERENCE = {**EXPECTED, **EXPECTED_TRITON}


@pytest.mark.parametrize(("name", "trips"), list(cases((*NAMES, *TWINS, *TRITON))))
def test_results(name: str, trips: int | None) -> None:
    spec = read_spec(name, trips)
    results = launch_spec(read_ptx(name), spec)
    assert_expected(REFERENCE[name], spec, initial_arrays(spec), results)


@pytest.mark.parametrize("box", BOXES, ids=lambda box: box.name)
def test_boxes(box: Box) -> None:
    spec = box.spec()
    expected = box.expected(initial_arrays(spec))
    for name, result in launch_spec(box.ptx(), spec).items():
        np.testing.assert_array_equal(result, expected[name], err_msg=name)
