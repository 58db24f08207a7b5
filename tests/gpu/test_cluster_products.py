"""Products whose operands come by multicast, on the GPU: right, and the same over many launches."""

import pytest

from tests.support.apart import apart
from tests.support.cluster_launches import product_launches

SIZES = ((128, 64, 256), (300, 200, 136), (1000, 1032, 520))
LAUNCHES = 1000


@pytest.mark.parametrize("ping_pong", [False, True])
@pytest.mark.parametrize("cluster", [(2, 1), (1, 2), (2, 2), (4, 1)])
def test_results(cluster, ping_pong):
    assert apart(product_launches, cluster, ping_pong, SIZES, LAUNCHES, timeout=240) == len(SIZES)
