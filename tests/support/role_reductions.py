"""Kernels with roles whose threads reduce what stages hold, written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from tests.support.role_kernels import CASES, RoleCase, random, taking_turns
from tests.support.role_parts import (
    BLOCKS,
    GRID_X,
    STEP,
    Body,
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
from tests.support.summing import FLOAT_SUM, added
from warpsmith.ir import integers
from warpsmith.ir.carry import moments
from warpsmith.ir.domains import BLOCK_TYPES, MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.nodes import Buffer, Declare, Element, For, If, Statement, Store
from warpsmith.kernel.reductions import Reduce, WelfordStep
from warpsmith.kernel.rings import Begin
from warpsmith.kernel.scratch import groups_reduce_scratch

ROWS = 5
PASSES = 2
"""Elements of a row that each thread has."""

Extents = tuple[int, int, int]


def reducing(
    block: Extents, reduced: str, *, groups: int = 1, welford: bool = False, stages: int = 2
) -> RoleCase:
    """Sums, or means and sums of squared distances, of each row of a matrix, a stage a row.

    A row has two elements for each of a group's threads. What threads that agree on the axes that
    are not `reduced` hold is combined. Groups are numbered along z, and take rows in turn.

    Args:
        block: threads of one group along x, y, z.
        reduced: letters of axes.
    """
    load = single("load", 0)
    axes = tuple(kind for kind in BLOCK_TYPES if kind.name[-1] in reduced)
    agent = _role(block, groups)
    columns = PASSES * block[0] * block[1] * block[2]
    x = memory("T0")
    ring = channel("ring0", columns, stages * groups, load, agent)
    outputs = tuple(memory(name, written=True) for name in ("T1", "T2")[: 1 + welford])
    scratch = _scratch(block, axes, groups, 3 if welford else 1)
    values = tuple(local(name) for name in ("mean", "m2", "count")[: 3 if welford else 1])
    lane = Symbol("i1", low=0)
    item = element(ring, integers.add(integers.mul(lane, columns // PASSES), _linear(agent, block)))
    step: Statement = (
        WelfordStep(*values, integers.ZERO, integers.ZERO, (item,))
        if welford
        else added(values[0], integers.ZERO, item)
    )

    def row(number: Expr) -> Body:
        start = (s for v in values for s in (Declare(v), Store(v, integers.ZERO, zero())))
        reduce = Reduce(
            moments(DataType.Float) if welford else FLOAT_SUM,
            values,
            integers.ZERO,
            1,
            axes,
            scratch,
        )
        index = integers.add(integers.mul(number, BLOCKS), GRID_X)
        return (
            *start,
            *ring.used(For(lane, Const(PASSES), (step,), unroll=True)),
            reduce,
            *_results(agent, block, axes, index, outputs, values),
        )

    if groups > 1:
        body = taking_turns(agent, ring, row)
    else:
        body = (Begin(ring.use), For(STEP, steps(columns), row(STEP), unroll=False))
    kernel = kernel_of(
        (x, *outputs), (ring,), (loader(load, ring, x), Branch(agent, body)), scratch=(scratch,)
    )
    data = random(ROWS * columns, 0)
    expected = _expected(data.reshape(ROWS, PASSES, *reversed(block)), reduced, welford)
    return RoleCase(kernel, {"size": data.size}, {"T0": data}, expected, tolerance=1e-4)


def across_blocks(*, groups: int = 1) -> RoleCase:
    """The sum of all elements that each group of a role meets, in both blocks together."""
    load = single("load", 0)
    block = (64, 1, 1)
    agent = _role(block, groups)
    x, z = memory("T0"), memory("T1", Const(groups), written=True)
    ring = channel("ring0", 64, 2 * groups, load, agent)
    workspace = memory("T1_parts", Const(groups * BLOCKS), written=True)
    semaphore = Buffer("T1_arrivals", DataType.Int32, MemoryType.global_, Const(groups))
    axes = (ParallelType.block_x,)
    scratch = _scratch(block, axes, groups, 1)
    total, last = local("total"), Symbol("T1_last", DataType.Bool)
    add = added(total, integers.ZERO, element(ring, thread("x", agent)))

    def row(number: Expr) -> Body:
        return ring.used(add)

    if groups > 1:
        loop = taking_turns(agent, ring, row)
    else:
        loop = (Begin(ring.use), For(STEP, steps(64), row(STEP), unroll=False))
    grid = (ParallelType.grid_x,)
    body = (
        Declare(total),
        Store(total, integers.ZERO, zero()),
        *loop,
        Reduce(
            *(FLOAT_SUM, (total,), integers.ZERO, 1, axes, scratch, grid, last),
            workspace=workspace,
            semaphore=semaphore,
        ),
        If(last, _results(agent, block, axes, integers.ZERO, (z,), (total,))),
    )
    kernel = kernel_of(
        (x, z, workspace, semaphore),
        (ring,),
        (loader(load, ring, x), Branch(agent, body)),
        scratch=(scratch,),
    )
    rows = 8
    data = random(rows * 64, 0)
    owner = np.arange(rows) // BLOCKS % groups
    sums = [data.reshape(rows, 64)[owner == group].sum() for group in range(groups)]
    expected = {"T1": np.array(sums, np.float32)}
    return RoleCase(kernel, {"size": data.size}, {"T0": data}, expected, tolerance=1e-4)


def zero() -> Expr:
    return Const(0.0, DataType.Float)


def _role(block: Extents, groups: int) -> Agent:
    x, y, z = block
    assert groups == 1 or z == 1, "groups are numbered along z"
    extents = (Const(x), Const(y), Const(z * groups))
    along = ParallelType.block_z if groups > 1 else None
    return Agent("reduce", 4, extents, groups_along=along, barrier=1)


def _scratch(block: Extents, axes: tuple[ParallelType, ...], groups: int, parts: int) -> Buffer:
    x, y, z = (kind in axes for kind in BLOCK_TYPES)
    everything = (block[0], block[1], block[2] * groups)
    count = groups_reduce_scratch(1, (x, y, z), everything, 2 if groups > 1 else None)
    size = Const(max(1, count * parts))
    return Buffer("scratch", DataType.Float, MemoryType.shared, size)


def _linear(agent: Agent, block: Extents) -> Expr:
    """A thread's number in its group."""
    x, y, z = (
        integers.ZERO if kind is agent.groups_along else thread(kind.name[-1], agent)
        for kind in BLOCK_TYPES
    )
    return integers.add(x, integers.mul(y, block[0]), integers.mul(z, block[0] * block[1]))


def _results(
    agent: Agent,
    block: Extents,
    axes: tuple[ParallelType, ...],
    row: Expr,
    outputs: tuple[Buffer, ...],
    values: tuple[Buffer, ...],
) -> Body:
    """One thread of those that have the same result stores it; results of a row stand together."""
    index: Expr = row
    first: list[Expr] = []
    for kind, extent in reversed([*zip(BLOCK_TYPES, block, strict=True)]):
        place = thread(kind.name[-1], agent)
        if kind in axes:
            first.append(Apply("eq", (place, integers.ZERO), DataType.Bool))
        elif kind is not agent.groups_along:
            index = integers.add(integers.mul(index, extent), place if extent > 1 else 0)
        elif row == integers.ZERO:
            index = place
    stores = tuple(
        Store(output, index, Element(value, integers.ZERO))
        for output, value in zip(outputs, values, strict=False)
    )
    return (If(integers.conjunction(*first), stores),)


def _expected(data: np.ndarray, reduced: str, welford: bool) -> dict[str, np.ndarray]:
    axes = (1, *(4 - "xyz".index(letter) for letter in reduced))
    wide = data.astype(np.float64)
    mean = wide.mean(axis=axes, keepdims=True)
    m2 = ((wide - mean) ** 2).sum(axis=axes)
    results = (mean, m2) if welford else (wide.sum(axis=axes),)
    return {f"T{n + 1}": r.reshape(-1).astype(np.float32) for n, r in enumerate(results)}


REDUCTIONS: Mapping[str, Callable[[], RoleCase]] = MappingProxyType(
    {
        "rows by one group": lambda: reducing((128, 1, 1), "x"),
        "rows by two groups": lambda: reducing((128, 1, 1), "x", groups=2),
        "rows by three groups": lambda: reducing((64, 2, 1), "x", groups=3),
        "columns of a group": lambda: reducing((8, 16, 1), "y", groups=2),
        "rows and layers": lambda: reducing((4, 8, 4), "xz"),
        "rows within warps": lambda: reducing((32, 4, 1), "x"),
        "by a group that is cut short": lambda: reducing((24, 3, 1), "x"),
        "means of rows": lambda: reducing((128, 1, 1), "x", welford=True),
        "means of rows by two groups": lambda: reducing((128, 1, 1), "x", groups=2, welford=True),
        "means of columns": lambda: reducing((16, 16, 1), "y", welford=True),
        "across blocks": across_blocks,
        "across blocks by two groups": lambda: across_blocks(groups=2),
    }
)

ALL_CASES: Mapping[str, Callable[[], RoleCase]] = MappingProxyType({**CASES, **REDUCTIONS})
