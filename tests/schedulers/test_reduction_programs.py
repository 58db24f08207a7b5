"""Automatic reductions with work before and after them, and several at once."""

import math

import pytest

from tests.support.launching import check_automatic, random_inputs
from tests.support.program import Program
from warpsmith.ir.dtypes import DataType

SHAPES = ((1, 1), (6, 40), (33, 17), (3, 520))
DIMS = ((0,), (1,), (0, 1))


@pytest.mark.few(3)
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dims", DIMS)
def test_several_reductions_of_two_inputs(
    dims: tuple[int, ...], shape: tuple[int, int], splits: int
) -> None:
    p = Program()
    x, y = p.input(DataType.BFloat16, (None, None)), p.input(DataType.Float, (None, None))
    product = p.op("mul", p.cast(x, DataType.Float), y)
    p.output(
        p.reduce("sum", product, dims),
        p.reduce("max", p.op("abs", product), dims),
        p.op("neg", p.reduce("sum", p.op("mul", product, product), dims)),
    )
    arrays = random_inputs(p.fusion, {"T0": shape, "T1": shape})
    check_automatic(p.fusion, arrays, splits=splits, terms=math.prod(shape))


@pytest.mark.few(8)
@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dims", DIMS)
def test_output_of_full_size_before_the_reduction(
    dims: tuple[int, ...], shape: tuple[int, int], splits: int
) -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None))
    doubled = p.op("mul", x, 2.0)
    p.output(doubled, p.reduce("sum", doubled, dims))
    arrays = random_inputs(p.fusion, {"T0": shape})
    check_automatic(p.fusion, arrays, splits=splits, terms=math.prod(shape))


@pytest.mark.few(6)
@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dims", [(0,), (1,)])
def test_epilogue_with_another_input(
    dims: tuple[int, ...], shape: tuple[int, int], splits: int
) -> None:
    p = Program()
    x, bias = p.input(DataType.Half, (None, None)), p.input(DataType.Half, (None,))
    total = p.reduce("sum", p.cast(x, DataType.Float), dims)
    p.output(p.cast(p.op("add", total, bias), DataType.Half), total)
    arrays = random_inputs(p.fusion, {"T0": shape, "T1": (shape[1 - dims[0]],)})
    check_automatic(p.fusion, arrays, splits=splits, terms=math.prod(shape))


@pytest.mark.few(6)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dims", DIMS)
def test_row_and_column_inputs_before_the_reduction(
    dims: tuple[int, ...], shape: tuple[int, int]
) -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None))
    row, column = p.input(DataType.Float, (None,)), p.input(DataType.Float, (None,))
    scaled = p.op(
        "mul", p.op("sub", x, p.broadcast(column, [False, True])), p.broadcast(row, [True, False])
    )
    p.output(p.reduce("sum", scaled, dims))
    arrays = random_inputs(p.fusion, {"T0": shape, "T1": shape[1:], "T2": shape[:1]})
    check_automatic(p.fusion, arrays, splits=2, terms=math.prod(shape))


@pytest.mark.parametrize("dims", DIMS)
def test_result_keeps_the_dimension_as_broadcast(dims: tuple[int, ...]) -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None))
    total = p.reduce("sum", x, dims)
    p.output(p.broadcast(total, [d in dims for d in range(2)]))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": (6, 40)}), splits=2, terms=240)


@pytest.mark.parametrize("dims", [(0,), (1,)])
def test_transposed_input(dims: tuple[int, ...]) -> None:
    p = Program()
    x, y = p.input(DataType.Float, (None, None)), p.input(DataType.Float, (None, None))
    p.output(p.reduce("sum", p.op("add", p.permute(x, (1, 0)), y), dims))
    arrays = random_inputs(p.fusion, {"T0": (36, 40), "T1": (40, 36)})
    check_automatic(p.fusion, arrays, splits=2, terms=1440)


@pytest.mark.parametrize("dims", [(0,), (1,)])
def test_transposed_result(dims: tuple[int, ...]) -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None, None))
    p.output(p.permute(p.reduce("sum", x, dims), (1, 0)))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": (4, 6, 8)}), splits=2, terms=8)


@pytest.mark.parametrize("shape", [(2, 3, 40), (3, 4, 7)])
@pytest.mark.parametrize("dims", [(0,), (1,)])
def test_reshaped_before_the_reduction(dims: tuple[int, ...], shape: tuple[int, ...]) -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None, None))
    p.output(p.reduce("sum", p.merge_dims(p.op("exp", x), 0), dims))
    arrays = random_inputs(p.fusion, {"T0": shape})
    check_automatic(p.fusion, arrays, splits=2, terms=math.prod(shape))


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (1, 2)])
def test_divided_before_the_reduction(dims: tuple[int, ...]) -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None))
    p.output(p.reduce("sum", p.split_dim(p.op("exp", x), 1, 4), dims))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": (6, 40)}), splits=2, terms=240)


def test_static_and_broadcast_extents() -> None:
    p = Program()
    x = p.input(DataType.Float, (6, 1, 40))
    p.output(p.reduce("sum", x, [2]), p.reduce("max", x, [2]))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": (6, 1, 40)}), splits=2, terms=40)


def test_reduced_broadcast_dimension() -> None:
    p = Program()
    p.output(p.reduce("sum", p.input(DataType.Float, (None, 1)), [1]))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": (5, 1)}))


def test_variance_with_its_scaled_inputs() -> None:
    p = Program()
    x, y = p.input(DataType.BFloat16, (None, None)), p.input(DataType.Float, (None,))
    scaled = p.op("mul", x, p.broadcast(y, [True, False]))
    mean, m2, _ = p.welford(scaled, [1])
    p.output(scaled, mean, p.op("rsqrt", p.op("div", m2, 40.0)))
    arrays = random_inputs(p.fusion, {"T0": (6, 40), "T1": (40,)})
    check_automatic(p.fusion, arrays, splits=2, terms=240)


@pytest.mark.few(4)
@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dims", [(0,), (1,)])
def test_input_needed_before_and_after_the_reduction(
    dims: tuple[int, ...], shape: tuple[int, int], splits: int
) -> None:
    p = Program()
    x, factor = p.input(DataType.Float, (None, None)), p.input(DataType.BFloat16, (None,))
    scale = p.op("exp", factor)
    flags = [d in dims for d in range(2)]
    product = p.op("mul", x, p.broadcast(scale, flags))
    p.output(p.op("add", p.reduce("sum", product, dims), scale), product)
    arrays = random_inputs(p.fusion, {"T0": shape, "T1": (shape[1 - dims[0]],)})
    check_automatic(p.fusion, arrays, splits=splits, terms=math.prod(shape))


def test_reshaped_input_needed_before_and_after_the_reduction() -> None:
    p = Program()
    x, factor = p.input(DataType.Float, (24, None)), p.input(DataType.Float, (4, 6))
    scale = p.merge_dims(p.op("exp", factor), 0)
    product = p.op("mul", x, p.broadcast(scale, [False, True]))
    p.output(p.op("add", p.reduce("sum", product, [1]), scale))
    arrays = random_inputs(p.fusion, {"T0": (24, 40), "T1": (4, 6)})
    check_automatic(p.fusion, arrays, splits=2, terms=40)
