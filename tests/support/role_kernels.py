"""Kernels with roles, written by hand, each with what it is run with and what comes out.

They are what lowering makes of such programs, without the passes that only make kernels faster.
`CASES` names one of each kind; `check` runs one on the simulator.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from tests.support.role_parts import (
    SIZE,
    STEP,
    Body,
    Channel,
    channel,
    each_element,
    element,
    kernel_of,
    loader,
    memory,
    single,
    steps,
    thread,
    tile_copy,
)
from tests.support.simulating import simulated
from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Statement, Store
from warpsmith.kernel.rings import (
    ELECTED,
    Advance,
    Arrive,
    ArriveByWarp,
    Await,
    AwaitCopies,
    Begin,
    CommitCopies,
    FenceProxy,
)

FULL_SCHEDULES = 16


@dataclass(frozen=True)
class RoleCase:
    """A kernel with its arguments.

    Attributes:
        values: of the kernel's scalars.
        inputs, expected: arrays of floats in global memory, by name.
        tolerance: of the results, relative; 0 asks for equal ones.
    """

    kernel: Kernel
    values: Mapping[str, int]
    inputs: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray]
    tolerance: float = 0.0


def check(case: RoleCase, schedules: int = FULL_SCHEDULES) -> None:
    """Run the kernel's PTX on the simulator: it is clean under all schedules, and right."""
    results = simulated(case.kernel, case.values, case.inputs, schedules=schedules)
    for name, wanted in case.expected.items():
        np.testing.assert_allclose(results[name], wanted, rtol=case.tolerance, atol=0)


def random(size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def add(a: Expr, b: Expr) -> Expr:
    return Apply("add", (a, b), DataType.Float)


def times(a: Expr, factor: float) -> Expr:
    return Apply("mul", (a, Const(factor, DataType.Float)), DataType.Float)


def along(x: Expr | int, y: int = 1, z: int = 1) -> tuple[Expr, Expr, Expr]:
    """Extents of a role."""
    return integers.index(x), Const(y), Const(z)


# --- streaming: z = x + y, a load role for each input ------------------------------------------


def streaming(
    *,
    size: int = 3000,
    tile: int = 256,
    stages: int = 3,
    threads: int | Symbol = 256,
    how: LoadStoreOpType = LoadStoreOpType.bulk,
    registers: tuple[int, int] | None = None,
    blocks_per_sm: int = 0,
) -> RoleCase:
    """Two single loading warps, and one role whose threads add what both brought.

    Args:
        registers: of loading and adding threads.
    """
    few, many = registers or (None, None)
    load_x, load_y = single("load_x", 0, few), single("load_y", 1, few)
    adding = Agent("add", 4, along(threads), registers=many)
    x, y, z = memory("T0"), memory("T1"), memory("T2", written=True)
    from_x = channel("ring0", tile, stages, load_x, adding)
    from_y = channel("ring1", tile, stages, load_y, adding)

    def sums(index: Expr, place: Expr) -> Statement:
        return Store(z, place, add(element(from_x, index), element(from_y, index)))

    body = from_x.used(*from_y.used(each_element(adding, tile, sums)))
    branches = (
        loader(load_x, from_x, x, how),
        loader(load_y, from_y, y, how),
        Branch(adding, _loop((from_x, from_y), body, tile)),
    )
    dynamic = (threads,) if isinstance(threads, Symbol) else ()
    kernel = kernel_of(
        (x, y, z),
        (from_x, from_y),
        branches,
        scalars=(SIZE, *dynamic),
        blocks_per_sm=blocks_per_sm,
    )
    a, b = random(size, 0), random(size, 1)
    values = {"size": size, **{symbol.name: 80 for symbol in dynamic}}
    return RoleCase(kernel, values, {"T0": a, "T1": b}, {"T2": a + b})


def _loop(uses: tuple[Channel, ...], body: Body, tile: int) -> Body:
    """Use all tiles of the block one by one."""
    return (*(Begin(each.use) for each in uses), For(STEP, steps(tile), body, unroll=False))


# --- groups that take turns --------------------------------------------------------------------


def turns(
    *, size: int = 3000, tile: int = 256, groups: int = 2, share: int = 1, rounds: int = 2
) -> RoleCase:
    """z = x + x by groups of 128 threads along y, each with stages of its own in one ring."""
    load = single("load", 0)
    adding = Agent("add", 4, along(128, groups), groups_along=ParallelType.block_y)
    x, z = memory("T0"), memory("T1", written=True)
    ring = channel("ring0", tile, groups * share * rounds, load, adding, share=share)

    def doubled(step: Expr) -> Body:
        def work(index: Expr, place: Expr) -> Statement:
            return Store(z, place, add(element(ring, index), element(ring, index)))

        return ring.used(each_element(adding, tile, work, step))

    kernel = kernel_of(
        (x, z),
        (ring,),
        (loader(load, ring, x), Branch(adding, taking_turns(adding, ring, doubled))),
    )
    a = random(size, 0)
    return RoleCase(kernel, {"size": size}, {"T0": a}, {"T1": a + a})


def taking_turns(agent: Agent, ring: Channel, body: Callable[[Expr], Body]) -> Body:
    """The groups of a role use `share` stages each, one group after the other."""
    assert agent.groups_along is not None
    turn, part = Symbol("i2", low=0), Symbol("i3", low=0)
    groups, share = agent.groups, integers.constant(ring.ring.groups.share) or 1
    count, group = steps(ring.tile), thread(agent.groups_along.name[-1], agent)
    first = integers.mul(integers.add(integers.mul(turn, groups), group), share)
    step = integers.add(first, part)
    one = If(integers.less(step, count), body(step), uniform=True)
    skip = Advance(ring.use, by=(groups - 1) * share)
    inner = (For(part, Const(share), (one,), unroll=False), *((skip,) if groups > 1 else ()))
    return (
        Begin(ring.use, integers.mul(group, share)),
        For(turn, integers.ceildiv(count, groups * share), inner, unroll=False),
    )


# --- chains ------------------------------------------------------------------------------------

LENGTH, TILE = 3000, 256
GIVEN, RESULT = memory("T0"), memory("T1", written=True)


def _doubled(
    branches: tuple[Branch, ...], channels: tuple[Channel, ...], added: float = 0
) -> RoleCase:
    """A kernel of z = 2x, or of that and a number."""
    kernel = kernel_of((GIVEN, RESULT), channels, branches)
    a = random(LENGTH, 0)
    return RoleCase(kernel, {"size": LENGTH}, {"T0": a}, {"T1": a * 2 + added})


def _doubling(doubling: Agent, raw: Channel) -> Branch:
    """The threads of a role store twice what a ring brings."""

    def double(index: Expr, place: Expr) -> Statement:
        return Store(RESULT, place, times(element(raw, index), 2))

    return Branch(doubling, _loop((raw,), raw.used(each_element(doubling, TILE, double)), TILE))


def _passing_on(doubling: Agent, raw: Channel, doubled: Channel, *fences: Statement) -> Branch:
    """The threads of a role put twice what one ring brings into another one."""

    def double(index: Expr, place: Expr) -> Statement:
        return Store(doubled.buffer, doubled.at(doubled.fill, index), times(element(raw, index), 2))

    filled = (*fences, ArriveByWarp(doubled.ring.full, doubled.fill.stage))
    body = raw.used(doubled.free(), each_element(doubling, TILE, double), *filled)
    loop = _loop((raw,), (*body, Advance(doubled.fill)), TILE)
    return Branch(doubling, (Begin(doubled.fill), *loop))


def chained() -> RoleCase:
    """z = 2x + 1: one role loads, one doubles into another ring, one adds 1."""
    load = single("load", 0)
    doubling, adding = Agent("double", 4, along(128)), Agent("add", 8, along(128))
    raw = channel("ring0", TILE, 2, load, doubling)
    doubled = channel("ring1", TILE, 2, doubling, adding, full=doubling.group_warps)

    def plus_one(index: Expr, place: Expr) -> Statement:
        one = Const(1.0, DataType.Float)
        return Store(RESULT, place, add(element(doubled, index), one))

    branches = (
        loader(load, raw, GIVEN),
        _passing_on(doubling, raw, doubled),
        Branch(adding, _loop((doubled,), doubled.used(each_element(adding, TILE, plus_one)), TILE)),
    )
    return _doubled(branches, (raw, doubled), 1)


def storing() -> RoleCase:
    """z = 2x: one role loads, one doubles, and one asks the TMA unit to store."""
    load, store = single("load", 0), single("store", 1)
    doubling = Agent("double", 4, along(256))
    raw = channel("ring0", TILE, 2, load, doubling)
    doubled = channel(
        "ring1", TILE, 2, doubling, store, full=doubling.group_warps, empty=integers.ONE
    )
    use = doubled.use
    drain = (
        Await(doubled.ring.full, use.stage, use.phase),
        tile_copy(doubled, use, RESULT, stores=True),
        CommitCopies(bulk=True),
        AwaitCopies(bulk=True),
        Arrive(doubled.empty, use.stage),
        Advance(use),
    )
    branches = (
        loader(load, raw, GIVEN),
        Branch(store, _loop((doubled,), drain, TILE)),
        _passing_on(doubling, raw, doubled, FenceProxy()),
    )
    return _doubled(branches, (raw, doubled))


def copied_by_threads(how: LoadStoreOpType = LoadStoreOpType.set) -> RoleCase:
    """z = 2x, where the threads of the loading role, one warp, copy the tiles themselves."""
    load, doubling = Agent("load", 0, along(32)), Agent("double", 4, along(128))
    raw = channel("ring0", TILE, 3, load, doubling, full=load.group_warps)
    asynchronous = how is LoadStoreOpType.cp_async
    fill = (
        raw.free(),
        tile_copy(raw, raw.fill, GIVEN, how),
        *((CommitCopies(bulk=False), AwaitCopies(bulk=False)) if asynchronous else ()),
        ArriveByWarp(raw.ring.full, raw.fill.stage),
        Advance(raw.fill),
    )
    loading = Branch(load, (Begin(raw.fill), For(STEP, steps(TILE), fill, unroll=False)))
    return _doubled((loading, _doubling(doubling, raw)), (raw,))


def loaded_by_one_of_many() -> RoleCase:
    """z = 2x, where a role of 64 threads loads: all wait for the stage, and one asks for copies."""
    load, doubling = Agent("load", 0, along(64)), Agent("double", 4, along(128))
    raw = channel("ring0", TILE, 3, load, doubling)
    begin, loop = loader(load, raw, GIVEN).body
    assert isinstance(loop, For)
    *asked, advance = loop.body
    loading = Branch(load, (begin, replace(loop, body=(If(ELECTED, tuple(asked)), advance))))
    return _doubled((loading, _doubling(doubling, raw)), (raw,))


CASES: Mapping[str, Callable[[], RoleCase]] = MappingProxyType(
    {
        "streaming": streaming,
        "streaming by tma": lambda: streaming(how=LoadStoreOpType.tma),
        "streaming with registers": lambda: streaming(registers=(40, 232)),
        "streaming, cut short": lambda: streaming(threads=80),
        "streaming, threads of the launch": lambda: streaming(threads=Symbol("threads", low=1)),
        "two groups": turns,
        "two groups of two": lambda: turns(share=2, rounds=1),
        "three groups": lambda: turns(groups=3, rounds=1),
        "chained": chained,
        "storing": storing,
        "loaded by one of many": loaded_by_one_of_many,
        "copied by threads": copied_by_threads,
        "copied by cp.async": lambda: copied_by_threads(how=LoadStoreOpType.cp_async),
    }
)
