"""Pieces of kernels with roles, written by hand: rings, loads, and work on what a stage holds."""

from collections.abc import Callable
from dataclasses import dataclass

from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.kernel.agents import Agent, Branch, Kind
from warpsmith.kernel.kernel import Kernel, Launch
from warpsmith.kernel.nodes import Buffer, Element, For, If, Statement, Synchronize
from warpsmith.kernel.pipelines import By, Content, Groups, Pipeline
from warpsmith.kernel.rings import (
    Advance,
    ArriveByWarp,
    Await,
    Begin,
    Cursor,
    Expect,
    FenceProxy,
    InitBarriers,
    TileCopy,
)
from warpsmith.kernel.tiles import TileDim
from warpsmith.lower.passes.collect_maps import collect_maps
from warpsmith.lower.passes.lay_out_shared import lay_out_shared
from warpsmith.targets.family import WARP, WARP_GROUP

Body = tuple[Statement, ...]

BLOCKS = 2
SIZE = Symbol("size", low=0)
GRID_X = Symbol("grid_x", low=0, extent=Const(BLOCKS))
STEP = Symbol("i0", low=0)


@dataclass(frozen=True)
class Channel:
    """A ring of one buffer: its stages are `tile` elements of 32-bit floats each."""

    ring: Pipeline
    buffer: Buffer
    tile: int
    arrivals: tuple[Expr, Expr]

    @property
    def fill(self) -> Cursor:
        return Cursor(f"{self.ring.name}_fill", self.ring.stages)

    @property
    def use(self) -> Cursor:
        return Cursor(f"{self.ring.name}_use", self.ring.stages)

    @property
    def empty(self) -> Buffer:
        assert self.ring.empty is not None
        return self.ring.empty

    def at(self, cursor: Cursor, index: Expr | int = 0) -> Expr:
        """Index in the buffer of an element of the cursor's stage."""
        return integers.add(integers.mul(cursor.stage, self.tile), index)

    def used(self, *statements: Statement) -> Body:
        """What a consumer of many threads does with one stage."""
        cursor = self.use
        return (
            Await(self.ring.full, cursor.stage, cursor.phase),
            *statements,
            ArriveByWarp(self.empty, cursor.stage),
            Advance(cursor),
        )

    def free(self) -> Await:
        """A producer's wait for its next stage."""
        return Await(self.empty, self.fill.stage, integers.sub(1, self.fill.phase))


def channel(
    name: str,
    tile: int,
    stages: int,
    producer: Agent,
    consumer: Agent,
    *,
    full: Expr = integers.ONE,
    empty: Expr | None = None,
    share: int = 1,
) -> Channel:
    """A ring from `producer` to `consumer`; `empty` arrivals are those of one group's warps."""
    groups = consumer.groups
    size = Const(stages * tile)
    buffer = Buffer(
        f"{name}_tile", DataType.Float, MemoryType.shared, size, guarded=True, alignment=128
    )
    ring = Pipeline(
        name=name,
        stages=stages,
        contents=(Content(buffer, tile),),
        by=By.TMA,
        producer=producer.name,
        consumers=(consumer.name,),
        groups=Groups(groups, Const(share), (consumer.name,)),
    )
    return Channel(ring, buffer, tile, (full, consumer.group_warps if empty is None else empty))


def barrier(name: str, stages: int) -> Buffer:
    return Buffer(name, DataType.Int, MemoryType.shared, Const(stages), guarded=True)


def memory(name: str, size: Expr = SIZE, *, written: bool = False) -> Buffer:
    """A tensor of floats in global memory."""
    return Buffer(name, DataType.Float, MemoryType.global_, size, written)


def local(name: str, size: int = 1) -> Buffer:
    return Buffer(name, DataType.Float, MemoryType.local, Const(size))


def thread(axis: str, agent: Agent) -> Expr:
    """Index of a thread of the role along x, y or z."""
    extent = agent.block["xyz".index(axis)]
    if extent == integers.ONE:
        return integers.ZERO
    return Symbol(f"block_{axis}", low=0, extent=extent)


def single(name: str, warp: int, registers: int | None = None) -> Agent:
    one = integers.ONE
    return Agent(name, warp, (one, one, one), elected=True, registers=registers, kind=Kind.COPY)


def tile_start(step: Expr, tile: int) -> Expr:
    """First element of this block's tile number `step`: blocks take tiles in turn."""
    return integers.mul(integers.add(integers.mul(step, BLOCKS), GRID_X), tile)


def steps(tile: int) -> Expr:
    """Tiles of this block, where there are at least as many as blocks."""
    tiles = integers.ceildiv(SIZE, tile)
    return integers.ceildiv(integers.sub(tiles, GRID_X), BLOCKS)


def tile_copy(
    to: Channel,
    cursor: Cursor,
    tensor: Buffer,
    how: LoadStoreOpType = LoadStoreOpType.bulk,
    *,
    stores: bool = False,
) -> TileCopy:
    """Tile number `STEP` of a tensor to or from the cursor's stage."""
    first = tile_start(STEP, to.tile)
    return TileCopy(
        shared=to.buffer,
        index=to.at(cursor),
        memory=tensor,
        dims=(TileDim(to.tile, first, SIZE, integers.ONE),),
        inside=integers.minimum(integers.sub(SIZE, first), to.tile),
        condition=integers.TRUE,
        how=how,
        stores=stores,
        barrier=(to.ring.full, cursor.stage) if how.is_tma and not stores else None,
    )


def loader(
    agent: Agent, to: Channel, tensor: Buffer, how: LoadStoreOpType = LoadStoreOpType.bulk
) -> Branch:
    """A role of one thread that asks the TMA unit for every tile of this block."""
    copy = tile_copy(to, to.fill, tensor, how)
    fill = (
        to.free(),
        FenceProxy(),
        Expect(to.ring.full, to.fill.stage, copy.bytes),
        copy,
        Advance(to.fill),
    )
    return Branch(agent, (Begin(to.fill), For(STEP, steps(to.tile), fill, unroll=False)))


def each_element(
    agent: Agent, tile: int, work: Callable[[Expr, Expr], Statement], step: Expr = STEP
) -> For:
    """`work(i, place)` for every element `i` of a tile that lies inside, at `place` in memory.

    The group's threads, all along x, take elements in turn.
    """
    lane = Symbol("i1", low=0)
    threads = agent.group_block[0]
    index = integers.add(integers.mul(lane, threads), thread("x", agent))
    place = integers.add(tile_start(step, tile), index)
    inside = integers.conjunction(integers.less(index, tile), integers.less(place, SIZE))
    count = integers.ceildiv(tile, threads)
    body = If(inside, (work(index, place),))
    return For(lane, count, (body,), unroll=integers.constant(count) is not None)


def element(of: Channel, index: Expr) -> Element:
    """An element of the stage that is used."""
    return Element(of.buffer, of.at(of.use, index))


def kernel_of(
    parameters: tuple[Buffer, ...],
    channels: tuple[Channel, ...],
    branches: tuple[Branch, ...],
    *,
    scratch: tuple[Buffer, ...] = (),
    scalars: tuple[Symbol, ...] = (SIZE,),
    blocks_per_sm: int = 0,
) -> Kernel:
    """A kernel of these roles, whose barriers are initialized first."""
    arrivals = tuple(
        pair
        for each in channels
        for pair in ((each.ring.full, each.arrivals[0]), (each.empty, each.arrivals[1]))
    )
    shared = tuple(b for each in channels for b in (each.buffer, each.ring.full, each.empty))
    one = integers.ONE
    return collect_maps(
        lay_out_shared(
            Kernel(
                name="k",
                parameters=parameters,
                scalars=scalars,
                shared=(*shared, *scratch),
                body=(InitBarriers(arrivals), Synchronize("barriers are ready"), *branches),
                launch=Launch(
                    (Const(BLOCKS), one, one),
                    (block_threads(tuple(branch.agent for branch in branches)), one, one),
                    blocks_per_sm,
                ),
                index_type=DataType.Int32,
                pipelines=tuple(each.ring for each in channels),
            )
        )
    )


def block_threads(roles: tuple[Agent, ...]) -> Expr:
    """Threads of a block: single warps are padded to warp groups, many threads are not."""
    last = max(roles, key=lambda agent: agent.first_warp)
    if last.elected:
        return Const(-(-(last.first_warp + 1) // WARP_GROUP) * WARP_GROUP * WARP)
    return integers.add(last.first_warp * WARP, last.threads)
