"""Groups of warps that cannot take turns, and the words for them; what these advise works."""

from functools import partial

import numpy as np
import pytest

from tests.support.ring_loads import BLOCK_X, BLOCK_Y, TMA, Kind
from tests.support.role_feeds import Feed, defined
from tests.support.role_groups import ping_pong, sliced, with_weight
from tests.support.role_refusals import refused, works
from warpsmith import FusionDefinition, MemoryType, ParallelType
from warpsmith.ir.tensor import TensorView

BLOCK_Z = ParallelType.block_z
BULK = Feed(Kind.bulk, 8)


@pytest.mark.parametrize(("groups", "position", "stages"), [(2, 3, 7), (2, 4, 12), (3, 3, 8)])
def test_stages_that_groups_do_not_divide(groups: int, position: int, stages: int) -> None:
    def make(stages: int) -> FusionDefinition:
        return sliced(Feed(Kind.bulk, stages), groups=groups, position=position)

    whole = groups * (4 if position == 4 else 1)
    refused(
        partial(make, stages),
        "WS0248",
        f"{groups} groups of role `compute` take turns of {whole // groups} stages of T2, which "
        f"has {stages}: a group would meet a stage at some of its uses only",
        f"use a multiple of {whole} stages",
    )
    works(partial(make, 2 * whole), lambda x: 2 * x)


def test_shares_of_unknown_length_need_an_order() -> None:
    make = partial(ping_pong, Feed(Kind.tma, 4), groups=2)
    refused(partial(make, ordered=False), "WS0248", "a number that is not known", "order_groups")
    works(partial(make, ordered=True), lambda x: np.exp(x.sum(1)))


def specialized(axis: ParallelType, other: ParallelType | None = None) -> FusionDefinition:
    """Two inputs; groups along y take turns on each row that role `load` brings."""
    fd, inputs, z = defined([[-1, 64]] * 2, lambda fd, x, y: x + y)
    loads = [BULK.copy(x) for x in inputs]
    for tensor in (*loads, z):
        tensor.split(0, 2)
    fd.sched.inline_at(z, 1, selected_tensors=loads)
    for load, its in zip(loads, (axis, other or axis), strict=True):
        fd.sched.warp_specialize(load, 8, -1, its, stage_slice_position=2)
        BULK.bind(load)
    z.axis(1).parallelize(BLOCK_Y)
    z.axis(2).parallelize(BLOCK_X)
    return fd


def test_axes_of_groups() -> None:
    grid = ParallelType.grid_x
    words = "is no axis of the block; use ParallelType.block_x, block_y or block_z"
    refused(partial(specialized, grid), "WS0250", words)
    words = "is specialized along block_y, and another tensor of the fusion along block_x; use one"
    refused(partial(specialized, BLOCK_X, BLOCK_Y), "WS0250", words)
    words = "along block_y, and the fusion is specialized along block_z; call warp_specialize with"
    refused(partial(specialized, BLOCK_Z), "WS0250", words, "ParallelType.block_y")
    works(partial(specialized, BLOCK_Y), np.add)


def test_sections_without_groups() -> None:
    words = "in section `main`, and role `compute` has no groups that could follow each other"
    refused(partial(ping_pong, Feed(Kind.tma, 4), groups=1), "WS0250", words, "or drop the order")
    works(
        partial(ping_pong, Feed(Kind.tma, 4), groups=1, ordered=False),
        lambda x: np.exp(x.sum(1)),
    )


def test_groups_of_unknown_number() -> None:
    def make(count: int) -> FusionDefinition:
        fd, (x,), y = defined([[-1, count, 64]], lambda fd, x: fd.ops.neg(x))
        load = BULK.copy(x)
        fd.sched.inline_at(y, 1, selected_tensors=[load])
        load.circular_buffer(8, role="load", stage_slice_position=2)
        BULK.bind(load)
        y.axis(1).parallelize(BLOCK_Y)
        y.axis(2).parallelize(BLOCK_X)
        return fd

    words = "it is not known when the kernel is compiled how many; use a constant extent"
    refused(partial(make, -1), "WS0250", words)
    works(partial(make, 4), np.negative)


def test_stages_in_two_bound_loops() -> None:
    def make(position: int) -> FusionDefinition:
        fd, _, y = defined([[-1, 256]], lambda fd, x: fd.ops.neg(x))
        y = y.cache_before()
        y.set_memory_type(MemoryType.shared)
        y.set_role("work")
        z = next(t for t in fd.fusion.tensors if t.is_output)
        for tensor in (y, z):
            tensor.split(1, 32)
            tensor.split(0, 2)
            tensor.axis(1).parallelize(BLOCK_Y)
            tensor.axis(2).parallelize(BLOCK_Z)
            tensor.axis(3).parallelize(BLOCK_X)
        fd.sched.inline_at(z, 1)
        y.circular_buffer(16, stage_slice_position=position)
        return fd

    words = "groups of warps take turns along one axis of the block only; put the slice position"
    refused(partial(make, 3), "WS0250", words)
    works(partial(make, 1), np.negative)


def rows_in_turn(columns: int, groups: int) -> FusionDefinition:
    """Groups negate rows in turn, which one role loads."""
    fd, (x,), y = defined([[-1, columns]], lambda fd, x: fd.ops.neg(x))
    load = BULK.copy(x)
    for tensor in (load, y):
        tensor.split(0, groups)
    fd.sched.inline_at(y, 1, selected_tensors=[load])
    load.circular_buffer(2 * groups, role="load", stage_slice_position=2)
    BULK.bind(load)
    y.axis(1).parallelize(BLOCK_Y)
    y.axis(2).parallelize(BLOCK_X)
    return fd


def test_groups_of_broken_warps() -> None:
    words = "2 groups of role `compute` take turns, each of 40 threads, which are not whole warps"
    refused(partial(rows_in_turn, 40, 2), "WS0253", words, "to the other axes of the block")
    works(partial(rows_in_turn, 64, 2), np.negative)


def test_more_groups_than_named_barriers() -> None:
    words = "(`compute` 16) need 16 named barriers, and a block has 15 besides its own; use fewer"
    refused(partial(rows_in_turn, 32, 16), "WS0254", words)
    works(partial(rows_in_turn, 32, 15), np.negative)


def test_a_ring_of_groups_themselves() -> None:
    make = partial(with_weight, BULK, groups=2)
    words = "one for all groups of warps, which take turns along block_y and do not meet"
    refused(partial(make, role=""), "WS0255", "T5", words, "let another role fill it")
    works(partial(make, role="weights"), np.multiply)


def test_groups_that_would_meet_in_a_loop() -> None:
    """The sum of two rows, each a group's, in every iteration; or of all rows, behind the loop."""

    def make(*, position: int, behind: bool = False) -> FusionDefinition:
        def meaning(fd: FusionDefinition, x: TensorView) -> TensorView:
            return fd.ops.sum(x, [0, 1] if behind else [1])

        fd, (x,), y = defined([[-1, 2, 64]], meaning)
        load, total = BULK.copy(x), y.cache_before()
        rows = total.rfactor([0]) if behind else total
        load.compute_at = 1
        load.circular_buffer(4, role="load", stage_slice_position=position)
        load.axis(-1).parallelize(TMA)
        rows.axis(1).parallelize(BLOCK_Y)
        total.axis(-2).parallelize(BLOCK_Y)
        for tensor in (rows, total, y):
            tensor.axis(-1).parallelize(BLOCK_X)
        fd.sched.inline_most([total])
        return fd

    words = "is reduced in a loop along an axis of the block along which groups of warps take turns"
    refused(partial(make, position=2), "WS0255", words, "behind the loops in which they take turns")
    works(partial(make, position=1), lambda x: x.sum(1))
    works(partial(make, position=2, behind=True), lambda x: x.sum((0, 1)))
