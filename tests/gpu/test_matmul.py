"""Matrix products on the GPU: right at every size, and the same bits over a thousand launches.

The first launches are in a process of their own: a kernel that hangs ends there.
"""

import pytest
import torch

from tests.support.apart import apart
from tests.support.matmuls import check_on_gpu, first_launches, linear, poison, with_tile
from warpsmith import knobs
from warpsmith.schedulers.matmul import heuristic

LAUNCHES = 1000

SQUARES = tuple((edge, edge, edge) for edge in (64, 128, 256, 512, 1024, 2048, 4096, 8192))
RAGGED = (
    (8, 8, 8),
    (1, 8, 64),
    (200, 264, 72),
    (129, 520, 200),
    (1000, 1000, 1000),
    (3648, 480, 8632),
    (127, 8192, 64),
    (8192, 8, 4096),
    (4000, 4104, 4040),
    (88, 1720, 13280),
)
EMPTY = ((64, 64, 0), (0, 64, 64), (64, 0, 64))


@pytest.mark.parametrize("sizes", [SQUARES, RAGGED, EMPTY], ids=["squares", "ragged", "empty"])
def test_results(sizes):
    assert apart(first_launches, sizes, timeout=120.0) == len(sizes)


@pytest.mark.parametrize(
    "size",
    [
        (128, 256, 512),
        (512, 608, 14552),
        (1000, 1000, 1000),
        (4096, 4096, 4096),
        (8192, 8192, 8192),
    ],
)
def test_a_thousand_launches(size):
    m, n, k = size
    fd = linear()
    torch.manual_seed(1)
    x, weight = (torch.randn(rows, k, device="cuda").bfloat16() for rows in (m, n))
    (first,) = fd.execute([x, weight])
    check_on_gpu(first, x, weight)
    differences = torch.zeros((), dtype=torch.int64, device="cuda")
    for number in range(LAUNCHES - 1):
        if number % 100 == 0:
            poison(m, n)
        (again,) = fd.execute([x, weight])
        differences += (first != again).sum()
    assert int(differences) == 0


def test_rows_that_the_tma_unit_cannot_copy():
    x, weight = (torch.randn(64, 60, device="cuda").bfloat16() for _ in range(2))
    (found,) = linear().execute([x, weight])
    check_on_gpu(found, x, weight)


@pytest.mark.parametrize("turns", [2, 3])
@pytest.mark.parametrize(
    "size", [(200, 264, 72), (4096, 4096, 512), (1000, 1004, 1000), (3648, 480, 8632)]
)
def test_groups_in_turn(monkeypatch, size, turns):
    chosen = heuristic.choose

    def choose(*args):
        return with_tile(chosen(*args), turns, (64, 128))

    monkeypatch.setattr(heuristic, "choose", choose)
    m, n, k = size
    fd = linear()
    torch.manual_seed(2)
    x, weight = (torch.randn(rows, k, device="cuda").bfloat16() for rows in (m, n))
    (first,) = fd.execute([x, weight])
    check_on_gpu(first, x, weight)
    poison(m, n)
    differences = torch.zeros((), dtype=torch.int64, device="cuda")
    for _ in range(200):
        (again,) = fd.execute([x, weight])
        differences += (first != again).sum()
    assert int(differences) == 0
    assert f"ping_pong={turns}" in fd.explain()


def test_autotuned(tmp_path):
    """The winner is kept, and another trace finds it without timing anything."""
    x, weight = (torch.randn(rows, 512, device="cuda").bfloat16() for rows in (1024, 768))
    with knobs.scope(cache_dir=tmp_path):
        for _ in range(2):
            fd = linear()
            (found,) = fd.execute([x, weight], autotune=True)
            check_on_gpu(found, x, weight)
            (kept,) = tmp_path.glob("*.tuned")
    assert b'"winner"' in kept.read_bytes()
