"""Loads of tiles by the TMA unit: boxes by tensor map, ahead and at once, and what threads load."""

import re

import numpy as np
import pytest

from tests.support.lowering import lowered
from tests.support.tiling import (
    DTYPES,
    Tiling,
    bind_tile,
    doubled,
    loaded,
    loading,
    random_array,
    rarely,
    text_of,
)
from warpsmith import DataType, FusionDefinition, LoadStoreOpType, ParallelType

TMA, BULK = LoadStoreOpType.tma, LoadStoreOpType.bulk
BOXES = [
    (Tiling((64,)), (200,)),
    (Tiling((8, 16)), (20, 40)),
    (Tiling((2, 4, 8)), (5, 9, 20)),
    (Tiling((2, 2, 3, 4)), (3, 3, 5, 8)),
    (Tiling((2, 1, 2, 2, 4)), (3, 2, 3, 3, 8)),
]


# --- boxes by tensor map -------------------------------------------------------------------------


@pytest.mark.parametrize("stages", [rarely(0), rarely(2), 3])
@pytest.mark.parametrize(("tiling", "shape"), BOXES)
def test_boxes_of_one_to_five_dimensions_with_partial_tiles_at_every_edge(
    tiling: Tiling, shape: tuple[int, ...], stages: int
) -> None:
    fd = loading(tiling, stages=stages)
    doubled(fd, random_array(shape))
    assert len(lowered(fd).tensor_maps[0].box) == tiling.rank


@pytest.mark.parametrize(("tiling", "shape"), BOXES)
def test_a_partial_tile_counts_the_bytes_of_a_whole_one(
    tiling: Tiling, shape: tuple[int, ...]
) -> None:
    text = text_of(loading(tiling, stages=2))
    whole = 4 * int(np.prod(tiling.box))
    amounts = re.findall(r"ws_barrier_arrive_expect\(.*, (.*), elected_lane\);", text)
    assert set(amounts) == {str(whole)}


@pytest.mark.few(8)
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 30])
@pytest.mark.parametrize("columns", [4, 16, 20])
def test_blocks_of_the_grid_load_their_own_rows(rows: int, columns: int) -> None:
    doubled(loading(Tiling((8, 16), grid=True), stages=2), random_array((rows, columns)))


@pytest.mark.parametrize("threads", [rarely(8), 40, 64, rarely(100)])
def test_blocks_of_any_number_of_threads_wait_and_release(threads: int) -> None:
    doubled(loading(Tiling((8, 32), threads=threads), stages=3), random_array((20, 100)))


@pytest.mark.parametrize("prefetch", [rarely(0), 1, rarely(2)])
def test_a_shorter_prefetch_leaves_stages_to_the_readers(prefetch: int) -> None:
    doubled(loading(Tiling((8, 16)), stages=3, prefetch=prefetch), random_array((20, 80)))


@pytest.mark.parametrize("inline", [0, 1])
@pytest.mark.parametrize("stages", [rarely(0), 2])
def test_a_stage_takes_several_copies(inline: int, stages: int) -> None:
    fd = loading(Tiling((8, 16)), stages=stages if inline else 0, inline=inline, shape=[20, 40])
    doubled(fd, random_array((20, 40)))
    number = 3 if inline else 9
    assert f", {number * 8 * 16 * 4}, elected_lane);" in text_of(fd)


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_types_are_loaded(dtype: DataType) -> None:
    fd = loading(Tiling((8, 16)), stages=2, dtype=dtype)
    doubled(fd, random_array((20, 48), dtype))
    assert lowered(fd).tensor_maps[0].dtype is dtype


def test_rows_may_lie_further_apart_than_they_are_long() -> None:
    fd = loading(Tiling((8, 16)), stages=2, contiguity=[False, True])
    doubled(fd, random_array((20, 64))[:, :40])


@pytest.mark.parametrize(
    ("tiling", "order", "place"),
    [
        (Tiling((8, 16)), [0, 1], (1, 0)),
        rarely(Tiling((2, 4, 8)), [1, 2, 0], (1, 0, 2)),
        (Tiling((4, 2, 8)), [0, 2, 1], (1, 2, 0)),
    ],
)
def test_tiles_lie_in_shared_memory_as_in_memory(
    tiling: Tiling, order: list[int], place: tuple[int, ...]
) -> None:
    """`place` lists the dimensions from the slowest in memory to the fastest."""
    shape = [12, 20, 16][: tiling.rank]
    in_memory = random_array([shape[d] for d in place])
    doubled(loading(tiling, stages=2, stride_order=order), in_memory.transpose(np.argsort(place)))


@pytest.mark.parametrize("box", [rarely((1, 1, 2, 1, 2, 8)), (1, 1, 1, 2, 1, 2, 8)])
def test_more_than_five_dimensions_are_joined_where_they_are_contiguous(
    box: tuple[int, ...],
) -> None:
    fd = loading(Tiling(box), stages=2)
    doubled(fd, random_array((2, 2, 3, 4, 2, 5, 16)[-len(box) :]))
    assert len(lowered(fd).tensor_maps[0].box) == 5


def test_a_broadcast_dimension_is_none_of_the_box() -> None:
    fd = loading(Tiling((8, 1, 16)), stages=2, shape=[-1, 1, -1])
    doubled(fd, random_array((20, 1, 48)))
    assert lowered(fd).tensor_maps[0].box == (16, 8)


def merged(carrier: LoadStoreOpType, shape: list[int]) -> FusionDefinition:
    """Tiles of 64 elements of three merged dimensions."""
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape, True)
        y = fd.ops.add(x, x)
        fd.add_output(y)
        copy, between = loaded(x, carrier), y.cache_before()
        y.merge(0)
        y.merge(0)
        y.split(0, 64)
        fd.sched.transform_like(y)
        fd.sched.inline_at(y, 1, selected_tensors=[copy])
        copy.axis(-1).parallelize(ParallelType.tma)
        for tensor in (y, between):
            tensor.split(1, 32)
            tensor.axis(2).parallelize(ParallelType.block_x)
        copy.circular_buffer(2)
        fd.sched.inline_most([between])
    return fd


@pytest.mark.parametrize("carrier", [TMA, BULK])
@pytest.mark.parametrize("shape", [[-1, -1, -1], rarely([3, 7, 20])])
def test_merged_contiguous_dimensions_are_one(carrier: LoadStoreOpType, shape: list[int]) -> None:
    doubled(merged(carrier, shape), random_array((3, 7, 20)))


def stepped(rows: int, parts: int) -> FusionDefinition:
    """Tiles take every so many-th row: `rows` are split into `parts` that lie together."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([rows, -1], True)
        y = fd.ops.add(x, x)
        fd.add_output(y)
        copy, between = loaded(x, TMA), y.cache_before()
        y.split(1, 16)
        y.split(0, parts, inner_split=False)
        y.reorder({0: 2, 1: 0, 2: 1})
        fd.sched.transform_like(y)
        fd.sched.inline_at(y, 2, selected_tensors=[copy])
        bind_tile(copy, range(2))
        for tensor in (y, between):
            tensor.merge(2)
            tensor.split(2, 32)
            tensor.axis(3).parallelize(ParallelType.block_x)
        copy.circular_buffer(2)
        fd.sched.inline_most([between])
    return fd


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        (26, 4),
        rarely(24, 4),
        rarely(24, 12),
        rarely(23, 4),
        rarely(32, 4),
        rarely(72, 9),
    ],
)
def test_a_box_takes_every_so_many_th_row(rows: int, parts: int) -> None:
    fd = stepped(rows, parts)
    doubled(fd, random_array((rows, 40)))
    assert lowered(fd).tensor_maps[0].steps == (1, -(-rows // parts))


@pytest.mark.parametrize("stages", [rarely(0), 3])
@pytest.mark.parametrize("vector", [rarely(1), rarely(2), 4])
@pytest.mark.parametrize(("swizzle", "columns"), [(32, 8), (64, 16), (128, 32)])
def test_swizzled_tiles_are_read_where_their_chunks_went(
    swizzle: int, columns: int, vector: int, stages: int
) -> None:
    fd = loading(Tiling((8, columns), vector=vector), stages=stages, swizzle=swizzle)
    doubled(fd, random_array((20, 3 * columns + 4)))
    assert lowered(fd).tensor_maps[0].swizzle == swizzle


@pytest.mark.parametrize(
    ("dtype", "vector"),
    [(DataType.Half, 8), (DataType.Bool, 1), (DataType.Double, 2)],
)
@pytest.mark.parametrize("swizzle", [rarely(32), rarely(64), 128])
def test_swizzles_permute_bytes_not_elements(swizzle: int, dtype: DataType, vector: int) -> None:
    columns = swizzle // dtype.size
    fd = loading(Tiling((2, 4, columns), vector=vector), stages=2, swizzle=swizzle, dtype=dtype)
    doubled(fd, random_array((5, 6, 3 * columns + 16), dtype))


# --- left to the threads -------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [rarely(39), 40, 41, rarely(42)])
@pytest.mark.parametrize("carrier", [TMA, BULK])
def test_rows_that_start_between_multiples_of_sixteen_bytes_are_loaded_all_the_same(
    carrier: LoadStoreOpType, columns: int
) -> None:
    box = (8, 16) if carrier is TMA else (1, 16)
    doubled(loading(Tiling(box), carrier, stages=2), random_array((20, columns)))


@pytest.mark.parametrize("dtype", [rarely(DataType.Double), DataType.Half, rarely(DataType.Bool)])
@pytest.mark.parametrize("columns", [33, 34, rarely(36), 40])
def test_threads_load_as_many_bytes_at_once_as_all_rows_allow(
    columns: int, dtype: DataType
) -> None:
    doubled(loading(Tiling((8, 16)), stages=2, dtype=dtype), random_array((20, columns), dtype))


@pytest.mark.parametrize("first", [rarely(1), 2])
@pytest.mark.parametrize("carrier", [TMA, BULK])
def test_what_starts_between_multiples_of_sixteen_bytes_is_loaded_all_the_same(
    carrier: LoadStoreOpType, first: int
) -> None:
    box = (8, 16) if carrier is TMA else (1, 16)
    x = random_array((20 * 40 + 4,))[first : first + 800].reshape(20, 40)
    doubled(loading(Tiling(box), carrier, stages=2), x)


def test_threads_fill_a_stage_with_several_tiles() -> None:
    doubled(loading(Tiling((8, 16)), stages=2, inline=1, shape=[20, 41]), random_array((20, 41)))


@pytest.mark.parametrize("carrier", [TMA, BULK])
def test_neighbours_that_are_not_adjacent_are_loaded_by_the_threads(
    carrier: LoadStoreOpType,
) -> None:
    fd = loading(Tiling((16,)), carrier, stages=2, contiguity=False)
    doubled(fd, random_array((80,))[::2])
    assert lowered(fd).left_to_threads


@pytest.mark.parametrize("swizzle", [rarely(32), rarely(64), 128])
def test_threads_permute_chunks_as_the_tma_unit_does(swizzle: int) -> None:
    columns = swizzle // 4
    fd = loading(Tiling((8, columns)), stages=2, swizzle=swizzle)
    x = random_array((20, 3 * columns + 1))
    doubled(fd, x)
