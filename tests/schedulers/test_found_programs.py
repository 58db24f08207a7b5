"""Short programs that random ones shrank to, each of which was refused or broke a scheduler."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.short_programs import Body, check, program
from warpsmith import DataType, FusionDefinition, knobs, ops


def broadcast_where_it_was_reduced(x: Any) -> tuple[Any, ...]:
    """The sum's dimension of 1 joins one that was reduced; it does not bring that back."""
    total = ops.sum(x, [1, 2])
    return total, x + total


def reduced_again_where_it_is_one(x: Any) -> tuple[Any, ...]:
    top = ops.max(x, [0, 1], keepdim=True)
    return x - top, ops.mean(top, [1], keepdim=True)


@pytest.mark.parametrize("body", [broadcast_where_it_was_reduced, reduced_again_where_it_is_one])
def test_dimensions_of_one_do_not_bring_back_what_was_reduced(body: Body) -> None:
    shape = (
        ((1, 7, 3), [1, -1, 3]) if body is broadcast_where_it_was_reduced else ((5, 9), [-1] * 2)
    )
    check(body, shape)


def merged(x: Any) -> Any:
    return ops.reshape(x, [ops.size(x, 0) * ops.size(x, 1)])


@pytest.mark.parametrize(
    "body",
    [
        lambda x: (merged(x), ops.sum(x, [0, 1])),
        lambda x: (merged(x) * ops.sum(x, [0, 1]),),
        lambda x: (merged(x) * ops.sum(merged(x), [0]), ops.sum(x, [1])),
        lambda x: (ops.reshape(x, [-1, 4]) * ops.sum(x, [0, 1]),),
    ],
)
def test_reshapes_of_what_is_reduced_walk_it_too(body: Body) -> None:
    check(body, ((11, 8), [-1, -1]))


@pytest.mark.parametrize("op", [ops.mul, ops.add])
@pytest.mark.parametrize("dim", [0, 1])
def test_columns_of_what_two_vectors_make(op: Callable[..., Any], dim: int) -> None:
    """No input has the size of the whole, or says which dimension lies fastest."""

    def centred(x: Any, y: Any) -> tuple[Any, ...]:
        whole = op(x, ops.transpose(y, 0, 1))
        return (whole - ops.mean(whole, [dim], keepdim=True),)

    check(centred, ((40, 1), [-1, 1]), ((33, 1), [-1, 1]))


@program(((5000,), [-1]))
def test_sums_of_what_a_kernel_draws(x: Any) -> tuple[Any, ...]:
    """No input is loaded: nothing but the values themselves has a place before the sum."""
    shape = [2, ops.size(x, 0)]
    values = ops.normal(0.5, 2.0, shape, rng_seed=3, rng_offset=2, fusion=x.fusion)
    return (ops.mean(values, [1]),)


@pytest.mark.parametrize(
    "made",
    [
        lambda x: ops.full([ops.size(x, 0), 6], -1.5, fusion=x.fusion),
        lambda x: ops.iota(7, 3, 1, fusion=x.fusion) * 0.5,
        lambda x: ops.iota(ops.size(x, 0), 3, 1, fusion=x.fusion) * 0.5,
        lambda x: ops.expand(ops.broadcast(x, [False, True]), [-1, ops.size(x, 0)]),
    ],
)
def test_rows_that_a_kernel_makes_again_for_each_stage(made: Body) -> None:
    """What no input tells is made a second time, and walked with the first."""

    def shifted(x: Any) -> tuple[Any, ...]:
        rows = made(x)
        return (rows + ops.mean(rows, [-1], keepdim=True),)

    check(shifted, ((5,), [-1]))


def test_rows_of_a_join_whose_lengths_make_whole_vectors_together() -> None:
    """What is stored needs rows of 4 elements, and neither part's need be."""

    def body(x: Any, y: Any) -> tuple[Any, ...]:
        row = ops.cat([x, y], 1)
        return (row - ops.max(row, [1], keepdim=True),)

    check(body, ((5, 3), [-1, -1]), ((5, 1), [-1, -1]))
    check(body, ((5, 31), [-1, -1]), ((5, 33), [-1, -1]))


@program(((11, 8), [-1, -1]), ((1, 8), [1, -1]))
def test_a_row_that_is_stored_beside_a_sum_over_all(x: Any, row: Any) -> tuple[Any, ...]:
    """The sum walks rows and columns as one: a row that nothing reduces is another kernel's."""
    return x - row, ops.var(merged(x), [0]), ops.set(row)


@program(((11, 8), [-1, -1]), ((11, 8), [-1, -1]))
def test_sums_of_what_a_reshape_leaves_as_it_was(x: Any, y: Any) -> tuple[Any, ...]:
    """The reshape makes rows and columns of what they were made of."""
    same = ops.reshape(y, [ops.size(x, 0), ops.size(x, 1)])
    return x + y, ops.sum(x * same, [1], keepdim=True)


@program(((5000,), [-1]), ((1,), [1]))
def test_a_number_that_is_stored_and_used_before_a_reduction(x: Any, one: Any) -> tuple[Any, ...]:
    """What stores it has no loops of the reduction, and what uses it has them all."""
    scaled, variance = ops.remainder(x, one), ops.var_mean(x, [0])[0]
    number = ops.sum(one, [0])
    return scaled, x + number, number, variance


@program(((64, 512), [-1, -1]))
def test_rows_and_columns_of_what_a_kernel_makes(x: Any) -> tuple[Any, ...]:
    """No input has rows, and none is loaded ahead."""
    rows = ops.full_like(x, 0.5)
    return ops.mean(rows * ops.mean(rows, [1], keepdim=True), [0]), rows


@program(((7, 5, 40), [-1, -1, -1]), ((5, 1), [-1, 1]))
def test_a_row_that_is_stored_beside_what_is_made_as_one(x: Any, row: Any) -> tuple[Any, ...]:
    """The dropped values are counted through all dimensions; the row is stored once all the same,
    in loops over two of them.
    """
    counted = ops.iota(ops.size(x, 0) * ops.size(x, 1) * ops.size(x, 2), fusion=x.fusion)
    places = ops.reshape(counted, [ops.size(x, 0), ops.size(x, 1), ops.size(x, 2)])
    return -row, ops.sum(x * row, [2]), x + places


@program(((5, 9), [-1, -1]))
def test_a_mean_beside_a_variance_that_nothing_reads(x: Any) -> tuple[Any, ...]:
    """Rows in two passes leave out the second one: its sum had no reader to be computed for."""
    less = x - ops.max(x, [1], keepdim=True)
    return ops.mean(less, [0]), ops.var_mean(less, [1], keepdim=True)[1]


@program(((3, 4), [-1, -1]))
def test_a_sum_of_all_that_is_broadcast_from_another_rank(x: Any) -> tuple[Any, ...]:
    """Its dimensions of 1 are not those that were reduced, and join only one loop of the row."""
    total = ops.sum(x, None, keepdim=True)
    return (ops.broadcast(total, [False, False, True]) / x,)


@program(((3, 4), [-1, -1]), ((1, 4), [1, -1]))
def test_scans_beside_what_is_broadcast_along_them(x: Any, row: Any) -> tuple[Any, ...]:
    """What has more rows than the scan is no part of its kernel."""
    dropped, _ = ops.dropout(x, 0.1, rng_seed=62, rng_offset=0)
    return dropped - row, ops.cumsum(row, -1)


@program(((2, 832), [-1, -1]), ((832,), [-1]), dtype=DataType.Half)
def test_what_all_rows_share_and_a_result_of_it_alone(x: Any, row: Any) -> tuple[Any, ...]:
    """A role that computes would come by its stage twice, in loops that follow each other."""
    low = 0.05 * ops.exp(ops.tanh(x))
    high = ops.exp(ops.tanh(low))
    scaled = high * ops.mean(high, [1], keepdim=True) * row
    return ops.var(low, [1]), scaled, ops.set(row)


@program(((2368,), [-1]))
def test_a_copy_in_registers_whose_loops_are_not_threads_first(x: Any) -> tuple[Any, ...]:
    """Each thread keeps what it has: several vectors of a row, which lie apart."""
    copy = ops.set(x)
    return (copy - ops.max(copy, [0], keepdim=True),)


@program(((3, 4), [-1, -1]))
def test_a_column_that_is_stored_and_reduced_with_its_rows_as_one(x: Any) -> tuple[Any, ...]:
    """What stores it has loops of a part of what is reduced: no kernel of the reduction."""
    total = ops.sum(x, [1], keepdim=True)
    return ops.prod(merged(x / total), [0]), total


@program(((5, 4), [-1, -1]), ((4,), [-1]))
def test_a_sum_of_rows_as_one_times_what_each_row_shares(x: Any, w: Any) -> tuple[Any, ...]:
    """That walks a part of what is reduced, which other threads hold: no kernel of the rows."""
    return (x + ops.sum(merged(x), [0]) * w,)


@pytest.mark.parametrize("reduced", [False, True])
def test_what_repeats_an_input_does_not_walk_it_as_its_other_readers(reduced: bool) -> None:
    """It reads elements where they lie, and they read a copy."""

    def body(x: Any) -> tuple[Any, ...]:
        twice = ops.repeat_interleave(x, 2, 0)
        return (ops.max(twice, [0]) if reduced else twice), ops.exp(x), x

    check(body, ((5,), [-1]))


@program(((0,), [-1]))
def test_what_is_beside_a_scan_of_nothing_is_written(x: Any) -> tuple[Any, ...]:
    dot = ops.matmul(x, x)
    return ops.broadcast(dot, [True]), ops.cumsum(dot - x, 0)


@pytest.mark.parametrize("dtype", [DataType.Half, DataType.BFloat16])
def test_a_join_runs_behind_a_cast_that_stands_after_it(dtype: DataType) -> None:
    """The join reads the rounded values that the cast stores, and not moved and rounded ones."""

    def body(x: Any) -> tuple[Any, ...]:
        square = x * x
        joined = ops.stack([square, square], 1)
        return ops.cast(square, dtype), joined

    check(body, ((5,), [-1]), dtype=dtype)


@program(((384, 1), [-1, -1]))
def test_reads_past_a_dimension_of_one_are_no_vectors(x: Any) -> tuple[Any, ...]:
    """The dimension is a symbol in the kernel, and elements lie that far apart."""
    turned = ops.roll(ops.permute(x, [1, 0]), [7], [0])
    return (turned - ops.sum(turned, [0], keepdim=True),)


@program(((32,), [-1]), ((32,), [-1]), ((96,), [-1]))
def test_a_choice_of_a_join_where_an_index_computed_in_the_loop_says_the_part(
    y: Any, z: Any, i: Any
) -> tuple[Any, ...]:
    """No pass of the loop is known to be inside of a part before the loop."""
    index = ops.remainder(ops.cast(96.0 * i, DataType.Int32), 96)
    chosen = ops.take_along_axis(ops.cat([y, y, z], 0), index, 0)
    return ops.min(chosen, [0]), ops.neg(index)


def test_bits_in_registers_are_copied_to_others() -> None:
    """Bools that wait beside a reduction are a bit each; one of them could not be given another."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([512], True)
        finite = fd.ops.isfinite(x)
        fd.add_output(fd.ops.cast(fd.ops.where(finite, finite, finite), DataType.Float))
        for result in fd.ops.welford(x, [0])[:2]:
            fd.add_output(result)
    given = np.random.default_rng(3).standard_normal(512).astype(np.float32)
    given[7] = np.inf
    truth, *_ = fd.execute([given])
    np.testing.assert_array_equal(truth, np.isfinite(given))


@pytest.mark.filterwarnings("error::warpsmith.errors.PlanWarning")
def test_vectors_of_rows_that_an_index_computed_in_the_loop_chooses() -> None:
    """A thread computes the index for each lane of a vector, and all lanes have the same."""

    def body(like: Any, x: Any, rows: Any) -> tuple[Any, ...]:
        chosen = ops.index_select(x, ops.remainder(rows, 1), 0)
        columns = ops.reshape(chosen, [ops.size(like, 0), ops.size(like, 1), 1])
        return columns - ops.sum(columns, [0], keepdim=True), like

    with FusionDefinition() as fd:
        like = fd.define_tensor([-1, -1], True)
        x = fd.define_tensor([1, -1], [None, True])
        rows = fd.define_tensor([-1], True, DataType.Int32)
        for result in body(like, x, rows):
            fd.add_output(result)
    draw = np.random.default_rng(1)
    one, row = (draw.standard_normal((n, 64)).astype(np.float32) for n in (3, 1))
    found, _ = fd.execute([one, row, np.array([5, 7, 1], np.int32)])
    np.testing.assert_allclose(found[..., 0], np.repeat(-2 * row, 3, 0), rtol=1e-5)


def test_a_mean_of_nothing_is_no_number_by_definition_either() -> None:
    check(lambda x: ops.var_mean(x, [0], 0), ((0, 8), [0, 8]))


@pytest.mark.filterwarnings("error::warpsmith.errors.PlanWarning")
def test_rows_beside_what_lies_by_columns_are_not_copied_as_they_lie() -> None:
    draw = np.random.default_rng(0)
    arrays = [draw.random((2, 256), np.float32), draw.integers(9, size=(256, 2)).T]
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=True)
        y = fd.define_tensor(
            shape=[-1, -1], contiguity=True, stride_order=[0, 1], dtype=DataType.Int
        )
        whole, product = ops.all(x, [0]), x * y
        for result in (product, whole, x - ops.min(x, [1], keepdim=True)):
            fd.add_output(result)
    with knobs.scope(device="sim", target="h200"):
        fd.validate(arrays)


@pytest.mark.filterwarnings("error::warpsmith.errors.PlanWarning")
def test_rows_of_what_is_reduced_as_one_dimension_are_loaded_as_it_is_walked() -> None:
    """Not before the loop over all of it: how many there are is no constant."""

    def by_row(x: Any, w: Any) -> tuple[Any, ...]:
        kept = ops.where(ops.broadcast(w, [False, True]) > 0.5, x, 0.0)
        return (ops.sum(ops.reshape(kept, [ops.size(x, 0) * 40]), [0]),)

    def by_column(x: Any, y: Any, w: Any) -> tuple[Any, ...]:
        both = x + y
        again = ops.reshape(both, [ops.size(y, 0), ops.size(y, 1), 1])
        return ops.sum(again, [0]), both * w

    check(by_row, ((300, 40), [-1, 40]), ((300,), [-1]))
    check(by_column, *(((96, 17), [-1, -1]),) * 2, ((96, 1), [-1, 1]))
