"""What passes the L2 is the first to leave it."""

import pytest

from warpsmith.schedulers.matmul.heuristic import Work
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H200

PROBLEM = Problem(values={}, alignment={}, target=H200)


@pytest.mark.parametrize(
    ("size", "first"),
    [
        ((4096, 14336, 4096), (False, True)),
        ((4096, 14336, 4104), (False, False)),
        ((16384, 1024, 4096), (False, False)),
        ((4096, 4096, 14336), (False, False)),
        ((2048, 2048, 2048), (False, False)),
        ((8, 14336, 4096), (True, False)),
    ],
    ids=["pass", "lines not whole", "a wave has all", "no rows stay", "all stay", "one cluster"],
)
def test_what_passes_the_l2_is_the_first_to_leave_it(
    size: tuple[int, int, int], first: tuple[bool, bool]
) -> None:
    m, n, k = size
    work = Work(m=m, n=n, k=k) if m > 8 else Work(m=n, n=m, k=k, swapped=True, few=8)
    assert work.best(PROBLEM)[0][0].once_read == first
