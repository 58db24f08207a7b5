"""Rows over the blocks of clusters, on a GPU against float64."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)

import warpsmith  # noqa: E402
from bench import norms  # noqa: E402
from bench.problem import outputs_of  # noqa: E402
from warpsmith.schedulers.rows import once  # noqa: E402
from warpsmith.testing import relative_error  # noqa: E402

PROBLEMS = (
    norms.layer_norm,
    norms.rms_norm,
    norms.residual,
    norms.softmax,
    norms.log_softmax,
    norms.softmax_bwd,
)
LONG = (
    (300, 65536),
    (133, 65537),
    (50, 100001),
    (264, 131072),
    (1, 131072),
    (65, 200002),
    (40, 262144),
    (9, 524288),
    (3, 1048576),
    (2, 1048573),
)
SPREAD = ((1, 16384), (1000, 24576), (77, 24571), (333, 32768))
LARGEST_ERROR = {"bfloat16": 2.0**-8, "float": 4e-6}
"""Relative to the norm of the result."""


def check(problem, dtype):
    inputs = problem.draw()
    call = warpsmith.fuse(problem.fused)
    found = outputs_of(call(*inputs))
    exact = outputs_of(problem.eager(*(x.double() for x in inputs)))
    for got, want in zip(found, exact, strict=True):
        assert relative_error(got, want) < LARGEST_ERROR[dtype]
    for got, again in zip(found, outputs_of(call(*inputs)), strict=True):
        assert torch.equal(got, again)


@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
@pytest.mark.parametrize("shape", LONG, ids=str)
@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
def test_long_rows_are_right_and_the_same_again(make, shape, dtype):
    check(make(*shape, dtype), dtype)


@pytest.mark.parametrize("cluster", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("shape", SPREAD, ids=str)
@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
def test_any_number_of_blocks(make, shape, cluster, monkeypatch):
    monkeypatch.setattr(once, "CLUSTERS", (cluster,))
    check(make(*shape, "bfloat16"), "bfloat16")


@pytest.mark.parametrize("cluster", [2, 16])
def test_a_thousand_launches_give_the_same_bits(cluster, monkeypatch):
    monkeypatch.setattr(once, "CLUSTERS", (cluster,))
    problem = norms.layer_norm(1333, 32768, "bfloat16")
    inputs = problem.draw()
    call = warpsmith.fuse(problem.fused)
    (first,) = (t.clone() for t in outputs_of(call(*inputs)))
    for _ in range(1000):
        (again,) = outputs_of(call(*inputs))
        assert torch.equal(first, again)


def test_no_rows_and_any_number_of_them():
    call = warpsmith.fuse(norms.softmax(1, 131072, "bfloat16").fused)
    for rows in (5, 0, 1, 131, 1000):
        problem = norms.softmax(rows, 131072, "bfloat16")
        (x,) = problem.draw()
        (found,) = outputs_of(call(x))
        assert found.shape == x.shape
        if rows:
            assert relative_error(found, torch.softmax(x.double(), -1)) < 2.0**-8
