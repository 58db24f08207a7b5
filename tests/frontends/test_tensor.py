"""Tensors' operators and methods."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.against_torch import check, defined, random
from warpsmith import CacheOp, LoadStoreOpType, ops
from warpsmith.errors import DefinitionError, ScheduleError
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.frontends.tensor import Tensor
from warpsmith.ir.copies import CircularBuffer
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const

ARITHMETIC: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a / b,
    lambda a, b: a // b,
    lambda a, b: a % b,
    lambda a, b: (a * a) ** b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
    lambda a, b: a == b,
    lambda a, b: a != b,
]
BITS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a & b,
    lambda a, b: a | b,
    lambda a, b: a ^ b,
    lambda a, b: (a << 2) >> (b & 3),
]


@pytest.mark.parametrize("operator", ARITHMETIC)
def test_arithmetic(operator: Callable[[Any, Any], Any]) -> None:
    x, y = random((4, 5), DataType.Float), random((5,), DataType.Float, 1)
    check(operator, operator, x, y)
    check(lambda t: operator(t, 2), lambda t: operator(t, 2), x)
    check(lambda t: operator(t * 0 + 2, t), lambda t: operator(t * 0 + 2, t), x)


@pytest.mark.parametrize("operator", BITS)
def test_bits(operator: Callable[[Any, Any], Any]) -> None:
    x, y = random((4, 5), DataType.Int), random((5,), DataType.Int, 1)
    check(operator, operator, x, y)
    check(lambda t: operator(t, 6), lambda t: operator(t, 6), x)


@pytest.mark.parametrize(
    "formula",
    [
        lambda t: 3 + t,
        lambda t: 3 - t,
        lambda t: 3 * t,
        lambda t: 3 / t,
        lambda t: 30 // t,
        lambda t: 3 % t,
        lambda t: 2**t,
        lambda t: -t,
        lambda t: abs(t),
        lambda t: t > 3,
        lambda t: t == 3,
        lambda t: t != 3,
        lambda t: (t == t) == (t > 0),
    ],
)
def test_reflected_and_unary(formula: Callable[[Any], Any]) -> None:
    check(formula, formula, random((9,), DataType.Double))


def test_integers_alone() -> None:
    x = random((9,), DataType.Int)
    for formula in (lambda t: ~t, lambda t: 5 & t, lambda t: 5 | t, lambda t: 5 ^ t):
        check(formula, formula, x)


def test_scalars_and_tensors() -> None:
    def formula(t: Any, a: Any) -> Any:
        return (a * t + t * a) / (a + 1) - a

    check(formula, formula, random((9,), DataType.Double), 2.5)


def test_methods() -> None:
    x = random((3, 4), DataType.Float)
    for name, arguments in {
        "sum": (1,),
        "mean": ((0,), True),
        "prod": (0,),
        "var": (1,),
        "transpose": (0, 1),
        "permute": (1, 0),
        "reshape": (2, 6),
    }.items():
        call = lambda t, name=name, arguments=arguments: getattr(t, name)(*arguments)  # noqa: E731
        check(call, call, x)
    check(lambda t: t.max([0]), lambda t: t.amax(0), x)
    check(lambda t: t.min([0], True), lambda t: t.amin(0, True), x)
    check(lambda t: t.to(DataType.Half), lambda t: t.half(), x)
    check(lambda t: (t == 1).sum(), lambda t: (t == 1).sum(), x)


def test_new_tensors() -> None:
    x = random((3, 4), DataType.Half)
    check(lambda t: t.new_full([2, t.size(0)], 7), lambda t: t.new_full((2, 3), 7), x)
    check(lambda t: t.new_iota(t.size(1)), lambda t: torch.arange(4), x)


def test_no_truth() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1])
    with pytest.raises(TypeError, match="use `where`, `logical_and`"):
        bool(x)
    with pytest.raises(TypeError, match="known only at run time"):
        bool(x > 0)
    with pytest.raises(TypeError, match="comparison of T0 is known only at run time"):
        bool(x == 0)


def test_tensors_are_found_by_identity() -> None:
    with FusionDefinition() as fd:
        s, x, y = fd.define_scalar(DataType.Int), fd.define_tensor([-1]), fd.define_tensor([-1])
    assert [s, x, y].index(y) == 2
    assert x in (s, y, x)
    assert x not in (s, y)
    assert s in (x, s)
    assert len({x, y, x}) == 2
    assert not fd.fusion.operations


def test_arrays_are_no_operands() -> None:
    for array in (np.ones(3), torch.ones(3)):
        for operator in (lambda t, a: t + a, lambda t, a: a * t):
            with pytest.raises((DefinitionError, TypeError)):
                defined(lambda t, o=operator, a=array: o(t, a), torch.ones(3))
    with pytest.raises(DefinitionError, match=r"WS0112.*`exp` got a tensor.*use the operation of"):
        defined(torch.exp, torch.ones(3))
    check(lambda t: np.float64(2) * t, lambda t: 2.0 * t, torch.ones(3))


def _tensor(shape: list[int]) -> Tensor:
    with FusionDefinition() as fd:
        x = fd.ops.exp(fd.define_tensor(shape))
        fd.add_output(fd.ops.sum(x, [-1]))
    assert isinstance(x, Tensor)
    return x


def test_domains_and_loops() -> None:
    x = _tensor([-1, 12])
    assert (x.ndim, x.size(-1), x.dtype) == (2, Const(12), DataType.Float)
    assert x.get_root_domain() == x.get_logical_domain() == x.domain()
    x.split(1, 4).outer_split(0, 3).merge(0).reorder({0: -1})
    assert [repr(axis.extent) for axis in x.get_loop_domain()][:2] == ["3", "4"]
    x.inner_split(1, 2)
    x.axis(-1).parallelize(ParallelType.grid_x)
    assert x.axis(-1).domain.parallel is ParallelType.grid_x
    assert not x.axis(0).is_reduction()
    assert x.axis(2).extent() == Const(2)
    assert "blockIdx.x" in repr(x.axis(-1))


def test_rfactor_gives_one_tensor_or_three() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1])
        total, (variance, _) = fd.ops.sum(x, [1]), fd.ops.var_mean(x, [1])
        fd.add_output(total)
        fd.add_output(variance)
    part = total.split(1, 8).rfactor([-1])
    assert isinstance(part, Tensor)
    assert part.has_root()
    mean = variance.definition.inputs[0].definition.output
    assert len(mean.split(1, 8).rfactor([-1])) == 3


def test_caches_and_memory() -> None:
    x = _tensor([-1, 12])
    source = x.definition.inputs[0]
    cache = source.cache_after()
    assert x.definition.inputs == (cache,)
    cache.set_memory_type(MemoryType.shared)
    assert cache.memory is MemoryType.shared
    before = x.cache_before()
    assert x.definition.inputs == (before,)


def test_copies_by_tma_through_stages() -> None:
    x = _tensor([-1, 32])
    source = x.definition.inputs[0]
    cache = source.cache_after(op_type=LoadStoreOpType.tma, cached_uses=[x])
    assert x.definition.inputs == (cache,)
    assert cache.copied_by is LoadStoreOpType.tma
    cache.set_memory_type(MemoryType.shared)
    cache.set_swizzle(128)
    cache.circular_buffer(4, -2, ring="rows")
    cache.axis(1).parallelize(ParallelType.tma)
    assert (cache.swizzle, cache.buffering) == (128, CircularBuffer(4, 2, "rows"))
    cache.axis(1).parallelize(ParallelType.serial)
    cache.set_load_store_op(LoadStoreOpType.cp_async)
    assert cache.copied_by is LoadStoreOpType.cp_async


def test_arguments_of_caches_stand_in_nvfusers_order() -> None:
    x = _tensor([-1, 32])
    source = x.definition.inputs[0]
    cache = source.cache_after(LoadStoreOpType.set, CacheOp.streaming, True, [x])
    assert cache.streaming
    assert cache.copied_by is LoadStoreOpType.set
    (output,) = (result.value for result in x.fusion.outputs)
    assert output.cache_before(LoadStoreOpType.bulk).copied_by is LoadStoreOpType.set
    assert output.copied_by is LoadStoreOpType.bulk


def test_illegal_schedules_raise_at_the_call() -> None:
    x = _tensor([-1, 12])
    with pytest.raises(ScheduleError, match="axis 2 is outside the 2 loop axes of T1"):
        x.axis(2)
    with pytest.raises(ScheduleError, match="split factor 0"):
        x.split(0, 0)
    with pytest.raises(ScheduleError, match="is an input of the fusion and has no loops"):
        x.definition.inputs[0].split(0, 2)
    assert ops.shape(x)[1] == Const(12)
