"""Circular buffers on the GPU: the whole matrix of the simulated tests, every extent.

A test has all rings of one schedule and kind of load. What a kernel would leave unwritten is NaN:
memory of the size of its result was filled and freed before.
"""

import pytest
import torch

from tests.support.ring_cases import CASES
from tests.support.ring_loads import rings
from tests.support.role_launches import poison

REPEATS = 2
"""Launches of a kernel and size, each on other numbers."""


@pytest.mark.parametrize(
    ("case", "kind"),
    [pytest.param(c, k, id=f"{c.name}-{k.value}") for c in CASES for k in c.kinds],
)
def test_results(case, kind, record_property):
    kernels = 0
    for ring in rings(kind):
        fd = case.schedule(ring)
        for extent in case.extents:
            for seed in range(REPEATS):
                inputs = case.inputs(extent, seed=1000 * kernels + seed)
                wanted = case.wanted(inputs)
                given = [torch.from_numpy(array).cuda() for array in inputs]
                poison(torch.empty(wanted.shape, device="cuda"))
                (result,) = fd.manual_execute(given)
                try:
                    case.check(result.cpu().numpy(), inputs)
                except AssertionError as error:
                    raise AssertionError(f"{case.name}-{ring}, extent {extent}: {error}") from error
        kernels += 1
    record_property("kernels", kernels)
