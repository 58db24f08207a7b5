"""Kernels with roles of the size and shape that the check meets every day."""

from __future__ import annotations

from dataclasses import replace

from tests.support.role_kernels import RoleCase, along, times
from tests.support.role_parts import (
    STEP,
    Body,
    Channel,
    channel,
    each_element,
    element,
    kernel_of,
    loader,
    local,
    memory,
    single,
    steps,
    thread,
    tile_copy,
)
from tests.support.summing import FLOAT_SUM, added
from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.nodes import Buffer, Element, For, Store
from warpsmith.kernel.reductions import Accumulate, Reduce
from warpsmith.kernel.rings import (
    Advance,
    Arrive,
    ArriveByWarp,
    Await,
    AwaitCopies,
    Begin,
    CommitCopies,
    Expect,
    FenceProxy,
)


def fed_by(producers: int, *, stages: int = 3, size: int = 6000) -> RoleCase:
    """So many load roles, a tensor each, and one role that adds up what they bring."""
    roles = [single(f"load{n}", n) for n in range(producers)]
    first = -(-producers // 4) * 4
    adding = Agent("add", first, along(128))
    inputs = [memory(f"T{n}") for n in range(producers)]
    z = memory(f"T{producers}", written=True)
    rings = [channel(f"ring{n}", 256, stages + n, agent, adding) for n, agent in enumerate(roles)]

    def add(index: Expr, place: Expr) -> Store:
        total: Expr = element(rings[0], index)
        for ring in rings[1:]:
            total = Apply("add", (total, element(ring, index)), DataType.Float)
        return Store(z, place, total)

    body: Body = (each_element(adding, 256, add),)
    for ring in rings:
        body = ring.used(*body)
    begins = tuple(Begin(ring.use) for ring in rings)
    branches = [loader(*each) for each in zip(roles, rings, inputs, strict=True)]
    branches.append(Branch(adding, (*begins, For(STEP, steps(256), body, unroll=False))))
    kernel = kernel_of((*inputs, z), tuple(rings), tuple(branches))
    return RoleCase(kernel, {"size": size}, {}, {})


def norm(rows: int = 60, columns: int = 4096) -> RoleCase:
    """Rows are loaded, reduced and scaled by 256 threads, and stored, by a role each."""
    load, store = single("load", 0), single("store", 1)
    computing = Agent("compute", 4, along(256), barrier=1)
    x, z = memory("T0"), memory("T1", written=True)
    raw = channel("ring0", columns, 4, load, computing)
    made = channel(
        "ring1", columns, 2, computing, store, full=computing.group_warps, empty=integers.ONE
    )
    total = local("total")
    scratch = Buffer("scratch", DataType.Float, MemoryType.shared, Const(8))

    def add(index: Expr, place: Expr) -> Accumulate:
        return added(total, integers.ZERO, element(raw, index))

    def scale(index: Expr, place: Expr) -> Store:
        sum_ = Element(total, integers.ZERO)
        value = Apply("mul", (element(raw, index), sum_), DataType.Float)
        return Store(made.buffer, made.at(made.fill, index), value)

    body = raw.used(
        each_element(computing, columns, add),
        Reduce(FLOAT_SUM, (total,), integers.ZERO, 1, (ParallelType.block_x,), scratch),
        made.free(),
        each_element(computing, columns, scale),
        FenceProxy(),
        ArriveByWarp(made.ring.full, made.fill.stage),
    )
    branches = (
        loader(load, raw, x),
        _stores(store, made, z),
        Branch(
            computing,
            (
                Begin(raw.use),
                Begin(made.fill),
                For(STEP, steps(columns), (*body, Advance(made.fill)), unroll=False),
            ),
        ),
    )
    kernel = kernel_of((x, z), (raw, made), branches, scratch=(scratch,))
    return RoleCase(kernel, {"size": 2 * rows * columns}, {}, {})


def _stores(agent: Agent, ring: Channel, tensor: Buffer) -> Branch:
    """A role of one thread that stores every stage."""
    use = ring.use
    drain = (
        Await(ring.ring.full, use.stage, use.phase),
        tile_copy(ring, use, tensor, stores=True),
        CommitCopies(bulk=True),
        AwaitCopies(bulk=True),
        Arrive(ring.empty, use.stage),
        Advance(use),
    )
    return Branch(agent, (Begin(use), For(STEP, steps(ring.tile), drain, unroll=False)))


def matmul(tiles: int = 16, depth: int = 128) -> RoleCase:
    """Tiles of a product: one role loads, two groups of 128 threads take tiles in turn, one stores.

    Each group has rings of its own for operands and results. Loads of both groups' tiles alternate
    step by step, as the groups run side by side.
    """
    load, store = single("load", 0), single("store", 1)
    groups = [Agent(f"compute{n}", 4 + 4 * n, along(128)) for n in (0, 1)]
    x, z = memory("T0"), memory("T1", written=True)
    fed = [channel(f"ring{n}", 1024, 4, load, agent) for n, agent in enumerate(groups)]
    made = [
        channel(f"ring{2 + n}", 512, 2, r, store, full=r.group_warps, empty=integers.ONE)
        for n, r in enumerate(groups)
    ]
    tile, step = Symbol("tile", low=0), STEP
    turns = Const(tiles // 2)
    fills: Body = ()
    for ring in fed:
        copy = tile_copy(ring, ring.fill, x, LoadStoreOpType.tma)
        fills = (
            *fills,
            ring.free(),
            FenceProxy(),
            Expect(ring.ring.full, ring.fill.stage, copy.bytes),
            copy,
            Advance(ring.fill),
        )
    loads = For(tile, turns, (For(step, Const(depth), fills, unroll=False),), unroll=False)
    begins = tuple(Begin(ring.fill) for ring in fed)
    branches = [Branch(load, (*begins, loads))]
    stores: Body = ()
    for ring in made:
        use = ring.use
        stores = (
            *stores,
            Await(ring.ring.full, use.stage, use.phase),
            replace(tile_copy(ring, use, z, stores=True), inside=Const(512)),
            CommitCopies(bulk=True),
            AwaitCopies(bulk=True),
            Arrive(ring.empty, use.stage),
            Advance(use),
        )
    uses = tuple(Begin(ring.use) for ring in made)
    branches.append(Branch(store, (*uses, For(tile, turns, stores, unroll=False))))
    for agent, source, target in zip(groups, fed, made, strict=True):
        total = local("total")
        item = element(source, thread("x", agent))
        work = source.used(added(total, integers.ZERO, item))
        value = times(Element(total, integers.ZERO), 2)
        index = target.at(target.fill, thread("x", agent))
        finish = (
            target.free(),
            Store(target.buffer, index, value),
            FenceProxy(),
            ArriveByWarp(target.ring.full, target.fill.stage),
            Advance(target.fill),
        )
        inner = For(step, Const(depth), work, unroll=False)
        body = (Begin(source.use), Begin(target.fill))
        branches.append(Branch(agent, (*body, For(tile, turns, (inner, *finish), unroll=False))))
    kernel = kernel_of((x, z), (*fed, *made), tuple(branches))
    return RoleCase(kernel, {"size": 1 << 24}, {}, {})
