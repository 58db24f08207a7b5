"""Short programs with products that random ones shrank to, each refused or broken once."""

from typing import Any

import numpy as np
import pytest

from tests.support.short_programs import check, program
from warpsmith import DataType, FusionDefinition, knobs, ops
from warpsmith.runtime.arrays import NUMPY_DTYPES


def test_products_of_nothing_whose_rows_tensor_cores_do_not_take() -> None:
    """Rows of 4 bytes are none for the TMA unit, be there no row at all."""
    kind = DataType.BFloat16
    with FusionDefinition() as fd:
        a = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=kind)
        b = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=kind, stride_order=[0, 1])
        bias = fd.define_tensor(shape=[-1], contiguity=True, dtype=kind)
        fd.add_output(ops.addmm(bias, a, b))
    numpy = NUMPY_DTYPES[kind.value]
    arrays = [np.zeros((0, 2), numpy), np.zeros((0, 2), numpy).T, np.zeros(0, numpy)]
    with knobs.scope(device="sim"):
        assert fd.execute(arrays)[0].shape == (0, 0)


@program(((8, 8), [-1, -1]), dtype=DataType.Half)
def test_products_of_what_is_computed_of_no_input(x: Any) -> tuple[Any, ...]:
    number = ops.full([1, 2, ops.size(x, 0)], -1.5, DataType.Half, fusion=x.fusion)
    return (ops.matmul(number, x),)


@program(((2, 3, 0, 4), [-1, -1, 0, -1]), ((4, 5), [-1, -1]))
def test_products_whose_rows_are_none_by_definition(x: Any, w: Any) -> tuple[Any, ...]:
    """Their numbers are divided by 0, in turns that there are none of."""
    return (ops.matmul(x, w),)


@pytest.mark.parametrize("rows", [1, -1])
def test_a_row_times_itself_leaves_nothing_that_nobody_reads(rows: int) -> None:
    """Both operands are computed from one tensor, and each gets what it needs of its own."""
    shape = ((1 if rows == 1 else 3, 10), [rows, -1])
    check(lambda x: (ops.matmul(x, ops.transpose(x, 0, 1)),), shape)


@program(((5, 6), [-1, -1]), ((6,), [-1]), ((5,), [-1]))
def test_what_follows_a_reduction_reads_the_input_that_what_is_reduced_is_beside(
    x: Any, k: Any, m: Any
) -> tuple[Any, ...]:
    """Each has a copy of its own, in the same loops."""
    return ops.eq(ops.mv(x, k), m), ops.maximum(m, ops.broadcast(k, [False, True]))


def test_outer_products_round_neither_vector() -> None:
    """Both are what they were before they were rounded, as the operands of `mul` are."""

    def body(x: Any) -> tuple[Any, ...]:
        third = ops.div(x, 3)
        column, row = ops.broadcast(third, [False, True]), ops.broadcast(third, [True, False])
        return ops.outer(third, third), ops.mul(column, row)

    with FusionDefinition() as fd:
        for result in body(fd.define_tensor(shape=[-1], dtype=DataType.BFloat16)):
            fd.add_output(result)
    x = np.random.default_rng(0).random(11).astype(NUMPY_DTYPES[DataType.BFloat16.value])
    with knobs.scope(device="sim"):
        first, second = fd.execute([x])
    assert (np.asarray(first) == np.asarray(second)).all()


@pytest.mark.filterwarnings("error::warpsmith.errors.PlanWarning")
@program(((16, 32), [16, 32]), dtype=DataType.BFloat16)
def test_a_result_of_a_product_that_leaves_twice(x: Any) -> tuple[Any, ...]:
    """The copy in shared memory is for one of the two; the other reads registers."""
    product = ops.linear(x, x)
    return ops.set(product), product


@program(((2, 2), [-1, -1]), ((1, 2), [1, -1]), ((2, 2), [-1, -1]), dtype=DataType.Half)
def test_what_is_repeated_beside_a_product_lies_in_memory_as_it_is_computed(
    x: Any, row: Any, y: Any
) -> tuple[Any, ...]:
    """A narrow form would be widened first, and nothing repeats what it computes."""
    scaled = 0.5 * ops.logsumexp(x, [1], keepdim=True)
    mean = ops.mean(row, [0])
    return ops.addmm(y, scaled, row), ops.repeat_interleave(mean, 2, 0)


@pytest.mark.filterwarnings("error::warpsmith.errors.PlanWarning")
def test_batches_of_products_whose_rows_and_columns_are_none_by_definition() -> None:
    def body(x: Any, w: Any) -> tuple[Any, ...]:
        return (ops.linear(x, w),)

    shapes = ((4, 0, 64), [-1, 0, 64]), ((0, 64), [0, 64])
    check(body, *shapes, dtype=DataType.Half)


def test_what_blocks_leave_of_sums_is_tried_nowhere_else() -> None:
    """A trial gives no kernel of its own to what is no tensor of the program."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, stride_order=[0, 1])
        weight = fd.define_tensor([-1], True)
        away = fd.ops.sub(x, fd.ops.max(x, [0], keepdim=True))
        for result in (fd.ops.einsum("ab,b->a", away, weight), away):
            fd.add_output(result)
    draw = np.random.default_rng(4)
    fd.validate([draw.random((2, 130), np.float32).T, draw.random(2, np.float32)])


@pytest.mark.filterwarnings("error::warpsmith.errors.PlanWarning")
@program(((2, 8), [-1, -1]), ((8, 8), [-1, -1]), dtype=DataType.BFloat16)
def test_an_operand_that_meets_its_own_product(x: Any, w: Any) -> tuple[Any, ...]:
    """What is summed is the columns of the result there, and a kernel has loops for both."""
    above = ops.tanh(x)
    return (above + ops.matmul(above, w),)


@program(((3, 8), [-1, -1]), ((8, 8), [-1, -1]), dtype=DataType.BFloat16)
def test_a_narrow_form_that_is_in_memory_is_made_by_nobody_again(x: Any, w: Any) -> tuple[Any, ...]:
    """What is computed beside an operand is stored in 16 bits, and read elsewhere behind it."""
    away = ops.sub(x, ops.max(x, [0], keepdim=True))
    grown = ops.exp(away)
    return (ops.cat([grown, grown, ops.linear(away, w)], 0),)


def test_an_operand_that_leaves_no_tile_any_room_is_computed_before() -> None:
    """A floor of a quotient takes more registers than a product with TF32 leaves its threads."""

    def quotients(x: Any) -> tuple[Any, ...]:
        y = ops.abs(x) + 0.5
        shares = ops.floor_divide(x, y)
        return (ops.maximum(ops.matmul(shares, ops.transpose(y, -2, -1), precision="tf32"), 0.38),)

    with knobs.scope(target="h200"):
        check(quotients, ((11, 40), [11, -1]))


@program(((7, 3, 5), [-1, -1, -1]), dtype=DataType.Half)
def test_rows_of_joined_parts_times_themselves(x: Any) -> tuple[Any, ...]:
    """Both operands are one cast of a reshape, of which one is made of the other."""
    rows = ops.cast(ops.reshape(x[2:6], [-1, 5]), DataType.Float)
    return (ops.matmul(rows, ops.transpose(rows, 0, 1)),)
