"""Stores of tiles from shared memory by the TMA unit: from one stage and from several."""

import re

import numpy as np
import pytest

from tests.support.lowering import lowered
from tests.support.tiling import (
    DTYPES,
    Tiling,
    check_exact,
    random_array,
    rarely,
    run_clean,
    storing,
    text_of,
)
from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType

TMA, BULK = LoadStoreOpType.tma, LoadStoreOpType.bulk


def one_more(fd: FusionDefinition, x: np.ndarray) -> None:
    """Output number k is `x + k + 1`."""
    for k, y in enumerate(run_clean(fd, [x])):
        expected = x.astype(np.float64) + k + 1
        check_exact(y, expected != 0 if y.dtype == np.bool_ else expected)


@pytest.mark.few(6)
@pytest.mark.parametrize("stages", [rarely(0), rarely(2), 3, rarely(4)])
@pytest.mark.parametrize("load", [None, TMA])
@pytest.mark.parametrize(
    ("tiling", "shape"),
    [
        (Tiling((64,)), (300,)),
        (Tiling((8, 16)), (20, 40)),
        (Tiling((8, 16), grid=True), (20, 72)),
        (Tiling((8, 16), threads=64), (33, 64)),
        (Tiling((2, 4, 8)), (5, 6, 20)),
    ],
)
def test_boxes_are_stored_while_the_next_is_made(
    tiling: Tiling, shape: tuple[int, ...], load: LoadStoreOpType | None, stages: int
) -> None:
    """Loads by TMA, where there are any, run ahead in the same loop."""
    fd = storing(tiling, stages=stages, load=load, load_stages=stages if load else 0)
    one_more(fd, random_array(shape))
    assert "ws_tensor_store" in text_of(fd)


@pytest.mark.parametrize(
    ("tiling", "shape"),
    [(Tiling((2, 2, 3, 4)), (3, 3, 5, 8)), (Tiling((2, 1, 2, 2, 4)), (3, 2, 3, 3, 8))],
)
@pytest.mark.parametrize("stages", [rarely(0), 2])
def test_boxes_have_up_to_five_dimensions(
    tiling: Tiling, shape: tuple[int, ...], stages: int
) -> None:
    fd = storing(tiling, stages=stages)
    one_more(fd, random_array(shape))
    assert len(lowered(fd).tensor_maps[0].box) == tiling.rank


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_so_many_stores_stay_open_that_the_next_stage_is_free(stages: int) -> None:
    """Before threads write a stage again, its last store is done: all but `stages - 2` are."""
    text = text_of(storing(Tiling((8, 16)), stages=stages))
    assert re.findall(r"ws_bulk_wait<(\d+)>", text) == [str(stages - 2), "0"]


@pytest.mark.parametrize("stages", [0, 2, 3])
@pytest.mark.parametrize("load", [rarely(None), TMA])
@pytest.mark.parametrize("outputs", [2, rarely(3)])
def test_several_outputs_are_stored_in_one_loop(
    outputs: int, load: LoadStoreOpType | None, stages: int
) -> None:
    load_stages = stages if load else 0
    fd = storing(
        Tiling((8, 16)), stages=stages, load=load, load_stages=load_stages, outputs=outputs
    )
    one_more(fd, random_array((20, 72)))


def test_stores_of_several_outputs_do_not_wait_for_each_other() -> None:
    """Two outputs that are made together are stored together: with three stages, two iterations of
    them are on their way. Apart, each is a group: four stores, but for the first of them."""
    text = text_of(storing(Tiling((8, 16)), stages=3, outputs=2))
    assert re.findall(r"ws_bulk_wait<(\d+)>", text) == ["1", "0"]
    assert text.count("__syncthreads") == 1
    apart = text_of(storing(Tiling((8, 16)), stages=3, outputs=2, load=TMA, load_stages=3))
    assert re.findall(r"ws_bulk_wait<(\d+)>", apart) == ["4", "4", "0"]


@pytest.mark.parametrize("stages", [0, 3])
def test_nothing_is_outstanding_when_a_block_ends(stages: int) -> None:
    lines = text_of(storing(Tiling((8, 16)), stages=stages)).split()
    assert " ".join(lines[-6:]) == "if (elected_warp) { ws_bulk_wait<0>(); } }"


@pytest.mark.parametrize("load", [rarely(None), TMA])
@pytest.mark.parametrize(("inline", "stages"), [(0, 0), (1, 3), rarely(1, 0), rarely(1, 2)])
def test_a_stage_is_stored_by_several_copies(
    inline: int, stages: int, load: LoadStoreOpType | None
) -> None:
    fd = storing(Tiling((8, 16)), stages=stages, load=load, inline=inline, shape=[20, 40])
    one_more(fd, random_array((20, 40)))


def test_a_tile_outside_of_all_loops_is_stored_once() -> None:
    fd = storing(Tiling((16, 32)), inline=0, shape=[16, 32])
    one_more(fd, random_array((16, 32)))
    assert text_of(fd).count("ws_tensor_store(") == 1


@pytest.mark.parametrize("vector", [rarely(1), 4])
@pytest.mark.parametrize("stages", [rarely(0), 2])
@pytest.mark.parametrize(("swizzle", "columns"), [(32, 8), (64, 16), (128, 32)])
def test_swizzled_tiles_are_put_in_order(
    swizzle: int, columns: int, stages: int, vector: int
) -> None:
    fd = storing(Tiling((8, columns), vector=vector), stages=stages, swizzle=swizzle, load=TMA)
    one_more(fd, random_array((20, 3 * columns + 4)))
    assert swizzle in {each.swizzle for each in lowered(fd).tensor_maps}


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_types_are_stored(dtype: DataType) -> None:
    fd = storing(Tiling((8, 16)), stages=2, load=TMA, load_stages=2, dtype=dtype)
    one_more(fd, random_array((20, 48), dtype))


@pytest.mark.few(8)
@pytest.mark.parametrize("stages", [0, 2, 3])
@pytest.mark.parametrize("size", [4, 64, 100, 128, 1000])
def test_the_last_run_is_cut_short(size: int, stages: int) -> None:
    fd = storing(Tiling((64,)), BULK, stages=stages, load=BULK)
    one_more(fd, random_array((size,)))
    assert "ws_bulk_store" in text_of(fd)


@pytest.mark.parametrize("stages", [0, 2])
@pytest.mark.parametrize("size", [1, 3, 65, 127])
def test_what_ends_between_multiples_of_sixteen_bytes_is_stored_by_the_threads(
    size: int, stages: int
) -> None:
    one_more(storing(Tiling((64,)), BULK, stages=stages), random_array((size,)))


@pytest.mark.parametrize("stages", [rarely(0), rarely(2), 3])
@pytest.mark.parametrize("columns", [rarely(39), 41, rarely(42)])
def test_rows_that_tma_cannot_store_are_stored_by_the_threads(columns: int, stages: int) -> None:
    fd = storing(Tiling((8, 16)), stages=stages, load=TMA, load_stages=stages, outputs=2)
    one_more(fd, random_array((20, columns)))


@pytest.mark.parametrize("dtype", [rarely(DataType.Double), DataType.Half, rarely(DataType.Bool)])
@pytest.mark.parametrize("columns", [33, 34, 36])
def test_threads_store_as_many_bytes_at_once_as_all_rows_allow(
    columns: int, dtype: DataType
) -> None:
    fd = storing(Tiling((8, 16)), stages=2, load=TMA, load_stages=2, dtype=dtype)
    one_more(fd, random_array((20, columns), dtype))


@pytest.mark.parametrize("swizzle", [rarely(32), rarely(64), 128])
def test_threads_put_swizzled_tiles_in_order(swizzle: int) -> None:
    columns = swizzle // 4
    fd = storing(Tiling((8, columns)), stages=2, swizzle=swizzle)
    one_more(fd, random_array((20, 2 * columns + 1)))


@pytest.mark.parametrize("stages", [rarely(0), 2])
@pytest.mark.parametrize("columns", [404, rarely(70 * 32 + 4)])
def test_runs_of_one_stage_are_cut_where_a_row_ends(columns: int, stages: int) -> None:
    fd = storing(Tiling((1, 32)), BULK, stages=stages, inline=1, shape=[-1, columns])
    one_more(fd, random_array((5, columns)))


@pytest.mark.parametrize("stages", [rarely(0), 2])
@pytest.mark.parametrize(
    ("box", "shape", "size"),
    [
        ((1, 32), [-1, -1], (5, 100)),
        ((2, 32), [-1, 32], (5, 32)),
        ((1, 3, 8), [-1, 4, 8], (5, 4, 8)),
    ],
)
def test_runs_are_parts_of_rows_or_whole_rows(
    box: tuple[int, ...], shape: list[int], size: tuple[int, ...], stages: int
) -> None:
    fd = storing(Tiling(box), BULK, stages=stages, shape=shape)
    one_more(fd, random_array(size))
    assert "ws_bulk_store" in text_of(fd)


@pytest.mark.parametrize("carrier", [TMA, BULK])
@pytest.mark.parametrize("size", [64, 100, 1000])
def test_blocks_of_the_grid_store_their_own_runs(carrier: LoadStoreOpType, size: int) -> None:
    one_more(storing(Tiling((64,), grid=True), carrier), random_array((size,)))


@pytest.mark.parametrize("stages", [0, 2, 3])
def test_threads_read_what_is_stored(stages: int) -> None:
    """Other threads than those that wrote it, of the same stage, while the TMA unit stores it."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 64], True)
        y = fd.ops.add(x, 1.0)
        fd.add_output(y)
        made = y.cache_before()
        staged = made.cache_after(cached_uses=[y])
        y.set_load_store_op(TMA)
        total = fd.ops.sum(fd.ops.mul(staged, 2.0), [1])
        fd.add_output(total)
        summed = total.cache_before()
        staged.set_memory_type(MemoryType.shared)
        doubled = summed.definition.source
        for tensor in (y, made, staged, doubled, summed, total):
            tensor.split(0, 32)
        for tensor in (doubled, summed, total):
            tensor.axis(1).parallelize(ParallelType.block_x)
        for tensor in (made, staged):
            tensor.merge(1)
            tensor.split(1, 32)
            tensor.axis(2).parallelize(ParallelType.block_x)
        for axis in (1, 2):
            y.axis(axis).parallelize(ParallelType.tma)
        fd.sched.inline_at(y, 1, selected_tensors=[staged])
        fd.sched.inline_most([doubled, summed, made])
        if stages:
            staged.circular_buffer(stages)
    array = random_array((150, 64))
    results = fd.manual_execute([array])
    assert fd.verify([array], schedules=3).verdict == "clean"
    np.testing.assert_array_equal(results[0], array + 1)
    np.testing.assert_allclose(results[1], 2 * (array.astype(np.float64) + 1).sum(1), rtol=1e-5)
