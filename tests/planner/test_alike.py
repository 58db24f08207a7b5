"""Parts of programs that differ in names alone, and parts that differ."""

from collections.abc import Callable

import pytest

from tests.support.program import Program
from warpsmith import FusionDefinition
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.planner.alike import Shape, renamed
from warpsmith.planner.segment import Segment
from warpsmith.targets.hopper import H200

FLOAT, BFLOAT = DataType.Float, DataType.BFloat16


def shape_of(fusion: Fusion) -> Shape:
    return Segment(fusion, H200).shape


def scaled(dtype: DataType = FLOAT, op: str = "mul", *, factor: float = 2.0) -> Program:
    p = Program()
    x = p.input(dtype, (None, None))
    return p.output(p.op(op, p.cast(x, FLOAT) if dtype is not FLOAT else x, factor))


def test_names_of_one_are_those_of_the_other() -> None:
    first, second = scaled(), scaled()
    second.fusion.operations[0].output.number = 17
    one, other = shape_of(first.fusion), shape_of(second.fusion)
    assert one.key == other.key
    assert other.names(one)["T1"] == "T17"
    assert other.names(one)["T0_size0"] == "T0_size0"


@pytest.mark.parametrize(
    "other",
    [lambda: scaled(BFLOAT), lambda: scaled(op="add"), lambda: scaled(factor=3.0)],
)
def test_types_operations_and_numbers_make_a_difference(other: Callable[[], Program]) -> None:
    assert shape_of(scaled().fusion).key != shape_of(other().fusion).key


def test_memory_order_makes_a_difference() -> None:
    first, second = scaled(), scaled()
    second.fusion.outputs[0].value.stride_order = (0, 1)
    assert shape_of(first.fusion).key != shape_of(second.fusion).key


def test_which_axes_are_one_makes_a_difference() -> None:
    def added(swapped: bool) -> Program:
        p = Program()
        x, y = p.input(FLOAT, (None, None)), p.input(FLOAT, (None, None))
        return p.output(p.op("add", x, p.permute(y, [1, 0]) if swapped else y))

    assert shape_of(added(True).fusion).key != shape_of(added(False).fusion).key


def test_products_by_group_that_read_other_tensors_are_alike() -> None:
    def grouped(*, by_group: bool = True) -> Fusion:
        with FusionDefinition() as fd:
            x, w = (fd.define_tensor([-1] * rank, True, dtype=BFLOAT) for rank in (2, 3))
            ends = fd.define_tensor([-1], True, dtype=DataType.Int32)
            fd.add_output(fd.ops.grouped_matmul(x, w, ends) if by_group else fd.ops.matmul(x, w))
        return fd.fusion

    assert shape_of(grouped()).key == shape_of(grouped()).key
    assert shape_of(grouped()).key != shape_of(grouped(by_group=False)).key


def test_names_are_replaced_whole_and_where_they_begin_others() -> None:
    names = {"T1": "T21", "T21": "T5"}
    assert renamed("T1 T1_size0 T12 T21_stride1 xT1", names) == "T21 T21_size0 T12 T5_stride1 xT1"
