"""Circular buffers that only lowering can see to be impossible, and its words for them."""

import re

import pytest

from tests.support.lowering import lowered
from tests.support.ring_loads import INTO_SHARED, Kind, Ring, split_threads
from warpsmith import FusionDefinition, MemoryType, ParallelType
from warpsmith.errors import ScheduleError
from warpsmith.ir.tensor import TensorView

TILE = 3632
"""Elements of which sixteen tiles fill a block's shared memory, and leave nothing for barriers."""


def doubled() -> tuple[FusionDefinition, TensorView, TensorView]:
    """A fusion with its input, which is to be loaded, and its output."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        y = x * 2.0
        fd.add_output(y)
    return fd, x, y


def long_ring(kind: Kind, stages: int) -> FusionDefinition:
    fd, x, y = doubled()
    load = Ring(kind, stages, 1).load(x)
    y.split(0, TILE)
    fd.sched.transform_like(y)
    fd.sched.inline_at(y, 1, selected_tensors=[load])
    Ring(kind, stages, 1).bind(load, 16)
    split_threads(16, y)
    return fd


def compiled(fd: FusionDefinition) -> None:
    lowered(fd)


def refusal(fd: FusionDefinition, code: str) -> str:
    with pytest.raises(ScheduleError) as caught:
        compiled(fd)
    assert caught.value.code == code
    return str(caught.value)


@pytest.mark.parametrize("stages", [17, 64])
@pytest.mark.parametrize(
    ("kind", "fitting"), [(Kind.shared, 16), (Kind.cp_async, 16), (Kind.bulk, 15)]
)
def test_too_many_stages_for_shared_memory(kind: Kind, fitting: int, stages: int) -> None:
    """The stages that fit are named; they do fit, and one more does not."""
    message = refusal(long_ring(kind, stages), "WS0256")
    assert f"use circular buffers of {fitting} stages at most for T2" in message
    compiled(long_ring(kind, fitting))
    refusal(long_ring(kind, fitting + 1), "WS0256")


def test_stages_of_tiles_that_are_too_large() -> None:
    fd, x, y = doubled()
    load = Ring(Kind.shared, 2, 1).load(x)
    y.split(0, 10 * TILE)
    fd.sched.transform_like(y)
    fd.sched.inline_at(y, 1, selected_tensors=[load])
    assert "make the tiles smaller" in refusal(fd, "WS0256")


def loops_after_each_other(stages: int) -> FusionDefinition:
    """Two outputs, each in its loop, whose rings are never alive together."""
    with FusionDefinition() as fd:
        inputs = [fd.define_tensor([-1], True) for _ in range(2)]
        outputs = [x * 2.0 for x in inputs]
        for y in outputs:
            fd.add_output(y)
    for x, y in zip(inputs, outputs, strict=True):
        ring = Ring(Kind.bulk, stages, 1)
        load = ring.load(x)
        for tensor in (load, y):
            tensor.split(0, TILE)
        fd.sched.inline_at(y, 1, selected_tensors=[load])
        ring.bind(load, 16)
        split_threads(16, y)
    return fd


def test_rings_of_loops_after_each_other_count_once() -> None:
    compiled(loops_after_each_other(15))
    assert "of fewer stages for T4 and T5" in refusal(loops_after_each_other(16), "WS0256")


@pytest.mark.parametrize("kind", list(Kind))
def test_a_load_that_shares_no_loop(kind: Kind) -> None:
    fd, x, y = doubled()
    load = Ring(kind, 2, 1).load(x)
    y.split(0, 32)
    fd.sched.transform_like(y)
    assert re.search(f"{load.name} .* shares no loop with its consumers", refusal(fd, "WS0290"))


@pytest.mark.parametrize("parallel", [ParallelType.unroll, ParallelType.unswitch])
@pytest.mark.parametrize("kind", list(Kind))
def test_a_load_in_unrolled_and_bound_loops_alone(kind: Kind, parallel: ParallelType) -> None:
    fd, x, y = doubled()
    load = Ring(kind, 2, 1).load(x)
    y.split(0, 32)
    y.split(0, 4)
    fd.sched.transform_like(y)
    for tensor in (load, y):
        tensor.axis(0).parallelize(ParallelType.grid_x)
        tensor.axis(1).parallelize(parallel)
    fd.sched.inline_at(y, 2, selected_tensors=[load])
    assert "no loop that it shares with its consumers can turn it" in refusal(fd, "WS0291")


def test_a_serial_loop_within_an_unrolled_one_turns_nothing() -> None:
    fd, x, y = doubled()
    load = Ring(Kind.tma, 2, 1).load(x)
    y.split(0, 32)
    y.split(0, 4)
    fd.sched.transform_like(y)
    for tensor in (load, y):
        tensor.axis(0).parallelize(ParallelType.unroll)
    fd.sched.inline_at(y, 2, selected_tensors=[load])
    refusal(fd, "WS0291")


@pytest.mark.parametrize("memory", [MemoryType.local, MemoryType.shared])
@pytest.mark.parametrize("kind", INTO_SHARED)
def test_a_ring_is_not_filled_from_another_one_that_the_same_loop_turns(
    kind: Kind, memory: MemoryType
) -> None:
    fd, x, y = doubled()
    load = Ring(kind, 4, 2).load(x)
    copy = load.cache_after()
    copy.set_memory_type(memory)
    copy.circular_buffer(2, 1)
    y.split(0, 32)
    fd.sched.transform_like(y)
    fd.sched.inline_at(y, 1, selected_tensors=[load, copy])
    Ring(kind, 4, 2).bind(load, 32)
    split_threads(32, copy, y)
    assert f"and copies {load.name}" in refusal(fd, "WS0278")
