"""Arguments that do not fit are refused by name; those that fit give sizes, strides and scalars."""

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from warpsmith import knobs, ops
from warpsmith.engine.bind import Binding, bind
from warpsmith.errors import ArgumentError
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.dtypes import DataType

Body = Callable[[FusionDefinition], None]


def bound(body: Body, inputs: Sequence[object]) -> Binding:
    with FusionDefinition() as fd:
        body(fd)
    return bind(fd.fusion, inputs)


def refused(body: Body, inputs: Sequence[object]) -> str:
    with pytest.raises(ArgumentError) as caught:
        bound(body, inputs)
    return str(caught.value)


def one(**definition: Any) -> Body:
    """A program with one input tensor."""

    def body(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.neg(fd.define_tensor(**definition)))

    return body


def two(op: Callable[[Any, Any], Any], a: Sequence[int], b: Sequence[int]) -> Body:
    """A program with two Float tensors and one operation on them."""

    def body(fd: FusionDefinition) -> None:
        fd.add_output(op(fd.define_tensor(a), fd.define_tensor(b)))

    return body


def scalar(dtype: DataType) -> Body:
    def body(fd: FusionDefinition) -> None:
        number = fd.define_scalar(dtype)
        fd.add_output(fd.ops.mul(fd.define_tensor([-1]), number))

    return body


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize("make", [zeros, torch.zeros])
def test_sizes_strides_and_scalars(make: Callable[..., Any]) -> None:
    def body(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, 1, 4])
        fd.add_output(fd.ops.mul(x, fd.define_scalar(DataType.Double)))

    binding = bound(body, [make(3, 1, 8)[:, :, :4], 2])
    sizes = {"T0_size0": 3, "T0_stride0": 8, "T0_stride1": 4, "T0_stride2": 1}
    assert binding.values == {**sizes, "S0": 2.0}
    assert type(binding.values["S0"]) is float
    assert [tuple(info.shape) for info in binding.infos] == [(3, 1, 4)]


@pytest.mark.parametrize("stride", [0, 1, 5, 1000003])
def test_strides_that_nothing_walks_are_as_without_gaps(stride: int) -> None:
    shape = {"shape": [-1, -1, -1], "contiguity": [True, False, True]}
    values = bound(one(**shape), [torch.zeros(99).as_strided((3, 1, 8), (8, stride, 1))]).values
    assert [values[f"T0_stride{d}"] for d in range(3)] == [8, 8, 1]
    values = bound(one(**shape), [torch.zeros(99).as_strided((3, 0, 8), (1, stride, 2))]).values
    assert [values[f"T0_stride{d}"] for d in range(3)] == [16, 16, 1]


def test_number_of_arguments() -> None:
    assert "got 2 arguments, and the definition has 1 inputs" in refused(
        one(shape=[-1]), [zeros(2), zeros(2)]
    )


def test_rank() -> None:
    text = refused(one(shape=[-1, -1]), [zeros(2, 3, 4)])
    assert "argument 0 (T0) has 3 dimensions, shape (2, 3, 4), and must have 2" in text


@pytest.mark.parametrize("given", [np.zeros(2), np.zeros(2, ml_dtypes.bfloat16), torch.ones(2) > 0])
def test_dtype(given: object) -> None:
    text = refused(one(shape=[-1]), [given])
    assert "argument 0 (T0) has dtype" in text
    assert "must have Float; convert the argument to float" in text


def test_what_is_no_array() -> None:
    assert "argument 0 (T0) is the number 3, and must be a tensor" in refused(one(shape=[-1]), [3])
    assert "argument 0 (T0): a value of type str is not an array" in refused(one(shape=[-1]), ["x"])
    text = refused(one(shape=[-1]), [np.zeros(2, np.complex64)])
    assert "argument 0 (T0): dtype complex64 is not supported" in text


def test_static_extents() -> None:
    text = refused(one(shape=[-1, 4]), [zeros(2, 5)])
    assert "argument 0 (T0) has extent 5 in dimension 1, and must have 4" in text


def test_broadcast_dimensions_must_be_one() -> None:
    text = refused(one(shape=[-1, 1]), [zeros(2, 5)])
    assert "has extent 5 in dimension 1, and must have 1 (it is a broadcast dimension)" in text


def test_contiguity() -> None:
    rows = zeros(4, 8)[:, :4]
    text = refused(one(shape=[-1, -1], contiguity=True), [rows])
    assert "has stride 8 in dimension 0, and must have 4: it is defined as contiguous" in text
    assert "shape (4, 4)" in text
    bound(one(shape=[-1, -1], contiguity=[False, True]), [rows])
    bound(one(shape=[-1, -1], contiguity=True), [rows[:1]])  # one row has no stride
    bound(one(shape=[-1, -1], contiguity=True), [rows[:, :0]])  # nothing has no stride


def test_strides_of_what_is_one_at_run_time_do_not_matter() -> None:
    """The kernel takes the stride of a contiguous dimension from the faster ones."""
    column = np.ndarray((3, 1), np.float32, np.arange(3, dtype=np.float32), strides=(4, 8))
    definition = one(shape=[-1, -1], contiguity=[True, False])
    assert bound(definition, [column]).values["T0_stride1"] == 1
    with FusionDefinition() as fd, knobs.scope(device="sim"):
        definition(fd)
        np.testing.assert_array_equal(fd.execute([column])[0], -column)


def test_stride_order() -> None:
    definition = one(shape=[-1, -1], contiguity=True, stride_order=[0, 1])
    bound(definition, [zeros(3, 4).T])
    assert "has stride 3 in dimension 0, and must have 1" in refused(definition, [zeros(4, 3)])


def test_negative_strides() -> None:
    assert "has stride -1 in dimension 0" in refused(one(shape=[-1]), [zeros(4)[::-1]])


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [
        (DataType.Double, [1, 2.5, np.float32(1), np.int64(3)], [True, "1", None, zeros(1)]),
        (DataType.Float, [1, 2.5], [False]),
        (DataType.Int, [1, -(2**63), np.int32(4)], [1.5, True, 2**63]),
        (DataType.Int32, [1, -(2**31)], [2**31]),
        (DataType.Bool, [True, np.bool_(False)], [1, 0.0]),
    ],
)
def test_scalars(dtype: DataType, good: list[Any], bad: list[Any]) -> None:
    for number in good:
        assert bound(scalar(dtype), [number, zeros(2)]).values["S0"] == number
    for number in bad:
        text = refused(scalar(dtype), [number, zeros(2)])
        assert "argument 0 (S0) is" in text
        assert dtype.name in text


def test_dimensions_that_meet_must_be_equal() -> None:
    add = two(ops.add, [-1, -1], [-1])
    bound(add, [zeros(2, 3), zeros(3)])
    text = refused(add, [zeros(2, 3), zeros(4)])
    assert "dimension 1 of argument 0 (T0) is 3" in text
    assert "dimension 0 of argument 1 (T1) is 4, and they must be equal: add reads both" in text
    assert "only extents defined as 1 are broadcast" in refused(add, [zeros(2, 3), zeros(1)])


def test_equality_passes_through_operations() -> None:
    body = two(lambda a, b: ops.add(ops.permute(ops.exp(a), [1, 0]), b), [-1, -1], [-1, -1])
    bound(body, [zeros(2, 3), zeros(3, 2)])
    assert "dimension 1 of argument 0 (T0) is 3" in refused(body, [zeros(2, 3), zeros(2, 3)])


def test_a_constant_and_a_symbol_that_meet() -> None:
    text = refused(two(ops.mul, [-1], [4]), [zeros(3), zeros(4)])
    assert "the extent in the definition is 4" in text
    assert "dimension 0 of argument 0 (T0) is 3" in text


def test_dimensions_that_a_product_joins_must_be_equal() -> None:
    body = two(ops.matmul, [-1, -1, -1], [-1, -1, -1])
    bound(body, [zeros(2, 3, 5), zeros(2, 5, 4)])
    reason = "and they must be equal: a matrix product reads both"
    text = refused(body, [zeros(2, 3, 5), zeros(2, 4, 5)])
    assert (
        f"dimension 2 of argument 0 (T0) is 5 and dimension 1 of argument 1 (T1) is 4, {reason}"
        in text
    )
    text = refused(body, [zeros(2, 3, 5), zeros(3, 5, 4)])
    assert (
        f"dimension 0 of argument 0 (T0) is 2 and dimension 0 of argument 1 (T1) is 3, {reason}"
        in text
    )
    assert reason in refused(two(ops.linear, [-1, -1], [4, -1]), [zeros(2, 3), zeros(4, 5)])
    assert reason in refused(two(ops.matmul, [-1, 6], [-1, -1]), [zeros(2, 6), zeros(5, 6)])


def test_expand_keeps_what_is_not_one() -> None:
    body = two(lambda a, b: ops.add(ops.expand(a, [b.size(0), 3]), 1), [-1, 3], [-1])
    bound(body, [zeros(2, 3), zeros(2)])
    assert "and they must be equal: expand keeps it" in refused(body, [zeros(2, 3), zeros(5)])


def test_reshape_must_divide() -> None:
    def body(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.reshape(fd.define_tensor([-1, -1]), [-1, 8]))

    bound(body, [zeros(4, 6)])
    text = refused(body, [zeros(3, 3)])
    assert "is 9, and must be a multiple of 8: T0 is reshaped" in text


def test_reshape_must_keep_the_number_of_elements() -> None:
    body = two(lambda a, b: ops.reshape(a, list(b.shape())), [-1, -1], [-1, -1])
    bound(body, [zeros(2, 6), zeros(4, 3)])
    assert "and they must be equal: T0 is reshaped" in refused(body, [zeros(2, 6), zeros(4, 4)])
    assert "is 0, and must not be: T0 is reshaped" in refused(body, [zeros(2, 6), zeros(4, 0)])
    inferred = two(lambda a, b: ops.reshape(a, [b.size(0), -1]), [-1], [-1])
    assert "is 0, and must not be: T0 is reshaped" in refused(inferred, [zeros(2), zeros(0)])


def test_quotients_of_sizes_have_divisors() -> None:
    def quotient(a: Any, b: Any) -> Any:
        return ops.add(ops.expand(a, [b.size(0) // b.size(1), b.size(1)]), b)

    body = two(quotient, [1, 1], [-1, -1])
    bound(body, [zeros(1, 1), zeros(1, 1)])
    assert "dimension 1 of argument 1 (T1) is 0, and must not be" in refused(
        body, [zeros(1, 1), zeros(1, 0)]
    )


def test_loops_of_a_schedule_need_not_divide() -> None:
    with FusionDefinition() as fd:
        y = fd.ops.reshape(fd.define_tensor([-1]), [-1, 4])
        fd.add_output(y)
    y.merge(0).split(0, 128)
    bind(fd.fusion, [zeros(12)])


def test_an_output_must_fit_the_input_that_it_is_written_into() -> None:
    def body(fd: FusionDefinition) -> None:
        x, y = fd.define_tensor([-1]), fd.define_tensor([-1])
        fd.add_output(fd.ops.neg(x), alias_input=y)

    bound(body, [zeros(3), zeros(3)])
    assert "the output is written into that input" in refused(body, [zeros(3), zeros(4)])


def test_empty_tensors_are_fine() -> None:
    binding = bound(two(ops.add, [-1, -1], [-1, -1]), [zeros(0, 3), zeros(0, 3)])
    assert binding.values["T0_size0"] == 0


def test_two_devices_are_refused() -> None:
    pytest.importorskip("torch")
    from warpsmith.engine.bind import _check_device
    from warpsmith.runtime.arrays import describe

    host = describe(zeros(2))
    device = host._replace(device_kind="cuda", ordinal=1)
    with pytest.raises(
        ArgumentError, match="argument 1 .T1. is on cuda:1, and argument 0 .T0. is on"
    ):
        _check_device("argument 1 (T1)", device, "argument 0 (T0)", host)
    _check_device("argument 1 (T1)", host, "argument 0 (T0)", host)
