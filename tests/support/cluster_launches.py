"""Kernels with clusters on the GPU: the launches of each, for a process of its own."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.roles.test_cluster_rows import COLUMNS, Rows
from tests.support.cluster_products import cluster_product
from tests.support.matmuls import check_on_gpu, poison


def row_launches(case: Rows, launches: int) -> int:
    """Launch rows of a cluster so often without a pause; returns how many elements are wrong."""
    import torch

    fd = case.program()
    given = np.random.default_rng(0).integers(1, 3, (999, COLUMNS)).astype(np.float32)
    x = torch.from_numpy(given).cuda()
    expected = torch.from_numpy(case.expected(given)).cuda()
    wrong: Any = torch.zeros((), dtype=torch.int64, device="cuda")
    for _ in range(launches):
        (found,) = fd.manual_execute([x])
        wrong += (~torch.isclose(found, expected, rtol=1e-5, atol=0)).sum()
    return int(wrong)


def product_launches(
    cluster: tuple[int, int],
    ping_pong: bool,
    sizes: Sequence[tuple[int, int, int]],
    launches: int,
) -> int:
    """Products by hand at these sizes, each launched so often with equal bits, held against
    float64; how many there were.
    """
    import torch

    fd = cluster_product(cluster, ping_pong=ping_pong, grid=8)
    for number, (m, n, k) in enumerate(sizes):
        torch.manual_seed(number)
        x, weight = (torch.rand(r, k, device="cuda").mul_(4).sub_(2).bfloat16() for r in (m, n))
        poison(m, n)
        (first,) = fd.manual_execute([x, weight])
        check_on_gpu(first, x, weight)
        differences = torch.zeros((), dtype=torch.int64, device="cuda")
        for _ in range(launches - 1):
            differences += (fd.manual_execute([x, weight])[0] != first).sum()
        assert int(differences) == 0, f"{int(differences)} elements differ"
    return len(sizes)
