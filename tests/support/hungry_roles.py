"""A kernel with roles of which one needs more registers than the launch gives every thread."""

from dataclasses import replace

import numpy as np

from tests.support.role_kernels import RoleCase, add, random
from tests.support.role_parts import (
    BLOCKS,
    GRID_X,
    STEP,
    channel,
    element,
    kernel_of,
    loader,
    local,
    memory,
    single,
    steps,
    thread,
)
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.kernel import Budgets
from warpsmith.kernel.nodes import Declare, Element, For, Statement, Store
from warpsmith.kernel.rings import Begin

TILE = 512


def hungry(
    sums: int,
    *,
    block: tuple[int, int, int] = (256, 1, 1),
    tiles: int = 4,
    budgets: Budgets | None = None,
    blocks_per_sm: int = 0,
) -> RoleCase:
    """Every thread of a role keeps `sums` sums, all at once, over the tiles that another loads.

    Sum k of thread t is that of element t + k of every tile of its block.
    """
    load = single("load", 0)
    x, y, z = (Const(extent) for extent in block)
    compute = Agent("compute", 4, (x, y, z))
    threads = block[0] * block[1] * block[2]
    source, result = memory("T0"), memory("T1", Const(BLOCKS * threads * sums), written=True)
    ring = channel("ring0", TILE, 2, load, compute)
    kept, each = local("sums", sums), Symbol("i1", low=0, extent=Const(sums))
    number = _linear(compute)
    value = element(ring, integers.add(number, each))

    def over_all(statement: Statement) -> For:
        return For(each, Const(sums), (statement,), unroll=True)

    more = Store(kept, each, add(Element(kept, each), value))
    whose = integers.add(integers.mul(GRID_X, threads), number)
    place = integers.add(integers.mul(whose, sums), each)
    body = (
        Declare(kept),
        over_all(Store(kept, each, Const(0.0, DataType.Float))),
        Begin(ring.use),
        For(STEP, steps(TILE), ring.used(over_all(more)), unroll=False),
        over_all(Store(result, place, Element(kept, each))),
    )
    kernel = kernel_of(
        (source, result),
        (ring,),
        (loader(load, ring, source), Branch(compute, body)),
        blocks_per_sm=blocks_per_sm,
    )
    values = random(tiles * TILE, 0)
    wanted = np.zeros((BLOCKS, threads, sums), np.float32)
    places = np.arange(threads)[:, None] + np.arange(sums)
    for tile in range(tiles):
        wanted[tile % BLOCKS] += values[tile * TILE + places]
    return RoleCase(
        replace(kernel, budgets=budgets),
        {"size": values.size},
        {"T0": values},
        {"T1": wanted.reshape(-1)},
    )


def _linear(agent: Agent) -> Expr:
    """Number of a thread in its role, x fastest."""
    x, y, _ = (integers.constant(extent) for extent in agent.block)
    assert x is not None
    assert y is not None
    return integers.add(
        thread("x", agent),
        integers.mul(thread("y", agent), x),
        integers.mul(thread("z", agent), x * y),
    )
