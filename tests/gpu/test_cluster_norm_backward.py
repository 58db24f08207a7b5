"""Norms backward of rows over the blocks of clusters, on a GPU against float64."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)

import warpsmith  # noqa: E402
from bench import norm_backward  # noqa: E402
from bench.problem import outputs_of  # noqa: E402
from warpsmith.schedulers.rows import turns  # noqa: E402
from warpsmith.testing import relative_error  # noqa: E402

PROBLEMS = (norm_backward.layer_norm_bwd, norm_backward.rms_norm_bwd)
LONG = (
    (1, 24576),
    (1000, 24576),
    (4099, 32768),
    (300, 40001),
    (333, 65536),
    (100, 131072),
    (40, 262144),
)
LARGEST_ERROR = {"bfloat16": 2.0**-8, "float": 8e-6}
"""Relative to the norm of the result."""


def check(problem, dtype):
    inputs = problem.draw()
    call = warpsmith.fuse(problem.fused, warp_specialize=False)
    found = outputs_of(call(*inputs))
    again = outputs_of(call(*inputs))
    exact = outputs_of(problem.eager(*(x.double() for x in inputs)))
    for got, want, twice in zip(found, exact, again, strict=True):
        assert relative_error(got, want) < LARGEST_ERROR[dtype]
        assert torch.equal(got, twice)


@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
@pytest.mark.parametrize("shape", LONG, ids=str)
@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
def test_long_rows_are_right_and_the_same_again(make, shape, dtype):
    check(make(*shape, dtype), dtype)


@pytest.mark.parametrize("cluster", [2, 4, 8, 16])
@pytest.mark.parametrize("shape", [(1000, 8192), (5000, 16384), (77, 12288), (50, 4100)], ids=str)
@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
def test_any_number_of_blocks(make, shape, cluster, monkeypatch):
    monkeypatch.setattr(turns, "CLUSTERS", (cluster,))
    check(make(*shape, "bfloat16"), "bfloat16")


@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
def test_a_thousand_launches_give_the_same_bits(make):
    problem = make(1333, 32768, "bfloat16")
    inputs = problem.draw()
    call = warpsmith.fuse(problem.fused)
    first = [t.clone() for t in outputs_of(call(*inputs))]
    for _ in range(1000):
        again = outputs_of(call(*inputs))
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
