"""Elementwise fusions with circular buffers, scheduled by hand."""

from dataclasses import replace

from tests.support.ring_loads import BLOCK_X, BLOCK_Y, TMA, Kind, Ring, bind_last, split_threads
from warpsmith import FusionDefinition, LoadStoreOpType, MemoryType, ParallelType
from warpsmith.ir.tensor import TensorView

GRID_X = ParallelType.grid_x


def _double(rank: int) -> tuple[FusionDefinition, TensorView, TensorView, TensorView]:
    """A fusion with its input, the doubled value in registers, and the output, a copy of it."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1] * rank, True)
        y = x * 2.0
        fd.add_output(y)
    return fd, x, y.cache_before(), y


def _add(rank: int) -> tuple[FusionDefinition, list[TensorView], TensorView, TensorView]:
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor([-1] * rank, True) for _ in range(2))
        z = x + y
        fd.add_output(z)
    return fd, [x, y], z.cache_before(), z


def _tiles(
    ring: Ring,
    rank: int,
    *splits: tuple[int, int],
    at: int,
    threads: int,
    adjacent: int = 1,
    inner: ParallelType | None = None,
) -> FusionDefinition:
    """A doubled input, of which a tile is what lies inside of loop `at` behind some splits.

    Args:
        splits: (loop, factor), one after the other.
        adjacent: elements that a thread loads side by side.
        inner: what loop `at` is bound to.
    """
    fd, x, work, y = _double(rank)
    load = ring.load(x)
    for loop, factor in splits:
        y.split(loop, factor)
    fd.sched.transform_like(y)
    fd.sched.inline_at(y, at, selected_tensors=[load])
    if inner is not None:
        for tensor in (load, work, y):
            tensor.axis(at).parallelize(inner)
    ring.bind(load, threads, adjacent=adjacent)
    split_threads(threads, work, y)
    fd.sched.inline_most([work])
    return fd


def single_dim_1(ring: Ring) -> FusionDefinition:
    """A tile is one element a thread."""
    return _tiles(ring, 1, (0, 32), at=1, threads=32)


def single_dim_2(ring: Ring) -> FusionDefinition:
    """A tile is three elements a thread, which the readers walk by a loop."""
    return _tiles(ring, 1, (0, 96), at=1, threads=32)


def single_dim_3(ring: Ring) -> FusionDefinition:
    """The loop of the ring is inside another one, and its extent is known; two warps."""
    return _tiles(ring, 1, (0, 64), (0, 4), at=2, threads=64)


def shared_grid(ring: Ring) -> FusionDefinition:
    """Three blocks divide the tiles; some of the last block's lie wholly outside."""
    fd, x, work, y = _double(1)
    load = ring.load(x)
    y.split(0, 64)
    y.outer_split(0, 3)
    fd.sched.transform_like(y)
    for tensor in (load, work, y):
        tensor.axis(0).parallelize(GRID_X)
    fd.sched.inline_at(y, 2, selected_tensors=[load])
    ring.bind(load, 32, adjacent=2)
    split_threads(32, work, y)
    fd.sched.inline_most([work])
    return fd


def vectorize(ring: Ring) -> FusionDefinition:
    """Threads load and store four elements at once, and compute others than they loaded."""
    fd, x, work, y = _double(1)
    load = ring.load(x)
    y.split(0, 256)
    fd.sched.transform_like(y)
    fd.sched.inline_at(y, 1, selected_tensors=[load, work])
    if ring.kind in (Kind.shared, Kind.cp_async):
        load.split(-1, 4)
        load.axis(-1).parallelize(ParallelType.vectorize)
        load.axis(-2).parallelize(BLOCK_X)
    else:
        ring.bind(load, 64)
    work.set_memory_type(load.memory)
    split_threads(64, work)
    y.split(-1, 4)
    y.axis(-1).parallelize(ParallelType.vectorize)
    y.axis(-2).parallelize(BLOCK_X)
    return fd


def vector_loads(ring: Ring) -> FusionDefinition:
    """Threads load four elements at once, which they alone use, and store them so."""
    fd, x, work, y = _double(1)
    load = ring.load(x)
    y.split(0, 128)
    y.split(1, 4)
    fd.sched.transform_like(y)
    fd.sched.inline_at(y, 1, selected_tensors=[load])
    fd.sched.inline_at(y, 2, selected_tensors=[work])
    for tensor in (load, work, y):
        tensor.axis(1).parallelize(BLOCK_X)
    for tensor in (load, y):
        tensor.axis(2).parallelize(ParallelType.vectorize)
    return fd


def vector_reads(ring: Ring) -> FusionDefinition:
    """Two warps read stages four elements at once, into registers."""
    fd, x, work, y = _double(1)
    load = ring.load(x)
    read = load.cache_after()
    y.split(0, 256)
    y.split(1, 4)
    fd.sched.transform_like(y, [read, work])
    load.split(0, 256)
    fd.sched.inline_at(y, 1, selected_tensors=[load])
    ring.bind(load, 64)
    for tensor in (read, work, y):
        tensor.axis(1).parallelize(BLOCK_X)
    for tensor in (read, y):
        tensor.axis(2).parallelize(ParallelType.vectorize)
    fd.sched.inline_at(y, 2, selected_tensors=[read, work])
    return fd


def unroll(ring: Ring) -> FusionDefinition:
    """A stage is filled by four copies, in an unrolled loop."""
    return _tiles(ring, 1, (0, 32), (0, 4), at=1, threads=32, inner=ParallelType.unroll)


def unswitch(ring: Ring) -> FusionDefinition:
    """As `unroll`, on unswitch."""
    return _tiles(ring, 1, (0, 32), (0, 4), at=1, threads=32, inner=ParallelType.unswitch)


def multi_dim(ring: Ring) -> FusionDefinition:
    """Tiles of 4 by 16, along rows; four rows of threads."""
    fd, x, work, y = _double(2)
    load = ring.load(x)
    y.split(1, 16)
    y.split(0, 4)
    y.reorder({1: 2})
    fd.sched.transform_like(y)
    for tensor in (load, work, y):
        tensor.axis(0).parallelize(GRID_X)
    fd.sched.inline_at(y, 2, selected_tensors=[load])
    ring.bind(load, 16, dims=2)
    bind_last(BLOCK_X, work, y)
    by_threads = ring.kind not in (Kind.bulk, Kind.tma)
    for tensor in (work, y, *([load] if by_threads else [])):
        tensor.axis(2).parallelize(BLOCK_Y)
    fd.sched.inline_most([work])
    return fd


def _added(first: Ring, second: Ring, *, names: tuple[str, str] = ("", "")) -> FusionDefinition:
    """Two operands, each through its ring."""
    fd, inputs, work, z = _add(1)
    rings = (first, second)
    loads = [r.load(x, ring=n) for r, x, n in zip(rings, inputs, names, strict=True)]
    z.split(0, 128)
    fd.sched.transform_like(z)
    fd.sched.inline_at(z, 1, selected_tensors=loads)
    for ring, load in zip(rings, loads, strict=True):
        ring.bind(load, 64, adjacent=2)
    split_threads(64, work, z)
    fd.sched.inline_most([work])
    return fd


def one_ring(ring: Ring) -> FusionDefinition:
    """Two tensors share a ring."""
    return _added(ring, ring)


def separate_rings(ring: Ring) -> FusionDefinition:
    """Two tensors have equal rings, of different names."""
    return _added(ring, ring, names=("first", "second"))


def different_rings(ring: Ring) -> FusionDefinition:
    """Two tensors have rings of other lengths, and run ahead by other distances."""
    return _added(ring, replace(ring, stages=3, prefetch=1))


def mixed_kinds(ring: Ring) -> FusionDefinition:
    """The second tensor is loaded in another way than the first."""
    other = Kind.cp_async if ring.kind in (Kind.shared, Kind.registers, Kind.tma) else Kind.shared
    return _added(ring, replace(ring, kind=other))


def nested(ring: Ring) -> FusionDefinition:
    """One operand's ring turns in the outer loop, the other's in the inner one.

    Only the inner one is in registers: both loops written out would make a long text.
    """
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 8], True)
        y = fd.define_tensor([-1, -1, 8], True)
        z = fd.ops.broadcast(x, [True, False, False]) + y
        fd.add_output(z)
    z.cache_before()
    outer = replace(ring, kind=Kind.shared) if ring.kind is Kind.registers else ring
    loads = [outer.load(x), ring.load(y)]
    z.merge(1)
    z.split(1, 64)
    z.reorder({0: 1})
    fd.sched.transform_like(z)
    fd.sched.inline_at(z, 1, selected_tensors=[loads[0]])
    fd.sched.inline_at(z, 2, selected_tensors=[loads[1]])
    for load, its in zip(loads, (outer, ring), strict=True):
        its.bind(load, 32, adjacent=2)
    rest = [t for t in fd.fusion.tensors if not t.is_input and t not in loads]
    split_threads(32, *rest)
    fd.sched.inline_most([t for t in rest if t is not z])
    return fd


def outer_loop(ring: Ring) -> FusionDefinition:
    """A loop over rows surrounds the ring's, which starts anew wherever its stages are."""
    return _tiles(ring, 2, (1, 128), at=2, threads=64, adjacent=2)


def merged_loops(ring: Ring) -> FusionDefinition:
    """One loop walks the tiles of all rows."""
    fd, x, work, y = _double(2)
    load = ring.load(x)
    y.split(1, 64)
    y.merge(0)
    fd.sched.transform_like(y)
    fd.sched.inline_at(y, 1, selected_tensors=[load])
    ring.bind(load, 32, adjacent=2)
    split_threads(32, work, y)
    fd.sched.inline_most([work])
    return fd


def pointwise(ring: Ring) -> FusionDefinition:
    """A block a row, which two rings walk under one set of barriers."""
    fd, inputs, work, z = _add(2)
    loads = [ring.load(x) for x in inputs]
    z.split(1, 64)
    fd.sched.transform_like(z)
    for tensor in (*loads, work, z):
        tensor.axis(0).parallelize(GRID_X)
    fd.sched.inline_at(z, 2, selected_tensors=loads)
    for load in loads:
        ring.bind(load, 32, adjacent=2)
    split_threads(32, work, z)
    fd.sched.inline_most([work])
    return fd


def store_ring(ring: Ring) -> FusionDefinition:
    """What stages brought goes, doubled, through other stages, which the TMA unit stores."""
    fd, x, work, y = _double(1)
    load = ring.load(x)
    y.split(0, 128)
    fd.sched.transform_like(y)
    fd.sched.inline_at(y, 1, selected_tensors=[load, work])
    ring.bind(load, 64, adjacent=2)
    split_threads(64, work)
    work.set_memory_type(MemoryType.shared)
    y.set_load_store_op(LoadStoreOpType.tma)
    bind_last(TMA, y)
    work.circular_buffer(ring.stages, ring.prefetch)
    return fd
