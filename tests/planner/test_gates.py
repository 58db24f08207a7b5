"""Which products of one operand are one kernel."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from tests.planner.test_plans import drawn, schedulers
from tests.support.binaries import uncompiled
from warpsmith import ops
from warpsmith.engine import fitting
from warpsmith.engine.executable import Executable
from warpsmith.planner import trials
from warpsmith.planner.cuts import cuts
from warpsmith.planner.decided import NOTHING, Decided
from warpsmith.planner.prices import Prices

SINGLE = Decided(single=frozenset(range(100)))
X, W, V, OTHER = drawn(40, 64), drawn(48, 64), drawn(48, 64), drawn(56, 64)


def gated(x: Any, w: Any, v: Any) -> Any:
    return ops.silu(ops.linear(x, w)) * ops.linear(x, v)


def both_are_results(x: Any, w: Any, v: Any) -> Any:
    return ops.linear(x, w), ops.linear(x, v)


def one_is_a_result(x: Any, w: Any, v: Any) -> Any:
    gate = ops.linear(x, w)
    return gate, gate * ops.linear(x, v)


def of_two_operands(x: Any, w: Any, v: Any) -> Any:
    return ops.linear(x, w) * ops.linear(ops.relu(x), v)


def meet_in_a_sum(x: Any, w: Any, v: Any) -> Any:
    return ops.sum(ops.linear(x, w), -1) + ops.sum(ops.linear(x, v), -1)


def one_needs_the_other(x: Any, w: Any, v: Any) -> Any:
    first = ops.linear(x, w)
    total = ops.sum(first)
    return first * ops.linear(x, v * total)


def of_three(x: Any, w: Any, v: Any, u: Any) -> Any:
    return ops.linear(x, w) * ops.linear(x, v) * ops.linear(x, u)


@pytest.mark.parametrize(
    ("program", "products"),
    [
        (gated, 1),
        (both_are_results, 2),
        (one_is_a_result, 1),
        (of_two_operands, 2),
        (meet_in_a_sum, 2),
        (one_needs_the_other, 2),
    ],
)
def test_products_that_meet_are_one_kernel(program: Callable[..., Any], products: int) -> None:
    assert schedulers(program, X, W, V).count("matmul") == products


def test_the_third_product_of_an_operand_has_a_kernel_of_its_own() -> None:
    assert schedulers(of_three, X, W, V, V + V).count("matmul") == 2


def test_a_gate_between_other_kernels() -> None:
    """A layer: what comes before is stored, and what follows reads the one result."""

    def layer(x: Any, w: Any, v: Any, down: Any) -> Any:
        normed = x * ops.rsqrt(ops.mean(x * x, -1, keepdim=True) + 1e-6)
        return x + ops.linear(gated(normed, w, v), down)

    assert schedulers(layer, X, W, V, drawn(64, 48)) == ["inner_persistent", "matmul", "matmul"]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("m", "n", "k", "products"),
    [(2048, 4096, 4096, 1), (64, 64, 16384, 2), (32, 1024, 16384, 2)],
)
def test_products_are_one_kernel_where_that_is_priced_lower(
    m: int, n: int, k: int, products: int
) -> None:
    """Kernels of one product each share k among blocks, or have narrow tiles of few rows."""
    arrays = [np.empty(shape, ml_dtypes.bfloat16) for shape in ((m, k), (n, k), (n, k))]
    found = []
    for chosen in (trials.faster, lambda *given: NOTHING, lambda *given: SINGLE):
        executable = Executable(warpsmith.fuse(gated).lower(*arrays).fusion)
        with pytest.MonkeyPatch.context() as patch, uncompiled():
            patch.setattr(fitting, "faster", chosen)
            found.append(executable.plan_for(arrays))
    call, joined, apart = found
    assert [len(each.segments) for each in found] == [products, 1, 2]
    whole, pair = (sum(Prices().us(p, c.problem) for p in c.segments) for c in (joined, apart))
    assert (pair * trials.WORTH < whole) == (products == 2)
    lines = [line for cut in cuts(call.segments, call.problem, 12) for line in cut.lines()]
    assert any("as one kernel matmul would take" in line for line in lines) == (products == 2)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("m", "n", "k"), [(4096, 14336, 4096), (8192, 8192, 8192), (1408, 15616, 3200)]
)
def test_power_holds_the_clock_of_two_kernels_as_of_one(m: int, n: int, k: int) -> None:
    """Each of two kernels was predicted to multiply faster than one that takes twice as long."""
    arrays = [np.empty(shape, ml_dtypes.bfloat16) for shape in ((m, k), (n, k), (n, k))]
    executable = Executable(warpsmith.fuse(gated).lower(*arrays).fusion)
    with uncompiled():
        assert len(executable.plan_for(arrays).segments) == 1


def test_products_of_as_many_columns_by_name_alone() -> None:
    """Results that meet by a broadcast have columns of their own."""

    def program(x: Any, w: Any, v: Any) -> Any:
        left = ops.broadcast(ops.linear(x, w), [False, False, True])
        return left * ops.broadcast(ops.linear(x, v), [False, True, False])

    assert schedulers(program, X, W, OTHER).count("matmul") == 2
