"""Roles on the GPU: every kernel of the matrix is right, and stays so over many launches.

The first launches are in a process of their own: a kernel that hangs ends there. Then each kernel
is launched a thousand times on one input, without a pause; every result has the bits of the first.
"""

import pytest
import torch

from tests.support.apart import apart
from tests.support.role_cases import CASES
from tests.support.role_launches import first_launches, off_gpu, on_gpu, poison

LAUNCHES = 1000
TIMEOUT = 240.0
"""Seconds for the first launches of a case and kind of load; compilation takes most of it."""


@pytest.mark.parametrize(
    ("case", "kind"),
    [pytest.param(c, k, id=f"{c.name}-{k.value}") for c in CASES for k in c.kinds],
)
def test_results(case, kind, record_property):
    kernels = apart(first_launches, case.name, kind.value, timeout=TIMEOUT)
    for feed in case.feeds():
        if feed.kind is kind:
            launch_often(case, feed)
    record_property("kernels", kernels)


def launch_often(case, feed):
    """A thousand launches at the largest extent: the first and the last are held against NumPy."""
    fd, extent = case.schedule(feed), case.extents[-1]
    inputs, given = on_gpu(case, extent, seed=7)
    first = fd.manual_execute(given)
    case.check(off_gpu(case, first), inputs, extent)
    differences = torch.zeros((), dtype=torch.int64, device="cuda")
    last = first
    for number in range(LAUNCHES - 1):
        if number % 100 == 0:
            for result in first:
                poison(result)
        last = fd.manual_execute(given)
        for a, b in zip(first, last, strict=True):
            differences += (a != b).sum()
    assert int(differences) == 0, f"{case.name}-{feed}: {int(differences)} elements differ"
    case.check(off_gpu(case, last), inputs, extent)
