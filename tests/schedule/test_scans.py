"""Scans scheduled by hand: how threads, warps and loops share the elements, and what is refused."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

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


def laid(
    kinds: Sequence[ParallelType],
    *splits: tuple[int, int],
    order: Mapping[int, int] = MappingProxyType({}),
) -> Loops:
    """Splits of (loop, factor), one after the other; an order of the loops; and who runs each."""

    def lay(total: Tensor) -> None:
        for loop, factor in splits:
            total.split(loop, factor)
        if order:
            total.reorder(dict(order))
        for position, kind in enumerate(kinds):
            total.axis(position).parallelize(kind)

    return lay


LOOPS = {
    # threads of a block do not meet when they scan
    "warps of the grid": laid((GRID_Y, GRID_X, BLOCK_X), (1, 32)),
    # warps have rows of their own, which do not meet when they scan; three of four blocks
    "rows of warps over the grid": laid(
        (GRID_Y, BLOCK_Y, GRID_X, BLOCK_X, UNROLL), (1, 64), (2, 2), (0, 4)
    ),
    # threads along y share a row, those along x have rows of their own
    "columns over the grid": laid(
        (GRID_X, BLOCK_X, GRID_Y, UNROLL, BLOCK_Y, UNROLL), (1, 24), (2, 8), (3, 2), (0, 3)
    ),
    # a thread carries the states of three rows round the loop
    "rows beside each other": laid(
        *((GRID_X, SERIAL, BLOCK_X, UNROLL, UNROLL), (0, 3), (2, 128), (3, 2)),
        order={1: 3, 2: 1, 3: 2},
    ),
    # threads lie side by side three times in a pass
    "in turns": laid((GRID_X, SERIAL, UNROLL, BLOCK_X, UNROLL), (1, 192), (2, 64), (3, 2)),
    # four blocks have a row, two warps each, whose threads lie side by side twice
    "the grid": laid((GRID_Y, GRID_X, UNROLL, BLOCK_X), (1, 128), (2, 64)),
    # a thread waits for a block: 49 blocks of four threads are 13 groups
    "groups of blocks": laid((GRID_X, GRID_Y, BLOCK_Y, UNROLL), (1, 8), (2, 2)),
    # two blocks side by side, of two warps each, round a loop
    "a cluster": laid((GRID_X, SERIAL, CLUSTER, BLOCK_X, UNROLL), (1, 256), (2, 128), (3, 2)),
    # threads of a block do not meet, so blocks do
    "blocks of a warp": laid((GRID_X, SERIAL, CLUSTER, BLOCK_X), (1, 128), (2, 32)),
    # blocks exchange what they have once, and rows of a block apart
    "a cluster at once": laid(
        (GRID_X, BLOCK_Y, SERIAL, CLUSTER, BLOCK_X, UNROLL), (1, 512), (2, 256), (3, 4), (0, 2)
    ),
    "one thread": laid((GRID_X, SERIAL)),
    "vectors of one thread": laid((BLOCK_X, SERIAL, UNROLL), (1, 4)),
    "a warp": laid((GRID_X, SERIAL, BLOCK_X, UNROLL), (1, 64), (2, 2)),
    "warps": laid((GRID_X, SERIAL, BLOCK_X), (1, 96)),
    # 43 threads along x, which are no whole warps, and two rows beside each other
    "odd threads": laid((GRID_X, BLOCK_Y, SERIAL, BLOCK_X, UNROLL), (1, 43 * 3), (2, 3), (0, 2)),
    # threads along y share a row, those along x have rows of their own
    "below each other": laid((GRID_X, BLOCK_X, SERIAL, BLOCK_Y, UNROLL), (1, 10), (2, 2), (0, 4)),
    # no serial loop: one pass has the whole row
    "all at once": laid((GRID_X, SERIAL, BLOCK_X, UNROLL), (1, 1024), (2, 4)),
    "two serial loops": laid((GRID_X, SERIAL, SERIAL, BLOCK_X), (1, 128), (2, 32)),
}


@pytest.mark.few(5)
@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("reverse", [False, True])
def test_the_same_sums_however_they_are_shared(name: str, reverse: bool) -> None:
    """Clean under all orders of warps, and right, for rows that end inside every part."""
    fd = scheduled(LOOPS[name], reverse=reverse, exclusive=reverse)
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


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "name",
    [
        "odd threads",
        "below each other",
        "a cluster",
        "in turns",
        "groups of blocks",
        "columns over the grid",
    ],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_order_matters_to_some_rules(name: str, reverse: bool) -> None:
    """Functions of a row, one after the other; states have two values."""
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor([-1, -1], True, DataType.Float) for _ in range(2))
        states = fd.ops.scan((fd.ops.add(x, 0.0), fd.ops.add(y, 0.0)), AFFINE, 1, reverse=reverse)
        fd.add_output(fd.ops.add(states[1], states[0]))
        x.cache_after()
        y.cache_after()
        LOOPS[name](states[0])
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


_ONE_AXIS = "bind the scanned dimension to other than one axis of the block"
_ALL = "bind the scanned dimension to the grid, and not all of a block's"


@pytest.mark.parametrize(
    ("loops", "said"),
    [
        (lambda total: total.merge(0), "do not walk the scanned dimension in its order"),
        (laid((), (1, 8), order={1: 2, 2: 1}), "do not walk the scanned dimension in its order"),
        (laid((SERIAL, GRID_X, GRID_Y, BLOCK_X), (1, 8), (2, 4)), _ONE_AXIS),
        (laid((GRID_X, GRID_Y, UNROLL), (1, 8)), _ALL),
        (laid((GRID_X, SERIAL, GRID_Y, BLOCK_X), (1, 64), (2, 32)), _ALL),
        (laid((GRID_X, BLOCK_X, BLOCK_Y), (1, 8)), _ONE_AXIS),
        # each thread would have a part of its own, one behind the other in memory
        (laid((GRID_X, BLOCK_X, SERIAL), (1, 8)), "give threads parts that do not lie side by"),
        (
            laid((SERIAL, SERIAL, BLOCK_X), (1, 8), order={0: 1, 1: 0}),
            "walk another dimension inside those of the scanned one",
        ),
    ],
    ids=[
        *("merged", "inside out", "over two axes", "over single threads"),
        *("round a loop over the grid", "twice over threads", "parts apart", "rows inside"),
    ],
)
def test_loops_that_scan_nothing_in_order_are_refused(loops: Loops, said: str) -> None:
    with pytest.raises(ScheduleError, match=f"WS1020.*a scan over dimension 1, {said}"):
        scheduled(loops).manual_execute([np.ones((4, 30), np.float32)])


@pytest.mark.parametrize(
    ("loops", "said"),
    [
        (laid((SERIAL, GRID_X, BLOCK_X), (1, 8)), "WS1024.*inside a loop"),
        (
            laid((GRID_Y, CLUSTER, GRID_X, BLOCK_X), (1, 8), (0, 2)),
            "WS1023.*is shared by the blocks of a cluster",
        ),
    ],
    ids=["rows in a loop", "rows in a cluster"],
)
def test_blocks_of_the_grid_come_by_each_other_once(loops: Loops, said: str) -> None:
    with pytest.raises(ScheduleError, match=said):
        scheduled(loops).manual_execute([np.ones((4, 30), np.float32)])


@pytest.mark.parametrize(
    ("name", "said"), [("the grid", "WS1023.*or the other way"), ("one thread", "WS1022.*a loop")]
)
def test_two_directions_share_neither_grid_nor_loop(name: str, said: str) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, DataType.Float)
        doubled = fd.ops.add(x, x)
        up, down = fd.ops.cumsum(doubled, 1), fd.ops.cumsum(doubled, 1, reverse=True)
        fd.add_output(fd.ops.add(up, down))
        LOOPS[name](up)
        fd.sched.transform_like(up)
        fd.sched.parallelize_like(up)
        fd.sched.inline_most()
    with pytest.raises(ScheduleError, match=said):
        fd.manual_execute([np.ones((4, 30), np.float32)])


def test_a_scan_stays_in_registers() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, DataType.Float)
        fd.add_output(fd.ops.cumsum(x, 1))
    with pytest.raises(ScheduleError, match="WS0275.*is scanned in place"):
        fd.manual_execute([np.ones((4, 30), np.float32)])
