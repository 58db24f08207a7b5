"""Streaming with warp specialization: what each number of roles, and each depth, gives.

The kernel is `a + b + c` by hand: blocks loop over tiles that the TMA unit loads, and all
schedules differ only in who asks for the copies, who stores, and how many stages there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from bench import pointwise
from bench.problem import Builder, Problem, Tensors, planned

SUITE = "roles"
SMS = 132
SIZES = ((8192, 8192), (16384, 16384), (2048, 4096))


@dataclass(frozen=True, slots=True)
class Streaming:
    """One schedule.

    Attributes:
        producers: roles that load, 0 for none: then the warps that compute ask for the copies.
        store: a role of its own stores, by TMA.
        stages: stages of each input.
        threads: that compute; each has `unroll` vectors of 16 bytes of a tile.
        blocks: of a multiprocessor.
    """

    producers: int
    stages: int
    store: bool = False
    threads: int = 256
    unroll: int = 2
    blocks: int = 4

    @property
    def name(self) -> str:
        """`3 load, store, 4 stages`, or `ring, 4 stages`."""
        who = f"{self.producers} load" if self.producers else "ring"
        return f"{who}{', store' if self.store else ''}, {self.stages} stages"


SCHEDULES = tuple(
    Streaming(producers, stages, store)
    for producers, store in ((0, False), (1, False), (3, False), (1, True), (3, True))
    for stages in (2, 3, 4, 6)
)


def problems(*, quick: bool) -> Iterator[Problem]:
    """Sums of three tensors that do not fit into the L2."""
    wanted = SIZES[:1] if quick else SIZES
    for problem in pointwise.problems(quick=False):
        if problem.name == "add3" and problem.shape in wanted and problem.dtype == "bfloat16":
            yield replace(problem, suite=SUITE)


def choices(problem: Problem) -> dict[str, Builder]:
    """A builder for each schedule, and for the automatic one."""
    chosen = {schedule.name: _builder(schedule) for schedule in SCHEDULES}
    return {"warpsmith": planned(problem), **chosen}


def _builder(schedule: Streaming) -> Builder:
    def build(inputs: Tensors) -> Callable[[], Any]:
        from warpsmith.engine.executable import Executable

        fusion = streaming(schedule).fusion
        ready = Executable(fusion, scheduled=True).prepared(inputs)
        return lambda: ready(inputs)

    return build


def streaming(schedule: Streaming, dtype: Any = None, inputs: int = 3) -> Any:
    """The fusion with its schedule; sizes are left to the calls.

    Args:
        dtype: of the tensors, a `DataType`; bfloat16 if absent.
    """
    from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType

    kind = DataType.BFloat16 if dtype is None else dtype
    vector = 16 // kind.size
    with FusionDefinition() as fd:
        sources: list[Any] = [fd.define_tensor([-1, -1], True, kind) for _ in range(inputs)]
        total = sources[0]
        for source in sources[1:]:
            total = fd.ops.add(total, source)
        out = fd.ops.cast(total, kind) if total.dtype is not kind else total
        fd.add_output(out)
        fd.fusion.blocks_per_sm = schedule.blocks
        tiles = [s.cache_after(op_type=LoadStoreOpType.bulk) for s in sources]
        registers = [tile.cache_after() for tile in tiles]
        result = out.cache_before()
        stored = result.cache_after() if schedule.store else out
        if schedule.store:
            out.set_load_store_op(LoadStoreOpType.bulk)
        out.merge(0)
        out.split(0, schedule.threads * schedule.unroll * vector)
        out.split(0, SMS * schedule.blocks)
        out.axis(1).parallelize(ParallelType.grid_x)
        fd.sched.transform_like(out)
        fd.sched.parallelize_like(out)
        moved = [*tiles, *([out] if schedule.store else [])]
        for tensor in moved:
            tensor.axis(-1).parallelize(ParallelType.tma)
        stored.split(-1, vector)
        stored.split(-2, schedule.threads)
        stored.axis(-3).parallelize(ParallelType.unroll)
        stored.axis(-2).parallelize(ParallelType.block_x)
        apart = {*map(id, moved), id(stored)}
        rest = [t for t in fd.fusion.computed if id(t) not in apart]
        fd.sched.transform_like(stored, rest)
        fd.sched.parallelize_like(stored, selected_tensors=rest)
        for tensor in (*registers, stored):
            tensor.axis(-1).parallelize(ParallelType.vectorize)
        for tile in tiles:
            tile.set_memory_type(MemoryType.shared)
        if schedule.store:
            stored.set_memory_type(MemoryType.shared)
            stored.circular_buffer(2)
            out.set_role("store")
        fd.sched.inline_at(out, 2, selected_tensors=tiles)
        loaded = {id(tile) for tile in tiles} | ({id(stored)} if schedule.store else set())
        fd.sched.inline_most([t for t in fd.fusion.computed if id(t) not in loaded])
        for number, tile in enumerate(tiles):
            role = f"load{number % schedule.producers}" if schedule.producers else ""
            tile.circular_buffer(schedule.stages, role=role)
    return fd
