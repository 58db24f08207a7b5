"""Masks that are drawn in the loop over k: where, how often, and which are left behind it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.support.lowered_products import kernels
from warpsmith.ir import integers
from warpsmith.ir.scalar import Apply
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Statement
from warpsmith.kernel.products import Multiply
from warpsmith.kernel.traversal import expressions, walk
from warpsmith.lower.passes.draw_ahead import DRAW, UNIT, draw_ahead

STRATEGIES: dict[str, dict[str, Any]] = {
    "cooperative": {"tile": (128, 128, 64)},
    "ping-pong": {"tile": (64, 128, 64), "ping_pong": 2},
    "parts of k": {"tile": (128, 64, 64), "parts": 2},
    "stored by threads": {"tile": (128, 64, 64), "chunk": 0, "staged": (), "store_stages": 0},
}


def dropped(ops: Any, h: Any) -> Any:
    return ops.dropout(h, 0.25, rng_seed=7, rng_offset=0)[0]


def noised(ops: Any, h: Any) -> Any:
    noise = ops.uniform(0.0, 1.0, ops.shape(h), rng_seed=7, rng_offset=0)
    return ops.where(ops.ge(noise, 0.5), ops.mul(h, noise), h)


def draws(statements: Iterable[Statement]) -> int:
    """How many numbers the text of these says to draw: of rolled loops one iteration's."""
    found = 0
    for statement in statements:
        told = (node for expr in expressions(statement) for node in expr.walk())
        found += sum(isinstance(node, Apply) and node.op == DRAW for node in told)
        times = 1
        if isinstance(statement, For) and statement.unroll:
            times = integers.constant(statement.extent) or 0
        body = getattr(statement, "body", ())
        found += times * draws(body)
    return found


def over_k(kernel: Kernel) -> For:
    (branch,) = (
        s for s in kernel.body if isinstance(s, Branch) and s.agent.kind.name == "MULTIPLY"
    )
    loops = [s for s in walk(branch.body) if isinstance(s, For) and not s.unroll]
    return next(s for s in reversed(loops) if any(isinstance(i, Multiply) for i in walk(s.body)))


@pytest.mark.few(2)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_masks_are_drawn_as_tensor_cores_multiply(strategy: str) -> None:
    """A unit in each iteration, under a bound, another in a loop for what is left: nothing else."""
    given = STRATEGIES[strategy]
    found = kernels(dropped, **given)["draw_ahead"]
    loop = over_k(found)
    assert draws(loop.body) == UNIT
    assert isinstance(loop.body[-1], If)
    groups = given.get("ping_pong") and 1
    rows, columns, _ = given["tile"]
    sums = rows * columns // (128 * (groups or rows // 64))
    bound = loop.body[-1].condition.args[1]
    assert integers.constant(bound) == sums // UNIT
    assert draws(found.body) == 2 * UNIT


def test_numbers_that_are_added_stay_where_they_are_used() -> None:
    found = kernels(noised, tile=(128, 128, 64))
    names = list(found)
    before = found[names[names.index("draw_ahead") - 1]]
    assert draws(over_k(before).body) == 0 < draws(before.body)
    assert draw_ahead(before) is before
