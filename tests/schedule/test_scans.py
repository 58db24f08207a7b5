"""Scans scheduled by hand: how threads, warps and loops share the elements, and what is refused."""

from collections.abc import Callable

import numpy as np
import pytest

from warpsmith import CarryRule, DataType, FusionDefinition, ParallelType
from warpsmith.errors import ScheduleError
from warpsmith.frontends.tensor import Tensor

GRID_X, GRID_Y = ParallelType.grid_x, ParallelType.grid_y
BLOCK_X, BLOCK_Y = ParallelType.block_x, ParallelType.block_y
UNROLL, SERIAL, CLUSTER = ParallelType.unroll, ParallelType.serial, ParallelType.cluster_x

Loops = Callable[[Tensor], None]


def scheduled(loops: Loops, *, reverse: bool = False, exclusive: bool = False) -> FusionDefinition:
    """Sums along rows of `x + x`, stored plus one."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, DataType.Float)
        total = fd.ops.cumsum(fd.ops.add(x, x), 1, reverse=reverse, exclusive=exclusive)
        fd.add_output(fd.ops.add(total, 1.0))
        x.cache_after()
        loops(total)
        fd.sched.transform_like(total)
        fd.sched.parallelize_like(total)
        fd.sched.inline_most()
    return fd


def bound(total: Tensor, *kinds: ParallelType) -> None:
    for position, kind in enumerate(kinds):
        total.axis(position).parallelize(kind)


def by_one_thread(total: Tensor) -> None:
    bound(total, GRID_X, SERIAL)


def by_vectors_of_one_thread(total: Tensor) -> None:
    total.split(1, 4)
    bound(total, BLOCK_X, SERIAL, UNROLL)


def by_a_warp(total: Tensor) -> None:
    total.split(1, 64)
    total.split(2, 2)
    bound(total, GRID_X, SERIAL, BLOCK_X, UNROLL)


def by_warps(total: Tensor) -> None:
    total.split(1, 96)
    bound(total, GRID_X, SERIAL, BLOCK_X)


def by_odd_threads(total: Tensor) -> None:
    """43 threads along x, which are no whole warps, and two rows beside each other."""
    total.split(1, 43 * 3)
    total.split(2, 3)
    total.split(0, 2)
    bound(total, GRID_X, BLOCK_Y, SERIAL, BLOCK_X, UNROLL)


def below_each_other(total: Tensor) -> None:
    """Threads along y share a row, those along x have rows of their own."""
    total.split(1, 10)
    total.split(2, 2)
    total.split(0, 4)
    bound(total, GRID_X, BLOCK_X, SERIAL, BLOCK_Y, UNROLL)


def all_at_once(total: Tensor) -> None:
    """No serial loop: one pass has the whole row."""
    total.split(1, 1024)
    total.split(2, 4)
    bound(total, GRID_X, SERIAL, BLOCK_X, UNROLL)


def in_two_serial_loops(total: Tensor) -> None:
    total.split(1, 128)
    total.split(2, 32)
    bound(total, GRID_X, SERIAL, SERIAL, BLOCK_X)


def over_a_cluster(total: Tensor) -> None:
    """Two blocks side by side, of two warps each, round a loop."""
    total.split(1, 256)
    total.split(2, 128)
    total.split(3, 2)
    bound(total, GRID_X, SERIAL, CLUSTER, BLOCK_X, UNROLL)


def over_blocks_of_a_warp(total: Tensor) -> None:
    """Threads of a block do not meet, so blocks do."""
    total.split(1, 128)
    total.split(2, 32)
    bound(total, GRID_X, SERIAL, CLUSTER, BLOCK_X)


def over_a_cluster_at_once(total: Tensor) -> None:
    """Blocks exchange what they have once, and rows of a block apart."""
    total.split(1, 512)
    total.split(2, 256)
    total.split(3, 4)
    total.split(0, 2)
    bound(total, GRID_X, BLOCK_Y, SERIAL, CLUSTER, BLOCK_X, UNROLL)


def rows_beside_each_other(total: Tensor) -> None:
    """A thread carries the states of three rows round the loop."""
    total.split(0, 3)
    total.split(2, 128)
    total.split(3, 2)
    total.reorder({1: 3, 2: 1, 3: 2})
    bound(total, GRID_X, SERIAL, BLOCK_X, UNROLL, UNROLL)


def in_turns(total: Tensor) -> None:
    """Threads lie side by side three times in a pass."""
    total.split(1, 192)
    total.split(2, 64)
    total.split(3, 2)
    bound(total, GRID_X, SERIAL, UNROLL, BLOCK_X, UNROLL)


def over_the_grid(total: Tensor) -> None:
    """Four blocks have a row, two warps each, whose threads lie side by side twice."""
    total.split(1, 128)
    total.split(2, 64)
    bound(total, GRID_Y, GRID_X, UNROLL, BLOCK_X)


def over_groups_of_blocks(total: Tensor) -> None:
    """A thread waits for a block: 49 blocks of four threads are 13 groups."""
    total.split(1, 8)
    total.split(2, 2)
    bound(total, GRID_X, GRID_Y, BLOCK_Y, UNROLL)


def rows_of_warps_over_the_grid(total: Tensor) -> None:
    """Warps have rows of their own, which do not meet when they scan; three of four blocks."""
    total.split(1, 64)
    total.split(2, 2)
    total.split(0, 4)
    bound(total, GRID_Y, BLOCK_Y, GRID_X, BLOCK_X, UNROLL)


def columns_over_the_grid(total: Tensor) -> None:
    """Threads along y share a row, those along x have rows of their own."""
    total.split(1, 24)
    total.split(2, 8)
    total.split(3, 2)
    total.split(0, 3)
    bound(total, GRID_X, BLOCK_X, GRID_Y, UNROLL, BLOCK_Y, UNROLL)


def over_warps_of_the_grid(total: Tensor) -> None:
    """Threads of a block do not meet when they scan."""
    total.split(1, 32)
    bound(total, GRID_Y, GRID_X, BLOCK_X)


LOOPS = (
    over_warps_of_the_grid,
    rows_of_warps_over_the_grid,
    columns_over_the_grid,
    rows_beside_each_other,
    in_turns,
    over_the_grid,
    over_groups_of_blocks,
    over_a_cluster,
    over_blocks_of_a_warp,
    over_a_cluster_at_once,
    by_one_thread,
    by_vectors_of_one_thread,
    by_a_warp,
    by_warps,
    by_odd_threads,
    below_each_other,
    all_at_once,
    in_two_serial_loops,
)


@pytest.mark.parametrize("loops", LOOPS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("reverse", [False, True])
def test_the_same_sums_however_they_are_shared(loops: Loops, reverse: bool) -> None:
    """Clean under all orders of warps, and right, for rows that end inside every part."""
    fd = scheduled(loops, reverse=reverse, exclusive=reverse)
    a = np.random.default_rng(0).integers(-9, 9, (5, 387)).astype(np.float32)
    (result,) = fd.manual_execute([a])
    sums = np.cumsum(a[:, ::-1], 1)[:, ::-1] - a if reverse else np.cumsum(a, 1)
    np.testing.assert_array_equal(result, 2 * sums + 1)
    assert fd.verify([a]).verdict == "clean"


AFFINE = CarryRule(
    name="affine",
    identity={"scale": 1.0, "shift": 0.0},
    join=lambda a, b: (a.scale * b.scale, a.shift * b.scale + b.shift),
    commutative=False,
)


@pytest.mark.parametrize(
    "loops",
    [
        by_odd_threads,
        below_each_other,
        over_a_cluster,
        in_turns,
        over_groups_of_blocks,
        columns_over_the_grid,
    ],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_order_matters_to_some_rules(loops: Loops, reverse: bool) -> None:
    """Functions of a row, one after the other; states have two values."""
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor([-1, -1], True, DataType.Float) for _ in range(2))
        states = fd.ops.scan((fd.ops.add(x, 0.0), fd.ops.add(y, 0.0)), AFFINE, 1, reverse=reverse)
        fd.add_output(fd.ops.add(states[1], states[0]))
        x.cache_after()
        y.cache_after()
        loops(states[0])
        fd.sched.transform_like(states[0])
        fd.sched.parallelize_like(states[0])
        fd.sched.inline_most()
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(0.5, 1, (3, 300)).astype(np.float32) for _ in range(2))
    (result,) = fd.manual_execute([a, b])
    scale, shift, wanted = np.ones(3), np.zeros(3), np.empty((3, 300))
    for i in range(299, -1, -1) if reverse else range(300):
        if reverse:
            scale, shift = a[:, i] * scale, b[:, i] * scale + shift
        else:
            scale, shift = scale * a[:, i], shift * a[:, i] + b[:, i]
        wanted[:, i] = shift + scale
    np.testing.assert_allclose(result, wanted, rtol=1e-4)
    assert fd.verify([a, b]).verdict == "clean"


def merged(total: Tensor) -> None:
    total.merge(0)


def inside_out(total: Tensor) -> None:
    total.split(1, 8)
    total.reorder({1: 2, 2: 1})


def over_two_axes(total: Tensor) -> None:
    total.split(1, 8)
    total.split(2, 4)
    bound(total, SERIAL, GRID_X, GRID_Y, BLOCK_X)


def over_single_threads(total: Tensor) -> None:
    total.split(1, 8)
    bound(total, GRID_X, GRID_Y, UNROLL)


def round_a_loop_over_the_grid(total: Tensor) -> None:
    total.split(1, 64)
    total.split(2, 32)
    bound(total, GRID_X, SERIAL, GRID_Y, BLOCK_X)


def twice_over_threads(total: Tensor) -> None:
    total.split(1, 8)
    bound(total, GRID_X, BLOCK_X, BLOCK_Y)


def parts_apart(total: Tensor) -> None:
    """Each thread would have a part of its own, one behind the other in memory."""
    total.split(1, 8)
    bound(total, GRID_X, BLOCK_X, SERIAL)


def rows_inside(total: Tensor) -> None:
    total.split(1, 8)
    total.reorder({0: 1, 1: 0})
    bound(total, SERIAL, SERIAL, BLOCK_X)


@pytest.mark.parametrize(
    ("loops", "said"),
    [
        (merged, "do not walk the scanned dimension in its order"),
        (inside_out, "do not walk the scanned dimension in its order"),
        (over_two_axes, "bind the scanned dimension to other than one axis of the block"),
        (over_single_threads, "bind the scanned dimension to the grid, and not all of a block's"),
        (round_a_loop_over_the_grid, "bind the scanned dimension to the grid, and not all of a"),
        (twice_over_threads, "bind the scanned dimension to other than one axis of the block"),
        (parts_apart, "give threads parts that do not lie side by side"),
        (rows_inside, "walk another dimension inside those of the scanned one"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_loops_that_scan_nothing_in_order_are_refused(loops: Loops, said: str) -> None:
    with pytest.raises(ScheduleError, match=f"WS1020.*a scan over dimension 1, {said}"):
        scheduled(loops).manual_execute([np.ones((4, 30), np.float32)])


def rows_in_a_loop(total: Tensor) -> None:
    total.split(1, 8)
    bound(total, SERIAL, GRID_X, BLOCK_X)


def rows_in_a_cluster(total: Tensor) -> None:
    total.split(1, 8)
    total.split(0, 2)
    bound(total, GRID_Y, CLUSTER, GRID_X, BLOCK_X)


@pytest.mark.parametrize(
    ("loops", "said"),
    [
        (rows_in_a_loop, "WS1024.*inside a loop"),
        (rows_in_a_cluster, "WS1023.*is shared by the blocks of a cluster"),
    ],
)
def test_blocks_of_the_grid_come_by_each_other_once(loops: Loops, said: str) -> None:
    with pytest.raises(ScheduleError, match=said):
        scheduled(loops).manual_execute([np.ones((4, 30), np.float32)])


def test_two_directions_share_no_grid() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, DataType.Float)
        doubled = fd.ops.add(x, x)
        up, down = fd.ops.cumsum(doubled, 1), fd.ops.cumsum(doubled, 1, reverse=True)
        fd.add_output(fd.ops.add(up, down))
        over_the_grid(up)
        fd.sched.transform_like(up)
        fd.sched.parallelize_like(up)
        fd.sched.inline_most()
    with pytest.raises(ScheduleError, match="WS1023.*or the other way"):
        fd.manual_execute([np.ones((4, 30), np.float32)])


def test_two_directions_share_no_loop() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, DataType.Float)
        doubled = fd.ops.add(x, x)
        up, down = fd.ops.cumsum(doubled, 1), fd.ops.cumsum(doubled, 1, reverse=True)
        fd.add_output(fd.ops.add(up, down))
        bound(up, GRID_X, SERIAL)
        fd.sched.transform_like(up)
        fd.sched.parallelize_like(up)
        fd.sched.inline_most()
    with pytest.raises(ScheduleError, match="WS1022.*share a loop"):
        fd.manual_execute([np.ones((4, 30), np.float32)])


def test_a_scan_stays_in_registers() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, DataType.Float)
        fd.add_output(fd.ops.cumsum(x, 1))
    with pytest.raises(ScheduleError, match="WS0275.*is scanned in place"):
        fd.manual_execute([np.ones((4, 30), np.float32)])
