"""`FusionDefinition`: what it accepts, what it refuses, what it runs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.against_torch import DTYPES, TORCH, random
from warpsmith.errors import ArgumentError, DefinitionError
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.frontends.tensor import Tensor
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const
from warpsmith.schedule.laid import is_scheduled


def test_define_tensor_by_shape() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 1, 6], contiguity=[True, None, False], dtype=DataType.Half)
        y = fd.define_tensor([2, 1], contiguity=True)
        z = fd.define_tensor(shape=[-1, -1])
    assert [repr(e) for e in x.shape()] == ["T0_size0", "1", "6"]
    assert (x.contiguity, x.dtype) == ((True, None, False), DataType.Half)
    assert y.contiguity == (True, None)
    assert z.contiguity == (False, False)
    assert fd.fusion.inputs == [x, y, z]


def test_contiguity_is_listed_from_the_slowest_dimension() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1, -1], [False, True, True], stride_order=[1, 0, 2])
    assert x.stride_order == (1, 0, 2)
    assert x.contiguity == (True, True, False)


@pytest.mark.parametrize("positional", [True, False])
def test_define_tensor_by_example(positional: bool) -> None:
    with FusionDefinition() as fd:
        if positional:
            x = fd.define_tensor([4, 1, 8], [1, 1, 4], DataType.Int)
        else:
            x = fd.define_tensor(sizes=[4, 1, 8], strides=[1, 1, 4], dtype=DataType.Int)
        y = fd.define_tensor(sizes=[4, 8], strides=[16, 1], static_sizes=True)
    assert [repr(e) for e in x.shape()] == ["T0_size0", "1", "T0_size2"]
    assert x.stride_order == (0, 2, 1) or x.stride_order == (0, 1, 2)
    assert y.shape() == (Const(4), Const(8))
    assert y.contiguity == (False, True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_from_pytorch(dtype: DataType) -> None:
    example = torch.zeros(3, 1, 4, dtype=TORCH[dtype]).transpose(0, 2)
    with FusionDefinition() as fd:
        x = fd.from_pytorch(example)
        y = fd.from_pytorch(example, static_sizes=True)
    assert x.dtype is dtype
    assert x.stride_order is not None
    assert y.shape() == (Const(4), Const(1), Const(3))


def test_scalars() -> None:
    with FusionDefinition() as fd:
        assert fd.define_scalar().dtype is DataType.Double
        assert fd.define_scalar(DataType.Int).dtype is DataType.Int
        assert fd.define_scalar(dtype=DataType.Bool).dtype is DataType.Bool
        assert fd.define_scalar(3) == Const(3, DataType.Int)
        assert fd.define_scalar(3, DataType.Float) == Const(3.0, DataType.Float)
        assert fd.define_scalar(value=2.5) == Const(2.5, DataType.Double)
        assert len(fd.define_vector(3)) == 3
    assert len(fd.fusion.inputs) == 6


def test_a_vector_is_a_shape() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 1])
        fd.add_output(fd.ops.broadcast_in_dim(x, fd.define_vector(3), [1, 2]))
    outputs = fd.validate([random((4, 1), DataType.Float), 2, 4, 3])
    assert outputs[0].shape == (2, 4, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda fd: fd.define_tensor([-1], is_cpu=True), "is_cpu=True; use define_scalar"),
        (lambda fd: fd.define_tensor([-2]), "-2 as the extent of dimension 0"),
        (lambda fd: fd.define_tensor([2.0]), "2.0 as the extent of dimension 0"),
        (lambda fd: fd.define_tensor([-1], [True, True]), "2 contiguity flags for 1 dimensions"),
        (lambda fd: fd.define_tensor([-1], [None]), "contiguity None for dimension 0"),
        (lambda fd: fd.define_tensor([-1], dtype="float"), "define_tensor got dtype float"),
        (lambda fd: fd.define_tensor([-1, 2], stride_order=[1, 2]), r"define_tensor got \(1, 2\)"),
        (lambda fd: fd.define_tensor(), "neither a shape nor both sizes and strides"),
        (lambda fd: fd.define_tensor(sizes=[1, 2], strides=[1]), "2 sizes and 1 strides"),
        (lambda fd: fd.define_scalar(DataType.Half), "define_scalar got dtype Half"),
        (lambda fd: fd.define_scalar("x"), "a value of type str"),
        (lambda fd: fd.ops.nonsense, "no operation `nonsense`; the operations are abs, "),
        (lambda fd: fd.add_output(3), "add_output got 3, and needs a tensor"),
        (lambda fd: fd.execute([]), "the fusion has no output; call add_output"),
        (lambda fd: fd.last_repro_script(), "no call was saved"),
    ],
)
def test_definition_errors(call: Callable[[FusionDefinition], Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message), FusionDefinition() as fd:
        call(fd)


def test_aliases() -> None:
    with FusionDefinition() as fd:
        x, y = fd.define_tensor([-1, -1]), fd.define_tensor([-1, -1])
        fd.add_output(x + y, alias_input=x)
        fd.add_output(x * y)
    a, b = random((3, 4), DataType.Float), random((3, 4), DataType.Float, 1)
    old = a.clone()
    (product,) = fd.validate([a, b])
    torch.testing.assert_close(a, old + b)
    torch.testing.assert_close(product, old * b)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda fd, x, y: fd.add_output(x + y, y * 2), "T3, which is no input of the fusion"),
        (lambda fd, x, y: fd.add_output(x > y, y), "T1 of dtype Float, and has dtype Bool"),
        (lambda fd, x, y: fd.add_output(x.sum(0), y), r"T1 of shape \[T1_size0, 4\]"),
        (lambda fd, x, y: fd.add_output(y.sum([1], True), y), r"and has shape \[T1_size0, 1\]"),
        (
            lambda fd, x, y: [fd.add_output(x + k, y) for k in range(2)],
            "T1, which another output is written into",
        ),
    ],
)
def test_impossible_aliases(call: Callable[..., Any], message: str) -> None:
    with FusionDefinition() as fd:
        x, y = fd.define_tensor([-1, 4]), fd.define_tensor([-1, 4])
    with pytest.raises(DefinitionError, match=message):
        call(fd, x, y)


def test_inputs_and_outputs_given_twice_are_copied() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1])
        y = fd.ops.exp(x)
        for value in (x, y, y):
            fd.add_output(value)
    values = [output.value for output in fd.fusion.outputs]
    assert len({id(value) for value in (x, *values)}) == 4
    given = random((3,), DataType.Float)
    copy, first, second = fd.execute([given])
    assert torch.equal(copy, given)
    assert copy.data_ptr() != given.data_ptr()
    assert torch.equal(first, second)


def test_numpy_in_numpy_out() -> None:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.sum(fd.define_tensor([-1, -1]), [0]))
    (found,) = fd.execute([np.ones((3, 4), np.float32)])
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, np.full(4, 3))


def test_executing_again_with_other_sizes() -> None:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.var(fd.define_tensor([-1, -1]), [1]))
    for shape in ((3, 4), (5, 2), (3, 4), (0, 7)):
        fd.validate([random(shape, DataType.Float)])


def test_arguments_are_checked() -> None:
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor([-1]) * 2)
    with pytest.raises(ArgumentError, match="argument 0 .T0. has 2 dimensions"):
        fd.execute([torch.zeros(2, 2)])
    with pytest.raises(ArgumentError, match="argument 0 is on cpu, and execute got device cuda:0"):
        fd.execute([torch.zeros(2)], device="cuda")
    fd.execute([torch.zeros(2)], device=torch.device("cpu"))  # goes on working


def test_manual_execute() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], contiguity=True, dtype=DataType.BFloat16)
        y = fd.ops.silu(x) * 2
        fd.add_output(y)
        fd.sched.set_memory_type(y, y.memory.global_)
        x.cache_after()
        y.merge(0).split(0, 128)
        fd.sched.transform_like(y)
        y.axis(0).parallelize(ParallelType.grid_x)
        y.axis(1).parallelize(ParallelType.block_x)
        fd.sched.parallelize_like(y)
        fd.sched.inline_most()
        fd.sched.inline_at(y, 1, best_effort=True)
    fd.manual_validate([random((30, 7), DataType.BFloat16)])
    with pytest.raises(DefinitionError, match="execute after manual_execute of one definition"):
        fd.execute([random((30, 7), DataType.BFloat16)])
    with pytest.raises(DefinitionError, match="got heuristic_params of type dict"):
        fd.manual_execute([], heuristic_params={})


def doubled_by_hand() -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], contiguity=True)
        y = x * 2.0
        fd.add_output(y)
        cache = x.cache_after()
        y.split(0, 32)
        fd.sched.transform_like(y)
        y.axis(0).parallelize(ParallelType.grid_x)
        y.axis(1).parallelize(ParallelType.block_x)
        fd.sched.parallelize_like(y)
        fd.sched.inline_at(y, 1, selected_tensors=[cache])
    return fd


def test_verify_comes_before_what_it_verifies() -> None:
    """It runs the schedule that was laid, as `manual_execute` will, and refuses it nothing."""
    fd = doubled_by_hand()
    array = random((70,), DataType.Float)
    assert "nothing was planned yet" in fd.explain()
    assert fd.verify([array], schedules=2).verdict == "clean"
    assert "by hand" in fd.explain()
    assert "manual_" in fd.verify([array], schedules=1).reports[0].kernel
    (result,) = fd.manual_execute([array])
    np.testing.assert_array_equal(np.asarray(result), np.asarray(array) * 2)
    assert "manual_" in fd.verify([array], schedules=1).reports[0].kernel


def test_verify_before_and_after_execute() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], contiguity=True)
        fd.add_output(x * 2.0)
    array = random((70,), DataType.Float)
    names = [fd.verify([array], schedules=1).reports[0].kernel]
    fd.execute([array])
    names.append(fd.verify([array], schedules=1).reports[0].kernel)
    assert names[0].startswith("pointwise_")
    assert names == names[:1] * 2


def test_verify_sees_what_is_scheduled_after_it() -> None:
    fd = doubled_by_hand()
    array = random((70,), DataType.Float)
    first = fd.verify([array], schedules=1).reports[0].kernel
    y = fd.fusion.outputs[0].value
    assert isinstance(y, Tensor)
    y.set_role("a")
    assert fd.verify([array], schedules=1).reports[0].kernel != first


@pytest.mark.parametrize("change", range(7))
def test_what_makes_a_schedule(change: int) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([4, 8], contiguity=True)
        total = fd.ops.sum(x, [1])
        fd.add_output(total)
    cache = x.cache_after()
    before = total.cache_before()
    assert not is_scheduled(fd.fusion)
    (
        lambda: cache.split(0, 2),
        lambda: cache.axis(0).parallelize(ParallelType.block_x),
        lambda: fd.sched.inline_at(before, 1, selected_tensors=[cache]),
        lambda: cache.set_memory_type(MemoryType.shared),
        lambda: cache.set_load_store_op(LoadStoreOpType.cp_async),
        lambda: cache.circular_buffer(2),
        lambda: cache.set_role("load"),
    )[change]()
    assert is_scheduled(fd.fusion)


def test_circular_buffers_by_name_and_by_method() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1])
        fd.add_output(fd.ops.exp(x))
        text = repr(fd)
        cache = x.cache_after()
        fd.sched.circular_buffer(cache, 3, ring="x")
        by_name = cache.buffering
        cache.circular_buffer(3, ring="x")
        assert cache.buffering == by_name
        fd.sched.circular_buffer(cache, 3, 1)
        assert cache.buffering.prefetch == 1
    assert repr(fd) == text.replace("exp(tv0)", "exp(tv2)").replace(
        "    tv1 =", "    tv2 = fd.ops.set(tv0)\n    tv1 ="
    )


def test_validate_definition() -> None:
    fd = FusionDefinition()
    assert fd.validate_definition() == (False, "the fusion has no output")
    fd.add_output(fd.define_tensor([-1]) + 1)
    assert fd.validate_definition() == (True, "")


def test_validate_notices_what_is_wrong() -> None:
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor([-1, -1]).sum(1))
    x = random((4, 50), DataType.Float)
    fd.validate([x], [x.sum(1)])
    with pytest.raises(AssertionError, match=r"output 0 \(T1\): 1 of 4 elements"):
        fd.validate([x], [x.sum(1) + torch.tensor([0, 0, 1e-2, 0])])
    with pytest.raises(AssertionError, match="1 outputs and 2 references"):
        fd.validate([x], [x.sum(1), x])


def test_operations_are_listed() -> None:
    fd = FusionDefinition()
    assert {"abs", "var_mean", "full"} <= set(dir(fd.ops))
    assert fd.explain.__doc__
