"""The functions of `ops` that compute element by element."""

from typing import Any

import pytest
import torch

from tests.support.against_torch import DTYPES, check, defined, random, results
from warpsmith import ops
from warpsmith.errors import DefinitionError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr
from warpsmith.ops.table import TABLE


def grouped() -> dict[tuple[int, int, DataType], list[str]]:
    """Operations of the table by arity, conditions among the operands, and type of the others."""
    groups: dict[tuple[int, int, DataType], list[str]] = {}
    for name, op in sorted(TABLE.items()):
        dtype = next(d for d in (DataType.Float, DataType.Int, DataType.Double) if op.supports(d))
        groups.setdefault((op.arity, op.conditions, dtype), []).append(name)
    return groups


@pytest.mark.parametrize(("arity", "conditions", "dtype"), grouped())
def test_every_operation_of_the_table_is_a_function(
    arity: int, conditions: int, dtype: DataType
) -> None:
    names = grouped()[arity, conditions, dtype]
    functions = [getattr(ops, name) for name in names]
    operands = [random((2, 3), DataType.Bool if k < conditions else dtype, k) for k in range(arity)]
    fd = defined(lambda *given: tuple(f(*given) for f in functions), *operands)
    for name, function, output in zip(names, functions, fd.fusion.outputs, strict=True):
        print(f"{output.value.name} is {name}")
        assert function.__name__ == name
        assert function.__doc__
        assert output.value.dtype is TABLE[name].result_dtype(dtype)
    fd.validate(operands)


def test_unsupported_types_are_refused_by_name() -> None:
    with pytest.raises(DefinitionError) as caught:
        defined(ops.bitwise_and, random((2,), DataType.Float), random((2,), DataType.Int))
    text = str(caught.value)
    assert "bitwise_and does not take operands of type Float" in text
    assert "cast to one of Int, Int32, Int16, Int8, UInt8, Bool" in text


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d is not DataType.Bool])
def test_clamp_with_one_or_two_limits(dtype: DataType) -> None:
    x = random((20,), dtype)
    for limits in ({"min": -1}, {"max": 2}, {"min": -1, "max": 2}, {"min": 3, "max": 0}):
        check(
            lambda t, limits=limits: ops.clamp(t, **limits),
            lambda t, limits=limits: torch.clamp(t, **limits),
            x,
        )


def test_clamp_without_limits_is_refused() -> None:
    with pytest.raises(DefinitionError, match="neither min nor max"):
        defined(ops.clamp, random((2,), DataType.Float))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d is not DataType.Bool])
def test_floor_divide(dtype: DataType) -> None:
    check(ops.floor_divide, torch.floor_divide, random((50,), dtype), random((50,), dtype, 1))


def test_floor_divide_by_zero_and_beyond() -> None:
    a = torch.tensor([1.0, -1.0, 0.0, 7.0, -7.0, 7.0, -7.0, torch.inf, 1e30, 5.9])
    b = torch.tensor([0.0, 0.0, 0.0, torch.inf, torch.inf, -torch.inf, -torch.inf, 2.0, 3.0, -0.1])
    check(ops.floor_divide, torch.floor_divide, a, b)


def test_floor_divide_of_sizes_is_a_size() -> None:
    x = random((5, 2), DataType.Float)

    def body(t: Any) -> Any:
        first, second = ops.size(t, 0), ops.size(t, 1)
        assert ops.floor_divide(first, second) == first // second
        return ops.full([ops.floor_divide(12, first), first // second], 1.0, fusion=t.fusion)

    check(body, lambda t: torch.full((2, 2), 1.0), x)


def test_addcmul_lerp_threshold() -> None:
    x, a, b = (random((3, 4), DataType.Float, seed) for seed in range(3))
    check(ops.addcmul, torch.addcmul, x, a, b)
    check(
        lambda x, a, b: ops.addcmul(x, a, b, 0.5),
        lambda x, a, b: torch.addcmul(x, a, b, value=0.5),
        x,
        a,
        b,
    )
    check(ops.lerp, torch.lerp, x, a, b)
    check(lambda x: ops.threshold(x, 1, 9), lambda x: torch.nn.functional.threshold(x, 1, 9), x)


def test_set_copies() -> None:
    x = random((3,), DataType.Int)
    fd = defined(ops.set, x)
    assert fd.fusion.outputs[0].value is not fd.fusion.inputs[0]
    assert ops.segment_set is ops.set
    check(ops.set, torch.clone, x)


def test_scalars_alone_give_a_scalar() -> None:
    total = ops.add(2, 3.5)
    assert isinstance(total, Apply)
    assert total.dtype is DataType.Double
    assert ops.exp(2).dtype is DataType.Double
    assert ops.lt(1, 2).dtype is DataType.Bool
    assert isinstance(ops.cast(2.7, DataType.Int), Const)


@pytest.mark.parametrize(
    "formula",
    [
        lambda a, b: ops.add(ops.mul(a, b), 1),
        lambda a, b: (a * b + 1) / 2 - b,
        lambda a, b: a // b + a % b,
        lambda a, b: -a // b,
        lambda a, b: 2 * a - 3 * b + 1 / b,
        lambda a, b: ops.where(a < b, a, b) + ops.where(a >= b, 1, 2),
        lambda a, b: ops.where(a > b, a, b) * ops.where(a <= b, 1, 2),
    ],
)
@pytest.mark.parametrize(("a", "b"), [(7, 2), (-7, 2), (7.5, -2), (3, 2.5)])
def test_scalar_arithmetic_is_pythons(formula: Any, a: float, b: float) -> None:
    (found,) = results(lambda x, s, t: ops.add(x, formula(s, t)), torch.zeros(1).double(), a, b)
    wanted = formula(a, b)
    if isinstance(wanted, Expr):  # `ops` on plain numbers gives an expression: evaluate that
        (number,) = results(lambda x: ops.add(x, wanted), torch.zeros(1).double())
        wanted = number.item()
    assert found.item() == pytest.approx(wanted, rel=1e-15)


def test_sizes_stay_sizes() -> None:
    def twice(x: Any) -> Any:
        half = x.size(0) * 6 // 3
        assert half.dtype is DataType.Index
        assert (x.size(0) + x.size(1) - x.size(0)) == x.size(1)
        return ops.add(x, half)

    check(twice, lambda x: x + 2 * x.shape[0], random((5, 3), DataType.Int))
