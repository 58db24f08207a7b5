"""Results that have elements are computed in calls in which others have none."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warpsmith
from warpsmith import knobs, ops
from warpsmith.errors import ArgumentError
from warpsmith.ir.domains import ParallelType


def beside(x: Any, w: Any) -> tuple[Any, ...]:
    return x * w, ops.neg(w)


def summed(x: Any, w: Any) -> tuple[Any, ...]:
    return x * w, ops.sum(x, [0]) + w, ops.exp(w)


def normed(x: Any, w: Any) -> tuple[Any, ...]:
    return (x - ops.mean(x, [1], keepdim=True)) * w, ops.sum(x * w, [0]), w + 1.0


@pytest.mark.parametrize("function", [beside, summed, normed])
def test_what_has_elements_is_written(function: Callable[..., Any]) -> None:
    x, w = np.ones((0, 12), np.float32), np.arange(12, dtype=np.float32)
    fused = warpsmith.fuse(function)
    with knobs.scope(device="reference"):
        expected = warpsmith.fuse(function)(x, w)
    with knobs.scope(device="sim"):
        found = fused(x, w)
        again = fused(np.ones((3, 12), np.float32), w)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert again[0].shape == (3, 12)


def test_sizes_that_are_0_by_definition() -> None:
    with warpsmith.FusionDefinition() as fd, knobs.scope(device="sim"):
        w = fd.define_tensor(shape=[-1])
        fd.add_output(w * fd.define_tensor(shape=[0, -1]))
        fd.add_output(w)
        _, found = fd.execute([np.ones(5, np.float32), np.ones((0, 5), np.float32)])
    np.testing.assert_array_equal(found, np.ones(5))


@pytest.mark.parametrize("dimension", [0, 1])
def test_sums_over_dimensions_that_are_0_by_definition(dimension: int) -> None:
    with warpsmith.FusionDefinition() as fd, knobs.scope(device="sim"):
        fd.add_output(ops.exp(ops.sum(fd.define_tensor([0, 5]), [dimension])))
        (found,) = fd.execute([np.ones((0, 5), np.float32)])
    np.testing.assert_array_equal(found, np.ones(5 * (1 - dimension)))


def test_what_is_beside_a_sum_of_nothing_is_written() -> None:
    """A kernel whose loops over columns have no turns stores nothing in them."""

    def program(x: Any, w: Any, b: Any) -> Any:
        wide = ops.broadcast(x, [False, False, False, True])
        product = ops.linear(wide, w, b)
        return ops.squeeze(wide, [3]), ops.sum(product - 1, [1, 3], keepdim=True)

    x, w, b = (np.ones(shape, np.float32) for shape in ((5, 24, 13), (0, 1), (0,)))
    with knobs.scope(device="sim"):
        same, total = warpsmith.fuse(program)(x, w, b)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(total, np.zeros((5, 1, 13, 1)))


def test_a_schedule_by_hand_that_would_leave_a_result_out_is_refused() -> None:
    with warpsmith.FusionDefinition() as fd:
        x, w = fd.define_tensor(shape=[-1, 8]), fd.define_tensor(shape=[8])
        both, alone = x * w, ops.neg(w)
        fd.add_output(both)
        fd.add_output(alone)
    fd.sched.transform_like(both)
    for tensor in (both, alone):
        tensor.axis(0).parallelize(ParallelType.grid_x)
    inputs = [np.ones((0, 8), np.float32), np.ones(8, np.float32)]
    with knobs.scope(device="sim"):
        with pytest.raises(ArgumentError, match="WS0327.*has elements, and the grid of its kernel"):
            fd.manual_execute(inputs)
        _, found = fd.manual_execute([np.ones((2, 8), np.float32), inputs[1]])
    np.testing.assert_array_equal(found, -np.ones(8))


def test_nothing_is_launched_where_all_is_empty() -> None:
    x, w = np.ones((0, 12), np.float32), np.ones(12, np.float32)
    compiled = warpsmith.fuse(lambda x, w: (x * w, x + w)).lower(x, w).compile()
    assert compiled.kernels == ()


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize(
    ("old", "new"), [((0, 5), (5, 0)), ((0,), (3, 0, 4)), ((4, 0, 6), (0, 5)), ((0, 0), (0, 0, 1))]
)
def test_reshapes_of_nothing(old: tuple[int, ...], new: tuple[int, ...], static: bool) -> None:
    with warpsmith.FusionDefinition() as fd, knobs.scope(device="sim"):
        x = fd.define_tensor(list(old) if static else [-1] * len(old))
        like = fd.define_tensor([-1] * len(new))
        moved = ops.reshape(ops.neg(x), [ops.size(like, d) for d in range(len(new))])
        for result in (moved + like, ops.sum(moved, [0]), ops.exp(ops.sum(x, [0]))):
            fd.add_output(result)
        arrays = [np.ones(shape, np.float32) for shape in (old, new)]
        found = fd.validate(arrays)
        assert [each.shape for each in found] == [new, new[1:], old[1:]]
        wrong = np.ones([max(extent, 1) for extent in new], np.float32)
        with pytest.raises(ArgumentError, match="WS0312.*must be equal"):
            fd.execute([arrays[0], wrong])


def test_rows_of_nothing_need_not_divide() -> None:
    """What another call relies on, that 4 divides the rows, this one's vectors must not."""
    with warpsmith.FusionDefinition() as fd, knobs.scope(device="sim"):
        x, rows = fd.define_tensor([-1, -1]), fd.define_tensor([-1])
        fd.add_output(ops.reshape(x, [ops.size(fd.define_tensor([-1]), 0), 4, ops.size(x, 1)]))
        fd.add_output(ops.exp(ops.sum(x, [1]) + rows))
        for n, parts, columns in ((7, 3, 0), (8, 2, 5), (7, 2, 0)):
            shapes = ((n, columns), (n,), (parts,))
            moved, summed = fd.validate([np.ones(shape, np.float32) for shape in shapes])
            assert moved.shape == (parts, 4, columns)
            assert summed.shape == (n,)
        with pytest.raises(ArgumentError, match=r"WS0311.*is 7, and must be a multiple of 4"):
            fd.execute([np.ones(shape, np.float32) for shape in ((7, 1), (7,), (2,))])


def test_a_schedule_by_hand_does_its_reshapes() -> None:
    with warpsmith.FusionDefinition() as fd:
        x, like = fd.define_tensor([-1]), fd.define_tensor([-1])
        fd.add_output(ops.reshape(x, [ops.size(like, 0), 4, ops.size(like, 0)]))
    nothing = np.ones(0, np.float32)
    with knobs.scope(device="sim"), pytest.raises(ArgumentError, match=r"WS0316.*is reshaped"):
        fd.manual_execute([nothing, nothing])


@pytest.mark.parametrize(
    "made",
    [
        lambda x, n: ops.full([12 // n], 1.0, fusion=x.fusion),
        lambda x, n: ops.iota(12 % n, fusion=x.fusion),
        lambda x, n: ops.expand(ops.sum(x, keepdim=True), [12 // n + 1]),
        lambda x, n: ops.broadcast_in_dim(ops.sum(x), [12 // n], []),
    ],
)
def test_an_extent_that_is_a_quotient_by_0_is_refused(made: Callable[..., Any]) -> None:
    function = warpsmith.fuse(lambda x: (made(x, ops.size(x, 0)), x * 2))
    with knobs.scope(device="sim"):
        assert function(np.ones(5, np.float32))[0].shape in {(2,), (3,)}
        with pytest.raises(ArgumentError, match=r"WS0316.*argument 0.*is divided by it"):
            function(np.ones(0, np.float32))


def test_extents_below_0_are_refused() -> None:
    """Two of them make a number of elements that is none of nothing."""
    negative = warpsmith.fuse(lambda x, n: (ops.full([n], 1.0, fusion=x.fusion), x + 1))
    shorter = warpsmith.fuse(lambda x: ops.full([ops.size(x, 0) - 5], 1.0, fusion=x.fusion))
    reshaped = warpsmith.fuse(lambda x, n, m: ops.reshape(x, [n, m]))
    x = np.ones(6, np.float32)
    with knobs.scope(device="sim"):
        assert [len(result) for result in negative(x, 0)] == [0, 6]
        assert shorter(x).shape == (1,)
        with pytest.raises(ArgumentError, match=r"WS0318. argument 1 \(S0\) is -2, and must be 0"):
            negative(x, -2)
        with pytest.raises(ArgumentError, match=r"WS0318. the size add\(T0_size0, -5\) is -1"):
            shorter(x[:4])
        with pytest.raises(ArgumentError, match="WS0318.*is -2, .*T0 is reshaped"):
            reshaped(x, -2, -3)


def test_a_vector_that_is_read_beside_nothing_and_after_a_product_of_it() -> None:
    """It is loaded before a loop that has no passes then, and read behind it."""
    with warpsmith.FusionDefinition() as fd, knobs.scope(device="sim"):
        x, w = fd.define_tensor(shape=[-1, -1, -1]), fd.define_tensor(shape=[1])
        fd.add_output(ops.lerp(w, w, x))
        fd.add_output(ops.linear(ops.prod(x, None, keepdim=True), w))
        _, found = fd.execute([np.ones((2, 2, 0), np.float32), np.full(1, 3, np.float32)])
    np.testing.assert_array_equal(found, np.full((1, 1), 3))
