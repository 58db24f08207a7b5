"""Loads of contiguous bytes by the TMA unit: runs that end where memory does, and whole chunks."""

import re

import pytest

from tests.support.lowering import lowered
from tests.support.tiling import (
    DTYPES,
    Tiling,
    doubled,
    loaded,
    loading,
    random_array,
    rarely,
    text_of,
)
from warpsmith import DataType, FusionDefinition, LoadStoreOpType, ParallelType

TMA, BULK = LoadStoreOpType.tma, LoadStoreOpType.bulk

# --- contiguous bytes ----------------------------------------------------------------------------


@pytest.mark.parametrize("known", [False, rarely(True)])
@pytest.mark.parametrize("size", [4, 60, 64, 100, 128, 1000, 1024])
def test_the_last_run_of_bytes_is_cut_short(size: int, known: bool) -> None:
    fd = loading(Tiling((64,)), BULK, stages=3, shape=[size if known else -1])
    doubled(fd, random_array((size,)))
    assert "ws_bulk_load" in text_of(fd)


@pytest.mark.parametrize("known", [False, rarely(True)])
@pytest.mark.parametrize("size", [1, 3, 63, 65, 127])
def test_what_ends_between_multiples_of_sixteen_bytes_is_left_to_the_threads(
    size: int, known: bool
) -> None:
    fd = loading(Tiling((64,)), BULK, stages=3, shape=[size if known else -1])
    doubled(fd, random_array((size,)))
    if known:
        assert "ws_bulk_load" not in text_of(fd)


def test_a_cut_run_announces_the_bytes_that_it_brings() -> None:
    text = text_of(overrunning(BULK, stages=2))
    announced = re.findall(r"ws_barrier_arrive_expect\([^,]*, (.*), elected_lane\);", text)
    brought = re.findall(
        r"if \((.*)\) \{\n *__syncwarp\(\);\n *"
        r"ws_bulk_load\([^,]*, [^,]*, (.*), [^,]*, elected_lane\);",
        text,
    )
    assert announced
    assert announced == [f"({inside}) ? ({amount}) : 0" for inside, amount in brought]
    for line in text.splitlines():
        if "ws_barrier_wait(ring0_full" in line:
            assert line.strip().startswith("ws_barrier_wait")  # under no condition of its own


@pytest.mark.parametrize("size", [4, 100, 300, 1032, *map(rarely, (64, 128, 132, 512))])
@pytest.mark.parametrize("carrier", [TMA, BULK])
@pytest.mark.parametrize("stages", [0, 2])
def test_a_grid_that_overruns_brings_no_bytes_and_moves_on(
    carrier: LoadStoreOpType, size: int, stages: int
) -> None:
    doubled(overrunning(carrier, stages), random_array((size,)))


def overrunning(carrier: LoadStoreOpType, stages: int) -> FusionDefinition:
    """Every block has four tiles; those of the last block may lie wholly outside."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        y = fd.ops.add(x, x)
        fd.add_output(y)
        copy, between = loaded(x, carrier), y.cache_before()
        y.split(0, 64)
        y.split(0, 4)
        y.axis(0).parallelize(ParallelType.grid_x)
        fd.sched.transform_like(y)
        fd.sched.parallelize_like(y)
        fd.sched.inline_at(y, 2 if stages else 1, selected_tensors=[copy])
        copy.axis(-1).parallelize(ParallelType.tma)
        for tensor in (y, between):
            tensor.split(2, 32)
            tensor.axis(3).parallelize(ParallelType.block_x)
        if stages:
            copy.circular_buffer(stages)
        fd.sched.inline_most([between])
    return fd


@pytest.mark.parametrize(
    ("box", "shape", "size"),
    [
        ((1, 32), [-1, -1], (5, 100)),
        rarely((1, 32), [-1, 96], (5, 96)),
        ((2, 32), [-1, 32], (5, 32)),
        rarely((2, 32), [5, 32], (5, 32)),
        rarely((2, 4, 8), [-1, 4, 8], (5, 4, 8)),
        rarely((1, 2, 8), [-1, 4, 8], (5, 4, 8)),
        ((1, 3, 8), [-1, 4, 8], (5, 4, 8)),
    ],
)
def test_runs_are_parts_of_rows_or_whole_rows(
    box: tuple[int, ...], shape: list[int], size: tuple[int, ...]
) -> None:
    fd = loading(Tiling(box), BULK, stages=2, shape=shape)
    doubled(fd, random_array(size))
    assert "ws_bulk_load" in text_of(fd)


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_types_are_loaded_in_runs(dtype: DataType) -> None:
    doubled(loading(Tiling((64,)), BULK, stages=2, dtype=dtype), random_array((1008,), dtype))


@pytest.mark.parametrize("columns", [404, rarely(400), rarely(70 * 32 + 4)])
def test_runs_of_one_stage_may_bring_different_bytes(columns: int) -> None:
    """Each run says what it brings; only then does the thread arrive."""
    fd = loading(Tiling((1, 32)), BULK, stages=2, inline=1, shape=[-1, columns])
    doubled(fd, random_array((5, columns)))
    lines = [line.strip() for line in text_of(fd).splitlines()]
    loads = [place for place, line in enumerate(lines) if line.startswith("ws_bulk_load")]
    assert loads
    assert all(lines[place - 1].startswith("ws_barrier_expect(") for place in loads)
    assert any(
        re.match(r"ws_barrier_arrive_expect\(.*, 0, elected_lane\);", line) for line in lines
    )


# --- tiles that begin between multiples of sixteen bytes, in whole chunks -------------------------


def in_chunks(columns: int, tile: int, dtype: DataType = DataType.Float) -> FusionDefinition:
    shape = [-1, columns]
    return loading(Tiling((1, tile)), BULK, stages=2, shape=shape, dtype=dtype, chunks=True)


@pytest.mark.parametrize(("columns", "tile"), [(39, 39), (39, 13), (38, 38), rarely(39, 20)])
def test_chunks_are_brought_where_all_of_the_tensor_has_whole_ones(columns: int, tile: int) -> None:
    fd = in_chunks(columns, tile)
    assert not lowered(fd).left_to_threads
    doubled(fd, random_array((20, columns)))


@pytest.mark.parametrize("dtype", [DataType.Half, rarely(DataType.Bool)])
def test_chunks_of_short_elements(dtype: DataType) -> None:
    doubled(in_chunks(39, 39, dtype), random_array((16, 39), dtype))


@pytest.mark.parametrize("rows", [1, 2, rarely(21)])
def test_the_last_chunk_may_end_behind_the_tensor(rows: int) -> None:
    fd = in_chunks(39, 39)
    doubled(fd, random_array((rows, 39)))
    assert not lowered(fd).left_to_threads


def test_threads_load_from_an_address_that_begins_no_chunk() -> None:
    fd = in_chunks(39, 39)
    doubled(fd, random_array((21 * 39 + 1,))[1:].reshape(21, 39))
    assert "copied by the threads" in fd.explain()
