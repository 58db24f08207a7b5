"""Programs that take several kernels: cut, run one after the other, and compared."""

import pytest

from tests.schedulers.test_inner_persistent import layer_norm, over_rows, softmax
from tests.support.launching import check_segments, random_inputs
from tests.support.program import Program
from warpsmith.ir.dtypes import DataType
from warpsmith.planner.plan import cut
from warpsmith.planner.segment import Unfit
from warpsmith.targets.hopper import H200

CUT = (Unfit("inner_persistent", "rows are to go through memory here"),)
SHAPES = ((1, 1), (5, 33), (12, 64))


def rms_norm_backward() -> Program:
    """dx and dW of `x * rsqrt(mean(x^2)) * W`: rows are reduced for dx, columns for dW."""
    p = Program()
    x = p.cast(p.input(DataType.BFloat16, (None, None)), DataType.Float)
    grad = p.cast(p.input(DataType.BFloat16, (None, None)), DataType.Float)
    weight = p.input(DataType.Float, (None,))
    scale = p.broadcast(p.input(DataType.Float, (None,)), [False, True])
    normal = p.op("mul", x, scale)
    scaled = p.op("mul", grad, p.broadcast(weight, [True, False]))
    part = p.op("mul", over_rows(p, "sum", p.op("mul", scaled, normal)), 1.0 / 16)
    dx = p.op("mul", p.op("sub", scaled, p.op("mul", normal, part)), scale)
    dw = p.reduce("sum", p.op("mul", grad, normal), [0])
    return p.output(p.cast(dx, DataType.BFloat16), dw)


@pytest.mark.few(1)
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(shape: tuple[int, int]) -> None:
    p = softmax(DataType.BFloat16)
    arrays = random_inputs(p.fusion, {"T0": shape})
    assert check_segments(p.fusion, arrays, terms=shape[1], without=CUT) == 2
    assert check_segments(p.fusion, arrays, terms=shape[1]) == 1


@pytest.mark.few(1)
@pytest.mark.parametrize("shape", [(1, 2), (5, 33), (12, 64)])
def test_layer_norm(shape: tuple[int, int]) -> None:
    p = layer_norm(DataType.Half)
    names = [t.name for t in p.fusion.input_tensors]
    arrays = random_inputs(p.fusion, dict(zip(names, (shape, shape[1:], shape[1:]), strict=True)))
    assert check_segments(p.fusion, arrays, terms=64 * shape[1], without=CUT) == 2
    assert check_segments(p.fusion, arrays, terms=64 * shape[1]) == 1


@pytest.mark.few(2)
@pytest.mark.parametrize("shape", SHAPES)
def test_rms_norm_backward(shape: tuple[int, int]) -> None:
    p = rms_norm_backward()
    names = [t.name for t in p.fusion.input_tensors]
    shapes = (shape, shape, shape[1:], shape[:1])
    arrays = random_inputs(p.fusion, dict(zip(names, shapes, strict=True)))
    assert check_segments(p.fusion, arrays, terms=8 * sum(shape)) == 2


def test_sum_of_sums() -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None))
    rows = p.reduce("sum", x, [1])
    p.output(p.reduce("sum", p.op("mul", rows, rows), [0]), rows)
    assert check_segments(p.fusion, random_inputs(p.fusion, {"T0": (9, 20)}), terms=4000) == 2


def test_reductions_of_rows_of_columns_and_of_all() -> None:
    p = Program()
    x = p.op("exp", p.input(DataType.Float, (None, None)))
    p.output(*(p.reduce("sum", x, dims) for dims in ([0], [1], [0, 1])), x)
    assert check_segments(p.fusion, random_inputs(p.fusion, {"T0": (9, 20)}), terms=400) == 3


def test_one_kernel_takes_the_reductions_of_one_pattern() -> None:
    p = Program()
    x = p.op("exp", p.input(DataType.Float, (None, None)))
    first, second = p.reduce("sum", x, [1]), p.reduce("max", x, [1])
    p.output(p.op("add", first, second), p.reduce("sum", x, [0]), first)
    parts = cut(p.fusion, target=H200)
    assert [len(part.outputs) for part in parts] == [2, 1]
    check_segments(p.fusion, random_inputs(p.fusion, {"T0": (9, 20)}), terms=80)


def test_two_outputs_of_one_input_are_one_kernel() -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None))
    p.output(p.op("exp", x), p.op("neg", x))
    assert check_segments(p.fusion, random_inputs(p.fusion, {"T0": (9, 20)})) == 1


def test_two_reductions_of_one_input_are_one_kernel() -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None))
    p.output(p.reduce("sum", x, [1]), p.reduce("max", x, [1]))
    assert check_segments(p.fusion, random_inputs(p.fusion, {"T0": (9, 20)}), terms=80) == 1


def test_unrelated_parts_are_kernels_of_their_own() -> None:
    p = Program()
    x, y = p.input(DataType.Float, (None,)), p.input(DataType.Float, (None, None))
    p.output(p.op("exp", x), p.reduce("sum", y, [0]))
    arrays = random_inputs(p.fusion, {"T0": (7,), "T1": (9, 20)})
    assert check_segments(p.fusion, arrays, terms=80) == 2


def test_segment_names_the_tensors_that_pass_between() -> None:
    p = softmax(DataType.BFloat16)
    first, second = cut(p.fusion, CUT, target=H200)
    assert first.inputs == ("T0",)
    assert len(first.outputs) == 2, "each row's maximum, and its sum"
    assert set(second.inputs) == {"T0", *first.outputs}
    assert second.outputs == tuple(o.value.name for o in p.fusion.outputs)


def test_the_program_itself_is_not_changed() -> None:
    p = layer_norm(DataType.Half)
    before = [id(operation) for operation in p.fusion.operations]
    names = [t.name for t in p.fusion.tensors]
    cut(p.fusion, target=H200)
    assert [id(operation) for operation in p.fusion.operations] == before
    assert [t.name for t in p.fusion.tensors] == names


def test_reductions_of_different_dimensions_that_meet() -> None:
    p = Program()
    x, y = p.input(DataType.Float, (None, None)), p.input(DataType.Float, (None, None))
    p.output(p.op("add", p.reduce("sum", x, [1]), p.reduce("max", y, [1])))
    arrays = random_inputs(p.fusion, {"T0": (6, 20), "T1": (6, 33)})
    assert check_segments(p.fusion, arrays, terms=80) == 3


def test_dead_operations_do_not_decide() -> None:
    """Only the dead sum ties the two outputs to one domain: their kernel has blocks for each."""
    p = Program()
    x, y = p.input(DataType.Float, (None, None)), p.input(DataType.Float, (None, None))
    a, b = p.op("exp", x), p.op("neg", y)
    p.op("add", a, b)
    p.output(a, b)
    arrays = random_inputs(p.fusion, {"T0": (6, 20), "T1": (6, 20)})
    assert check_segments(p.fusion, arrays) == 1
    (segment,) = cut(p.fusion, target=H200)
    assert [name for name, reason in segment.refusals if not reason] == ["side_by_side"]


def test_keepdim_of_a_reduced_dimension_of_extent_one() -> None:
    p = Program()
    x = p.op("neg", p.input(DataType.Float, (1, 1)))
    total = p.broadcast(p.reduce("max", x, [0, 1]), [True, True])
    p.output(p.op("add", total, x))
    assert check_segments(p.fusion, random_inputs(p.fusion, {"T0": (1, 1)})) == 1


def test_output_that_lacks_the_reduced_dimension_beside_its_use_after() -> None:
    p = Program()
    x, row = p.input(DataType.Float, (None, None)), p.input(DataType.Float, (None,))
    wide = p.broadcast(p.op("exp", row), [False, True])
    total = p.broadcast(p.reduce("sum", p.op("neg", x), [1]), [False, True])
    p.output(p.op("mul", total, wide), wide)
    arrays = random_inputs(p.fusion, {"T0": (9, 20), "T1": (9,)})
    check_segments(p.fusion, arrays, terms=80)


def test_a_row_that_meets_itself_as_a_column_goes_through_memory() -> None:
    p = Program()
    row = p.op("neg", p.input(DataType.Float, (None,)))
    p.output(p.op("add", p.broadcast(row, [True, False]), p.broadcast(row, [False, True])))
    assert check_segments(p.fusion, random_inputs(p.fusion, {"T0": (9,)})) == 2
