"""Loads along k begin at different places in different blocks."""

from __future__ import annotations

import pytest

from tests.support.product_programs import values
from warpsmith import FusionDefinition, knobs
from warpsmith.ir.scalar import Expr, evaluate
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Let
from warpsmith.kernel.traversal import walk


def kernel_of(rows: int, columns: int, depth: int) -> Kernel:
    x, weight = values((rows, depth), 1), values((columns, depth), 2)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.linear(fd.from_pytorch(x), fd.from_pytorch(weight)))
    with knobs.scope(device="sim"):
        (launch,) = fd._ready(False).plan_for([x, weight]).launches
    return launch.compiled.kernel


class Known(dict[str, int]):
    """Values of names; those that the launch gives are the number of steps."""

    def __init__(self, lets: dict[str, Expr], steps: int, **known: int) -> None:
        super().__init__(known)
        self.lets, self.steps = lets, steps

    def __missing__(self, name: str) -> int:
        return evaluate(self.lets[name], self) if name in self.lets else self.steps


@pytest.mark.parametrize("steps", [1, 7, 300])
def test_each_block_loads_each_step_once(steps: int) -> None:
    kernel = kernel_of(200, 264, 136)
    lets = {s.symbol.name: s.value for s in walk(kernel.body) if isinstance(s, Let)}
    (at,) = (name for name in lets if name.endswith("_at"))
    loop = at.removesuffix("_at")
    firsts = []
    for block in (0, 44, 131):
        places = [Known(lets, steps, grid_x=block, **{loop: k})[at] for k in range(steps)]
        assert sorted(places) == list(range(steps))
        firsts.append(places[0])
    assert firsts == [block * steps // 132 for block in (0, 44, 131)]
