"""What circular buffers, carriers of copies and swizzles say on a tensor, and whom they reach."""

import pytest

from tests.support.program import Program
from warpsmith.errors import ScheduleError
from warpsmith.ir.copies import CacheOp, CircularBuffer, LoadStoreOpType
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import cache_after, cache_before
from warpsmith.schedule.carriers import set_load_store_op
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.rings import circular_buffer
from warpsmith.schedule.transforms import (
    merge,
    pad_allocation,
    parallelize,
    set_memory_type,
    set_swizzle,
    split,
)

GRID_X, BLOCK_X = ParallelType.grid_x, ParallelType.block_x
TMA, SERIAL = ParallelType.tma, ParallelType.serial


def negated(*sizes: int | None) -> Fusion:
    """`T1 = -T0`, an output."""
    p = Program()
    p.output(p.op("neg", p.input(DataType.Float, sizes or (8, None))))
    return p.fusion


def loaded(op_type: LoadStoreOpType = LoadStoreOpType.tma) -> TensorView:
    """`T2`, the copy of `T0` in shared memory that `T1 = -T2` reads."""
    fusion = negated(8, 64)
    return set_memory_type(cache_after(fusion.input_tensors[0], op_type=op_type), MemoryType.shared)


def kinds(tensor: TensorView) -> list[ParallelType]:
    return [axis.parallel for axis in tensor.loop]


# --- circular buffers --------------------------------------------------------------------------


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_prefetch_counts_from_either_end(stages: int) -> None:
    tensor = loaded()
    for distance in range(-stages, stages):
        circular_buffer(tensor, stages, distance)
        assert tensor.buffering == CircularBuffer(stages, distance % stages)
    assert circular_buffer(tensor, stages) is tensor
    assert tensor.buffering == CircularBuffer(stages, stages - 1)


@pytest.mark.parametrize("op_type", LoadStoreOpType)
def test_every_copy_can_have_stages(op_type: LoadStoreOpType) -> None:
    tensor = loaded(op_type)
    circular_buffer(tensor, 4, 2, ring="both")
    assert tensor.buffering == CircularBuffer(4, 2, "both")


def test_registers_can_have_stages() -> None:
    tensor = cache_after(loaded())
    assert tensor.memory is MemoryType.local
    circular_buffer(tensor, 2)
    assert tensor.buffering == CircularBuffer(2, 1)


@pytest.mark.parametrize("op_type", [LoadStoreOpType.bulk, LoadStoreOpType.tma])
def test_what_tma_stores_can_be_computed_into_stages(op_type: LoadStoreOpType) -> None:
    (output,) = (result.value for result in negated().outputs)
    staged = cache_before(output, op_type=op_type)
    with pytest.raises(ScheduleError, match="WS0284"):
        circular_buffer(staged, 2)  # in registers still
    set_memory_type(staged, MemoryType.shared)
    circular_buffer(staged, 2, 0)
    assert staged.buffering == CircularBuffer(2, 0)


def test_what_others_read_too_cannot_be_computed_into_stages() -> None:
    p = Program()
    first = p.op("neg", p.input(DataType.Float, (8,)))
    p.output(first, p.op("exp", first))
    staged = set_memory_type(cache_before(first, op_type=LoadStoreOpType.tma), MemoryType.shared)
    with pytest.raises(ScheduleError, match="WS0284"):
        circular_buffer(staged, 2)


# --- what carries copies -----------------------------------------------------------------------


@pytest.mark.parametrize("op_type", LoadStoreOpType)
def test_loads_are_carried_as_asked(op_type: LoadStoreOpType) -> None:
    (source,) = (fusion := negated()).input_tensors
    cache = cache_after(source, op_type=op_type)
    assert cache.copied_by is op_type
    assert cache.memory is MemoryType.local  # shared memory is the user's word
    assert source.copied_by is fusion.outputs[0].value.copied_by is LoadStoreOpType.set


@pytest.mark.parametrize(
    "op_type", [LoadStoreOpType.set, LoadStoreOpType.bulk, LoadStoreOpType.tma]
)
def test_stores_are_carried_as_asked(op_type: LoadStoreOpType) -> None:
    (output,) = (result.value for result in negated().outputs)
    cache = cache_before(output, op_type=op_type)
    assert output.copied_by is op_type
    assert cache.copied_by is LoadStoreOpType.set


def test_cache_op() -> None:
    (source,) = negated().input_tensors
    for cache_op in CacheOp:
        cache = cache_after(source, cache_op=cache_op, propagate_allocation_domain=False)
        assert cache.streaming == (cache_op is CacheOp.streaming)
    assert not cache_after(
        source, op_type=LoadStoreOpType.cp_async, cache_op=CacheOp.global_
    ).streaming


def test_the_carrier_can_be_changed() -> None:
    p = Program()
    load = p.copy(p.input(DataType.Float, (4, 64)))
    p.output(store := p.copy(p.op("neg", load)))
    for op_type in LoadStoreOpType:
        if op_type is not LoadStoreOpType.stmatrix:  # which takes no input of the fusion
            assert set_load_store_op(load, op_type).copied_by is op_type
    set_load_store_op(load, LoadStoreOpType.set)
    set_load_store_op(store, LoadStoreOpType.bulk)
    assert store.copied_by is LoadStoreOpType.bulk
    parallelize(load, 0, BLOCK_X)
    with pytest.raises(ScheduleError, match="WS0219"):
        set_load_store_op(load, LoadStoreOpType.bulk)
    parallelize(load, 0, SERIAL)
    set_load_store_op(load, LoadStoreOpType.tma)
    parallelize(load, 1, TMA)
    parallelize(load, 0, TMA)
    for op_type, code in ((LoadStoreOpType.bulk, "WS0220"), (LoadStoreOpType.set, "WS0216")):
        with pytest.raises(ScheduleError, match=code):
            set_load_store_op(load, op_type)
    assert load.copied_by is LoadStoreOpType.tma


# --- loops on tma ------------------------------------------------------------------------------


def test_tma_axes_in_any_order() -> None:
    for order in ((0, 1), (1, 0)):
        tensor = loaded()
        for place in order:
            parallelize(tensor, place, TMA)
        assert kinds(tensor) == [TMA, TMA]


@pytest.mark.parametrize(
    "outer", [GRID_X, ParallelType.unroll, ParallelType.unswitch, ParallelType.serial]
)
def test_what_may_stand_around_a_tma_axis(outer: ParallelType) -> None:
    tensor = loaded(LoadStoreOpType.bulk)
    parallelize(tensor, 1, TMA)
    parallelize(tensor, 0, outer)
    assert kinds(tensor) == [outer, TMA]


def test_merged_axes_are_one_run() -> None:
    tensor = merge(loaded(LoadStoreOpType.bulk), 0)
    parallelize(tensor, 0, TMA)
    assert kinds(tensor) == [TMA]


def tiles() -> tuple[TensorView, TensorView]:
    """A copy by TMA and its reader, both `[8 / 2, 2, 64]`; the reader on the grid and the block."""
    load = loaded()
    (reader,) = load.fusion.consumers(load)
    split(reader, 0, 2)
    transform_like(reader)
    parallelize(reader, 0, GRID_X)
    parallelize(reader, 1, ParallelType.unroll)
    parallelize(reader, 2, BLOCK_X)
    return load, reader


def test_parallelize_like_spreads_no_threads_to_copies_by_tma() -> None:
    load, reader = tiles()
    parallelize_like(reader)
    assert kinds(load) == [GRID_X, ParallelType.unroll, SERIAL]


def test_parallelize_like_leaves_what_is_on_tma() -> None:
    for selected in (False, True):
        load, reader = tiles()
        parallelize(load, 2, TMA)
        parallelize(load, 1, TMA)
        parallelize_like(reader, selected_tensors=[load] if selected else [])
        assert kinds(load) == [GRID_X, TMA, TMA]


def test_parallelize_like_refuses_threads_for_a_selected_copy_by_tma() -> None:
    load, reader = tiles()
    with pytest.raises(ScheduleError) as refusal:
        parallelize_like(reader, selected_tensors=[load])
    assert str(refusal.value) == (
        "[WS0219] i[64] of T2 cannot be bound to block_x: tma copies by TMA, and one thread asks "
        "for all elements; name the types that it takes in selected_parallel_types, or leave T2 "
        "out of selected_tensors"
    )
    assert kinds(load) == [SERIAL] * 3
    parallelize_like(reader, selected_tensors=[load], selected_parallel_types=[GRID_X])
    parallelize_like(reader, pos=2, selected_tensors=[load])
    assert kinds(load) == [GRID_X, ParallelType.unroll, SERIAL]


def test_parallelize_like_spreads_tma_only_when_it_is_named() -> None:
    fusion = negated(8, 64)
    (source,), (output,) = fusion.input_tensors, (result.value for result in fusion.outputs)
    load = cache_after(source, op_type=LoadStoreOpType.tma)
    staged = cache_before(output, op_type=LoadStoreOpType.tma)
    parallelize(load, 1, TMA)
    parallelize_like(load)
    assert [kinds(t)[1] for t in (staged, output)] == [SERIAL, SERIAL]
    parallelize_like(load, selected_parallel_types=[TMA])
    assert [kinds(t)[1] for t in (staged, output)] == [SERIAL, TMA]


# --- swizzles ----------------------------------------------------------------------------------


@pytest.mark.parametrize("row_bytes", [32, 64, 128])
def test_swizzle(row_bytes: int) -> None:
    tensor = loaded()
    assert set_swizzle(tensor, row_bytes).swizzle == row_bytes
    pad_allocation(tensor, 0)
    assert set_swizzle(tensor, 0).swizzle == 0
    pad_allocation(tensor, 4)
    assert set_swizzle(tensor, 0).padding == 4


def test_no_swizzle_is_no_news_to_any_tensor() -> None:
    assert set_swizzle(negated().outputs[0].value, 0).swizzle == 0


# --- copies of fusions -------------------------------------------------------------------------


def test_copies_of_fusions_keep_what_schedules_say() -> None:
    fusion = negated(8, 64)
    (source,), (output,) = fusion.input_tensors, (result.value for result in fusion.outputs)
    load = cache_after(source, op_type=LoadStoreOpType.bulk)
    staged = cache_before(output, op_type=LoadStoreOpType.tma)
    for tensor in (load, staged):
        set_memory_type(tensor, MemoryType.shared)
    circular_buffer(load, 3, 1, ring="first")
    circular_buffer(staged, 2)
    set_swizzle(staged, 64)
    parallelize(load, 1, TMA)
    parallelize(load, 0, ParallelType.unswitch)

    def said(each: Fusion) -> list[object]:
        return [
            (t.name, t.copied_by, t.buffering, t.swizzle, t.streaming, t.memory, kinds(t))
            for t in each.tensors
        ]

    twin = fusion.draft()
    assert said(twin) == said(fusion)
    twin_load = next(t for t in twin.tensors if t.name == load.name)
    circular_buffer(twin_load, 9)
    assert load.buffering == CircularBuffer(3, 1, "first")
