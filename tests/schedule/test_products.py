"""Primitives for tensor cores: the loops that they make, and what they refuse."""

from typing import Any

import pytest

from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType
from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.exprs import Matmul


def product(
    rows: int = 64,
    columns: int = 256,
    depth: int = 16,
    dtype: DataType = DataType.BFloat16,
    precision: str = "exact",
) -> Any:
    with FusionDefinition() as fd:
        a = fd.define_tensor([rows, depth], True, dtype)
        b = fd.define_tensor([columns, depth], True, dtype)
        out = fd.ops.linear(a, b, precision=precision)
        fd.add_output(out)
    return out if isinstance(out.definition, Matmul) else out.definition.inputs[0]


def extents(axes: Any) -> list[int | None]:
    return [integers.constant(axis.extent) for axis in axes]


def test_fragments_are_threads_columns_rows_and_pairs() -> None:
    result = product().fusion.outputs[0].value
    result.split_fragments()
    assert extents(result.loop) == [128, 32, 2, 2]


def test_a_warp_has_16_rows_and_of_doubles_8() -> None:
    for rows, quads, own in (
        (16, False, [32, 4, 2, 2]),
        (16, True, [8, 4, 4, 2, 2]),
        (8, False, [32, 4, 2]),
    ):
        result = product(rows, 32).fusion.outputs[0].value
        result.split_fragments(quads=quads)
        assert extents(result.loop) == own


def test_a_product_by_a_warp_is_told_by_its_loops() -> None:
    for dtype, sizes, own in (
        (DataType.Half, (16, 8, 16), [1, 2, 2]),
        (DataType.Int8, (16, 8, 32), [1, 2, 2]),
        (DataType.Double, (8, 8, 4), [1, 2]),
    ):
        sums = product(*sizes, dtype)
        sums.tensorize()
        assert extents(sums.allocation) == own
        assert extents([sums.lanes]) == [32]
    with pytest.raises(ScheduleError, match=r"WS1003.* 64 rows, 8 to 256 columns by 8 and 16 of k"):
        product(16, 16, 16).tensorize()


def test_threads_that_share_rows_may_be_a_loop_of_their_own() -> None:
    result = product().fusion.outputs[0].value
    result.split_fragments(quads=True)
    assert extents(result.loop) == [32, 4, 32, 2, 2]


def test_operands_in_registers_lie_as_their_type_asks() -> None:
    for dtype, own in ((None, [8, 2, 2]), (DataType.Float, [16, 2]), (DataType.Int8, [4, 2, 4])):
        result = product(columns=64).fusion.outputs[0].value
        result.split_operand(dtype=dtype)
        assert extents(result.loop) == [128, *own]
        for rows in (16, 8):  # of a, and of b
            result = product(rows, 64).fusion.outputs[0].value
            result.split_operand(dtype=dtype)
            assert extents(result.loop) == [32, *(own if rows == 16 else [own[0], *own[2:]])]


def test_a_product_keeps_its_loops_and_lies_in_fragments() -> None:
    sums = product()
    sums.tensorize()
    assert extents(sums.loop) == [64, 256, 16]
    assert all(axis.parallel is ParallelType.mma for axis in sums.loop)
    assert extents(sums.allocation) == [32, 2, 2]
    assert extents([sums.lanes]) == [128]


@pytest.mark.parametrize("sizes", [(32, 256, 16), (64, 12, 16), (64, 512, 16), (64, 256, 32)])
def test_other_instructions_do_not_exist(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ScheduleError, match="WS1003"):
        product(*sizes).tensorize()


def test_floats_are_only_rounded_for_a_product_that_asks_for_it() -> None:
    sums = product(64, 256, 8, DataType.Float)
    with pytest.raises(ScheduleError, match="WS1010") as refusal:
        sums.tensorize()
    assert "is the product of float and float summed in float" in str(refusal.value)
    sums = product(64, 256, 8, DataType.Float, precision="tf32")
    sums.tensorize()
    assert extents(sums.loop) == [64, 256, 8]


def test_what_is_no_fragment_is_refused() -> None:
    for rows, columns in ((128, 256), (64, 12)):
        result = product(rows, columns).fusion.outputs[0].value
        with pytest.raises(ScheduleError, match="WS1002"):
            result.split_fragments()


def test_only_products_and_copies_by_stmatrix_are_tensorized() -> None:
    result = product().fusion.outputs[0].value
    with pytest.raises(ScheduleError, match="in a copy by stmatrix"):
        result.tensorize()


def test_stmatrix_takes_computed_elements_of_16_bits_to_shared_memory() -> None:
    result = product().fusion.outputs[0].value
    cast = result.cache_before()
    staged = cast.cache_after()
    staged.set_memory_type(MemoryType.shared)
    staged.set_load_store_op(LoadStoreOpType.stmatrix)
    staged.split_fragments()
    staged.split(1, 2)
    staged.tensorize()
    assert extents(staged.loop) == [128, 16, 2, 2, 2]
    with pytest.raises(ScheduleError, match="WS0226"):
        result.set_load_store_op(LoadStoreOpType.stmatrix)
    load = product().fusion.input_tensors[0].cache_after()
    with pytest.raises(ScheduleError, match="WS0226"):
        load.set_load_store_op(LoadStoreOpType.stmatrix)
