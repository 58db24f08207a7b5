"""Products by group on the GPU: tiles that the TMA unit stores end where memory says groups do."""

import pytest
import torch

from tests.support.matmuls import poison
from warpsmith import fuse, ops

ENDS = (
    (0, 1, 20, 20, 290, 700),  # groups without rows, of less than a tile, of several
    (128, 256, 384, 512, 640, 768),
    (768, 768, 768, 768, 768, 768),
    (0, 0, 0, 0, 0, 3),  # what follows has no group, and is 0
    (-5, 40, 41, 900, 900, 900),  # outside of the rows
)
ROWS, N, K = 768, 264, 192

grouped = fuse(lambda x, w, ends: ops.grouped_matmul(x, w, ends))


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("many", [1, 9], ids=["six", "fifty-four"])
def test_each_group_has_its_own_rows(ends, many):
    """A warp looks at many groups in two turns; those behind the first six have no rows."""
    torch.manual_seed(len(set(ends)))
    last = (min(max(ends[-1], 0), ROWS),) * (6 * (many - 1))
    x = torch.randn(ROWS, K, device="cuda").bfloat16()
    w = torch.randn(6 * many, N, K, device="cuda").bfloat16()
    told = torch.tensor((*ends, *last), device="cuda", dtype=torch.int32)
    poison(ROWS, N)
    y = grouped(x, w, told)
    wanted, begin = torch.zeros(ROWS, N, device="cuda", dtype=torch.float64), 0
    for matrix, end in zip(w, (min(max(e, 0), ROWS) for e in told.tolist()), strict=True):
        wanted[begin:end] = x[begin:end].double() @ matrix.double().T
        begin = end
    torch.testing.assert_close(y.double(), wanted, rtol=2**-7, atol=2e-2)
    for _ in range(50):
        assert torch.equal(grouped(x, w, told), y)
