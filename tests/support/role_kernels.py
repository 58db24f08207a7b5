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


def chained(*, size: int = 3000, tile: int = 256, stages: int = 2) -> RoleCase:
    """z = 2x + 1: one role loads, one doubles into another ring, one adds 1."""
    load = single("load", 0)
    doubling, adding = Agent("double", 4, along(128)), Agent("add", 8, along(128))
    x, z = memory("T0"), memory("T1", written=True)
    raw = channel("ring0", tile, stages, load, doubling)
    doubled = channel("ring1", tile, stages, doubling, adding, full=doubling.group_warps)

    def double(index: Expr, place: Expr) -> Statement:
        return Store(doubled.buffer, doubled.at(doubled.fill, index), times(element(raw, index), 2))

    def plus_one(index: Expr, place: Expr) -> Statement:
        return Store(z, place, add(element(doubled, index), Const(1.0, DataType.Float)))

    filled = ArriveByWarp(doubled.ring.full, doubled.fill.stage)
    pass_on = raw.used(doubled.free(), each_element(doubling, tile, double), filled)
    branches = (
        loader(load, raw, x),
        Branch(
            doubling,
            (Begin(doubled.fill), *_loop((raw,), (*pass_on, Advance(doubled.fill)), tile)),
        ),
        Branch(adding, _loop((doubled,), doubled.used(each_element(adding, tile, plus_one)), tile)),
    )
    kernel = kernel_of((x, z), (raw, doubled), branches)
    a = random(size, 0)
    return RoleCase(kernel, {"size": size}, {"T0": a}, {"T1": a * 2 + 1})


def storing(*, size: int = 3000, tile: int = 256, stages: int = 2) -> RoleCase:
    """z = 2x: one role loads, one doubles, and one asks the TMA unit to store."""
    load, store = single("load", 0), single("store", 1)
    doubling = Agent("double", 4, along(256))
    x, z = memory("T0"), memory("T1", written=True)
    raw = channel("ring0", tile, stages, load, doubling)
    doubled = channel(
        "ring1", tile, stages, doubling, store, full=doubling.group_warps, empty=integers.ONE
    )

    def double(index: Expr, place: Expr) -> Statement:
        return Store(doubled.buffer, doubled.at(doubled.fill, index), times(element(raw, index), 2))

    filled = (FenceProxy(), ArriveByWarp(doubled.ring.full, doubled.fill.stage))
    pass_on = raw.used(doubled.free(), each_element(doubling, tile, double), *filled)
    use = doubled.use
    drain = (
        Await(doubled.ring.full, use.stage, use.phase),
        tile_copy(doubled, use, z, stores=True),
        CommitCopies(bulk=True),
        AwaitCopies(bulk=True),
        Arrive(doubled.empty, use.stage),
        Advance(use),
    )
    branches = (
        loader(load, raw, x),
        Branch(store, _loop((doubled,), drain, tile)),
        Branch(
            doubling,
            (Begin(doubled.fill), *_loop((raw,), (*pass_on, Advance(doubled.fill)), tile)),
        ),
    )
    kernel = kernel_of((x, z), (raw, doubled), branches)
    a = random(size, 0)
    return RoleCase(kernel, {"size": size}, {"T0": a}, {"T1": a * 2})


def copied_by_threads(
    *,
    size: int = 3000,
    tile: int = 256,
    stages: int = 3,
    how: LoadStoreOpType = LoadStoreOpType.set,
) -> RoleCase:
    """z = 2x, where the threads of the loading role, one warp, copy the tiles themselves."""
    load, doubling = Agent("load", 0, along(32)), Agent("double", 4, along(128))
    x, z = memory("T0"), memory("T1", written=True)
    raw = channel("ring0", tile, stages, load, doubling, full=load.group_warps)

    def double(index: Expr, place: Expr) -> Statement:
        return Store(z, place, times(element(raw, index), 2))

    asynchronous = how is LoadStoreOpType.cp_async
    fill = (
        raw.free(),
        tile_copy(raw, raw.fill, x, how),
        *((CommitCopies(bulk=False), AwaitCopies(bulk=False)) if asynchronous else ()),
        ArriveByWarp(raw.ring.full, raw.fill.stage),
        Advance(raw.fill),
    )
    branches = (
        Branch(load, (Begin(raw.fill), For(STEP, steps(tile), fill, unroll=False))),
        Branch(doubling, _loop((raw,), raw.used(each_element(doubling, tile, double)), tile)),
    )
    kernel = kernel_of((x, z), (raw,), branches)
    a = random(size, 0)
    return RoleCase(kernel, {"size": size}, {"T0": a}, {"T1": a * 2})


def loaded_by_one_of_many(*, size: int = 3000, tile: int = 256, stages: int = 3) -> RoleCase:
    """z = 2x, where a role of 64 threads loads: all wait for the stage, and one asks for copies."""
    load, doubling = Agent("load", 0, along(64)), Agent("double", 4, along(128))
    x, z = memory("T0"), memory("T1", written=True)
    raw = channel("ring0", tile, stages, load, doubling)

    def double(index: Expr, place: Expr) -> Statement:
        return Store(z, place, times(element(raw, index), 2))

    begin, loop = loader(load, raw, x).body
    assert isinstance(loop, For)
    *asked, advance = loop.body
    branches = (
        Branch(load, (begin, replace(loop, body=(If(ELECTED, tuple(asked)), advance)))),
        Branch(doubling, _loop((raw,), raw.used(each_element(doubling, tile, double)), tile)),
    )
    kernel = kernel_of((x, z), (raw,), branches)
    a = random(size, 0)
    return RoleCase(kernel, {"size": size}, {"T0": a}, {"T1": a * 2})


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
