"""Automatic reductions, run: patterns, operations, splits, odd sizes."""

import math
import warnings

import numpy as np
import pytest

import warpsmith
from tests.support.launching import check_automatic, random_inputs
from tests.support.program import Program
from warpsmith import ops
from warpsmith.ir.dtypes import DataType

SHAPES = ((1, 1), (1, 9), (9, 1), (7, 17), (64, 128), (3, 1000), (300, 5))


def summed(dims: tuple[int, ...], dtype: DataType = DataType.BFloat16) -> Program:
    p = Program()
    x = p.input(dtype, (None, None))
    return p.output(p.cast(p.reduce("sum", p.cast(x, DataType.Float), dims), dtype))


@pytest.mark.few(8)
@pytest.mark.parametrize("splits", [1, 2, 3, 7])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
def test_sum_split_over_blocks(dims: tuple[int, ...], shape: tuple[int, int], splits: int) -> None:
    p = summed(dims)
    arrays = random_inputs(p.fusion, {"T0": shape})
    check_automatic(p.fusion, arrays, splits=splits, terms=math.prod(shape))


@pytest.mark.parametrize("shape", [(5, 1), (1, 13), (40, 72)])
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
def test_heuristic_splits(dims: tuple[int, ...], shape: tuple[int, int]) -> None:
    p = Program()
    p.output(p.reduce("sum", p.input(DataType.Double, (None, None)), dims))
    arrays = random_inputs(p.fusion, {"T0": shape})
    check_automatic(p.fusion, arrays, index_type=DataType.Int, terms=math.prod(shape))


@pytest.mark.few(6)
@pytest.mark.parametrize("dtype", [DataType.Float, DataType.Int, DataType.Int32])
@pytest.mark.parametrize("op", ["max", "min", "prod", "sum"])
@pytest.mark.parametrize("dims", [(0,), (1,)])
def test_operations(dims: tuple[int, ...], op: str, dtype: DataType) -> None:
    p = Program()
    x = p.input(dtype, (None, None))
    p.output(p.reduce(op, x, dims))
    arrays = {"T0": np.asarray(random_inputs(p.fusion, {"T0": (6, 11)})["T0"] + dtype.is_int)}
    check_automatic(p.fusion, arrays, splits=2, terms=64)


@pytest.mark.parametrize("dtype", [DataType.Float, DataType.Int, DataType.Int32])
@pytest.mark.parametrize("op", ["max", "min"])
def test_extremes_start_beyond_every_value(op: str, dtype: DataType) -> None:
    p = Program()
    p.output(p.reduce(op, p.input(dtype, (None, None)), [1]))
    number = -7 if op == "max" else 7
    arrays = {"T0": np.full((5, 3), number, np.dtype("f4" if dtype.is_float else dtype.value))}
    check_automatic(p.fusion, arrays, splits=2)


@pytest.mark.few(5)
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("shape", [(1, 2), (5, 33), (12, 256), (65, 8)])
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
def test_variance(dims: tuple[int, ...], shape: tuple[int, int], splits: int) -> None:
    p = Program()
    x = p.cast(p.input(DataType.Half, (None, None)), DataType.Float)
    mean, m2, count = p.welford(x, dims)
    p.output(p.op("div", m2, count), p.op("neg", mean))
    arrays = random_inputs(p.fusion, {"T0": shape})
    check_automatic(p.fusion, arrays, splits=splits, terms=math.prod(shape))


@pytest.mark.few(3)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [2, 3, 5, 31])
@pytest.mark.parametrize("dims", [(0,), (1,)])
def test_the_variance_of_equal_products_is_not_negative(
    dims: tuple[int, ...], rows: int, dtype: type
) -> None:
    """A product that is fused with the subtraction of the mean is not the rounded one whose mean
    it is.
    """
    rng = np.random.default_rng(rows)
    a, b = (np.repeat(rng.standard_normal((96, 1)), rows, 1).astype(dtype) for _ in range(2))
    arrays = [np.ascontiguousarray(x.T if dims == (0,) else x) for x in (a, b)]
    (found,) = warpsmith.fuse(lambda a, b: (ops.var(a * b, list(dims), correction=0),))(*arrays)
    assert (found >= 0).all()
    assert (found <= (np.finfo(dtype).eps * a * b)[:, 0] ** 2).all()


@pytest.mark.parametrize("dims", [(0,), (1,)])
def test_results_of_welford_are_outputs(dims: tuple[int, ...]) -> None:
    p = Program()
    p.output(*p.welford(p.input(DataType.Float, (None, None)), dims))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": (6, 40)}), splits=2, terms=240)


@pytest.mark.few(4)
@pytest.mark.parametrize("dims", [(0, 2, 3), (1,), (2,), (3,), (0,), (0, 3), (1, 2), (0, 1, 2, 3)])
@pytest.mark.parametrize("shape", [(2, 3, 4, 8), (3, 5, 2, 7), (1, 16, 1, 1)])
def test_images(shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    p = Program()
    x = p.input(DataType.Float, (None,) * 4)
    p.output(p.op("sqrt", p.reduce("sum", p.op("mul", x, x), dims)))
    arrays = random_inputs(p.fusion, {"T0": shape})
    check_automatic(p.fusion, arrays, splits=2, terms=math.prod(shape))


@pytest.mark.few(3)
@pytest.mark.parametrize("dims", [(0, 2, 3), (1,), (2, 3)])
@pytest.mark.parametrize("shape", [(2, 8, 3, 4), (2, 5, 3, 3)])
def test_channels_last(shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    p = Program()
    x = p.input(DataType.Float, (None,) * 4, stride_order=(3, 0, 2, 1))
    p.output(p.reduce("sum", x, dims))
    arrays = random_inputs(p.fusion, {"T0": shape})
    check_automatic(p.fusion, arrays, splits=3, terms=math.prod(shape))


@pytest.mark.few(4)
@pytest.mark.parametrize("contiguity", [(False, True), (True, False)])
@pytest.mark.parametrize("dims", [(0,), (1,)])
@pytest.mark.parametrize("shape", [(6, 40), (5, 13)])
def test_padded_rows(
    shape: tuple[int, int], dims: tuple[int, ...], contiguity: tuple[bool, bool]
) -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None), contiguity=contiguity)
    p.output(p.reduce("sum", x, dims))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": shape}), splits=2, terms=64)


@pytest.mark.parametrize("alignment", [4, 16])
@pytest.mark.parametrize("dims", [(0,), (1,)])
def test_misaligned_input(dims: tuple[int, ...], alignment: int) -> None:
    p = summed(dims)
    arrays = random_inputs(p.fusion, {"T0": (16, 64)})
    _, kernel = check_automatic(p.fusion, arrays, alignment={"T0": alignment}, terms=1024)
    assert ("T0" in dict(kernel.alignments)) == (alignment == 16)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
def test_sum_of_nothing_is_zero(dims: tuple[int, ...], shape: tuple[int, int]) -> None:
    p = summed(dims)
    check_automatic(p.fusion, {"T0": random_inputs(p.fusion, {"T0": shape})["T0"]}, splits=2)


def test_nothing_is_read_where_one_of_two_dimensions_that_are_summed_is_empty() -> None:
    """A block that took short columns whole read them all the same: 0 * 64 is at most 64 rows.

    With 512, so did the kernel that a call of one such row had left.
    """
    for between in (64, 512):
        with warpsmith.FusionDefinition() as fd:
            x = fd.define_tensor([-1, between, 24], True)
            fd.add_output(fd.ops.sum(x, [0, 1]))
        for many in (1, 0):
            with warpsmith.knobs.scope(device="sim"):
                (total,) = fd.execute([np.ones((many, between, 24), np.float32)])
            np.testing.assert_array_equal(total, np.full(24, many * between, np.float32))


def test_a_broadcast_dimension_that_meets_the_row_later_is_no_dimension_of_it() -> None:
    """The weight's only row counted as a second dimension of the row: twice as long, WS0321."""
    x, w = (np.arange(n * 8, dtype=np.float32).reshape(n, 8) - 4 for n in (4, 1))
    with warpsmith.FusionDefinition() as fd:
        a, b = fd.define_tensor([-1, -1], True), fd.define_tensor([1, -1], [None, True])
        kept = fd.ops.gt(fd.ops.matmul(a, fd.ops.transpose(b, 0, 1)), 0)
        fd.add_output(fd.ops.where(kept, a, 0.5))
    with warpsmith.knobs.scope(device="sim"), warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = fd.execute([x, w])
    np.testing.assert_array_equal(found, np.where(x @ w.T > 0, x, np.float32(0.5)))


@pytest.mark.few(3)
@pytest.mark.parametrize("columns", [96, 120, 224, 1016])
@pytest.mark.parametrize("axis", [1, 2])
def test_sums_beside_what_is_one_for_all(columns: int, axis: int) -> None:
    """Widths of blocks that divide columns, or not; means that are loaded before the loop."""
    rng = np.random.default_rng(columns)
    x, dy = (rng.standard_normal((3, 70, columns)).astype(np.float32) for _ in range(2))
    mean = rng.standard_normal((70, columns)[axis - 1]).astype(np.float32)
    over = tuple(d for d in range(3) if d != axis)
    at = [d != axis for d in range(3)]

    @warpsmith.fuse
    def both(x, dy, mean):
        centred = x - ops.broadcast(mean, at)
        return ops.sum(dy, over), ops.sum(dy * centred, over)

    with warpsmith.knobs.scope(device="sim"):
        found = both(x, dy, mean)
    wide = x.astype(np.float64) - mean.reshape([1 if each else -1 for each in at])
    wanted = dy.astype(np.float64).sum(over), (dy * wide).sum(over)
    for got, exact in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(got), exact, rtol=1e-4, atol=1e-3)
