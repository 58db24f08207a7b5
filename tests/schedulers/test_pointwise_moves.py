"""Automatic pointwise schedules of programs that rename, add, drop and reshape dimensions."""

import numpy as np
import pytest

from tests.support.launching import check_automatic, random_inputs, values_of
from tests.support.program import Program
from warpsmith import FusionDefinition, knobs
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const, Symbol
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H200

MATRICES = ((1, 1), (3, 5), (8, 64), (40, 33), (65, 130), (64, 64))


@pytest.mark.few(9)
@pytest.mark.parametrize("shape", MATRICES)
@pytest.mark.parametrize("dtype", [DataType.Float, DataType.BFloat16, DataType.Bool])
def test_transpose(dtype: DataType, shape: tuple[int, int]) -> None:
    p = Program()
    p.output(p.permute(p.input(dtype, (None, None)), (1, 0)))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": shape}))


@pytest.mark.parametrize("shape", MATRICES)
def test_transposed_and_plain_inputs_together(shape: tuple[int, int]) -> None:
    p = Program()
    x, y = p.input(DataType.Float, (None, None)), p.input(DataType.Float, (None, None))
    p.output(p.op("add", p.permute(x, (1, 0)), y))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": shape, "T1": shape[::-1]}))


@pytest.mark.parametrize("shape", MATRICES)
def test_input_stored_by_columns(shape: tuple[int, int]) -> None:
    p = Program()
    x = p.input(DataType.Half, (None, None), stride_order=(0, 1))
    y = p.input(DataType.Half, (None, None))
    p.output(p.cast(p.op("mul", x, y), DataType.Half))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": shape, "T1": shape}))


@pytest.mark.parametrize("shape", [(40, 70), (5, 3)])
@pytest.mark.parametrize("contiguity", [(True, False), (False, True)])
def test_padded_input_stored_by_columns(
    contiguity: tuple[bool, bool], shape: tuple[int, int]
) -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None), stride_order=(0, 1), contiguity=contiguity)
    p.output(p.op("neg", x))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": shape}))


@pytest.mark.few(5)
@pytest.mark.parametrize("order", [(0, 2, 1), (2, 0, 1), (1, 2, 0), (2, 1, 0), (1, 0, 2)])
@pytest.mark.parametrize("shape", [(2, 3, 5), (3, 40, 36), (34, 2, 48)])
def test_permutations_of_three(order: tuple[int, ...], shape: tuple[int, ...]) -> None:
    p = Program()
    x = p.input(DataType.Float, (None,) * 3)
    y = p.input(DataType.Float, (None,) * 3)
    p.output(p.op("add", p.permute(x, order), y))
    permuted = tuple(shape[d] for d in order)
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": shape, "T1": permuted}))


@pytest.mark.parametrize("shape", [(36, 40), (7, 9)])
def test_transposed_bias_row(shape: tuple[int, int]) -> None:
    p = Program()
    x, bias = p.input(DataType.Float, (None, None)), p.input(DataType.Float, (None,))
    wide = p.broadcast(bias, [True, False])
    p.output(p.permute(p.op("add", x, wide), (1, 0)))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": shape, "T1": shape[1:]}))


def test_inputs_without_the_fastest_dimension_do_not_keep_others_from_being_transposed() -> None:
    p = Program()
    x, row = p.input(DataType.Float, (None,) * 3), p.input(DataType.Float, (None,))
    wide = p.broadcast(row, [True, False, True])
    p.output(p.op("add", p.permute(x, (2, 0, 1)), wide))
    _, kernel = check_automatic(p.fusion, random_inputs(p.fusion, {"T0": (5, 40, 34), "T1": (5,)}))
    assert kernel.shared


def test_plain_and_transposed_outputs_of_one_input() -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None))
    doubled = p.op("mul", x, 2.0)
    p.output(doubled, p.permute(doubled, (1, 0)))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": (37, 41)}))


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (4, 24)])
def test_merged_dimensions(shape: tuple[int, int]) -> None:
    p = Program()
    x, y = p.input(DataType.Float, (None, None)), p.input(DataType.Float, (None,))
    p.output(p.op("add", p.merge_dims(p.op("exp", x), 0), y))
    arrays = random_inputs(p.fusion, {"T0": shape, "T1": (shape[0] * shape[1],)})
    check_automatic(p.fusion, arrays)


@pytest.mark.few(2)
@pytest.mark.parametrize("shape", [(3, 40, 72), (2, 67, 131), (5, 64, 64), (1, 33, 40)])
def test_rows_of_parts_are_turned_in_shared_memory(shape: tuple[int, int, int]) -> None:
    """`[a, b, c]` to `[a * c, b]`: tiles are of b and c, whatever is merged."""
    p = Program()
    x, y = p.input(DataType.BFloat16, (None,) * 3), p.input(DataType.BFloat16, (None, None))
    p.output(p.op("add", p.merge_dims(p.permute(x, (0, 2, 1)), 0), y))
    a, b, c = shape
    arrays = random_inputs(p.fusion, {"T0": shape, "T1": (a * c, b)})
    candidate, _ = check_automatic(p.fusion, arrays)
    problem = Problem(values=values_of(p.fusion, arrays), alignment={}, target=H200)
    params, _ = candidate.choose(problem)
    assert params.transposed is not None
    assert params.transposed.apart


@pytest.mark.parametrize("size", [4, 12, 1000])
def test_divided_dimension(size: int) -> None:
    p = Program()
    x, y = p.input(DataType.Float, (None,)), p.input(DataType.Float, (None, 4))
    p.output(p.op("add", p.split_dim(p.op("exp", x), 0, 4), y))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": (size,), "T1": (size // 4, 4)}))


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_heads_become_rows(rows: int) -> None:
    """`[rows, 3 * 8] -> [rows, 3, 8] -> [3, rows, 8]`, as attention does."""
    p = Program()
    x = p.input(DataType.BFloat16, (None, 24))
    p.output(p.permute(p.split_dim(p.copy(x), 1, 8), (1, 0, 2)))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": (rows, 24)}))


def test_dropped_and_added_dimensions() -> None:
    p = Program()
    x, y = p.input(DataType.Float, (None, 1, None)), p.input(DataType.Float, (None, None))
    flat = p.op("add", p.squeeze(x, [1]), y)
    p.output(p.broadcast(flat, [False, True, False, True]))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": (5, 1, 6), "T1": (5, 6)}))


def test_expanded_dimension() -> None:
    p = Program()
    x = p.input(DataType.Float, (None,))
    wide = p.broadcast(p.op("exp", x), [False, True])
    p.output(p.expand(wide, 1, Const(7)), p.op("neg", x))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": (6,)}))


def test_outer_sum_of_two_vectors() -> None:
    p = Program()
    x, y = p.input(DataType.Float, (None,)), p.input(DataType.Float, (None,))
    p.output(p.op("add", p.broadcast(x, [False, True]), p.broadcast(y, [True, False])))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": (5,), "T1": (12,)}))


def test_matrix_plus_its_transpose() -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None))
    p.output(p.op("add", x, p.permute(x, (1, 0))))
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": (36, 36)}))


def test_filled_and_counted() -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None))
    rows, columns = (axis.extent for axis in x.shape_axes)
    assert isinstance(columns, Symbol)
    ramp = p.iota(columns, 5, 3, DataType.Int)
    wide = p.broadcast(p.cast(ramp, DataType.Float), [True, False])
    p.output(p.op("add", p.op("add", x, wide), p.full((rows, columns), 0.5, DataType.Float)), ramp)
    check_automatic(p.fusion, random_inputs(p.fusion, {"T0": (3, 10)}))


@pytest.mark.parametrize("beside", ["nothing", "whole runs", "rows apart"])
def test_columns_beside_a_reshape_to_sizes_of_another_tensor(beside: str) -> None:
    """Nothing says that both shapes are one: a column of the new one follows from all dimensions
    of the old one, in which the loops may be, and is stored once for each row all the same.
    """
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    column = x[:, :1] + 7
    with FusionDefinition() as fd:
        ops = fd.ops
        like, t, c = (
            fd.define_tensor([-1, n], contiguous, DataType.Float)
            for n, contiguous in ((-1, [True, True]), (-1, [True, True]), (1, [True, None]))
        )
        apart = fd.define_tensor([-1, -1], [False, True], DataType.Float)
        fd.add_output(ops.set(c))
        if beside != "nothing":
            fd.add_output(ops.neg(t))
        if beside == "rows apart":
            fd.add_output(ops.add(t, apart))
        fd.add_output(ops.add(ops.reshape(t, [ops.size(like, 0), ops.size(like, 1)]), c))
    with knobs.scope(device="sim"):
        got = fd.execute([x, x, column, np.repeat(x, 2, 1)[:, :2]])
        assert fd.explain().startswith("1 kernel")
    np.testing.assert_array_equal(got[0], column)
    np.testing.assert_array_equal(got[-1], x + column)
