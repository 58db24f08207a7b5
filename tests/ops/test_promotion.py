"""Types of results are PyTorch's, for every pair of types and every kind of operand."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.support.against_torch import DTYPES, TORCH, check, defined, random, results
from warpsmith import ops
from warpsmith.errors import DefinitionError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Pointwise

Operation = tuple[Callable[..., Any], Callable[..., Any]]

OPERATIONS: dict[str, Operation] = {
    "mul": (ops.mul, torch.mul),
    "truediv": (ops.truediv, torch.true_divide),
    "lt": (ops.lt, torch.lt),
    "logical_and": (ops.logical_and, lambda a, b: torch.logical_and(a, torch.as_tensor(b))),
}


@pytest.mark.few(8)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("a", DTYPES)
def test_two_tensors(name: str, a: DataType) -> None:
    function, peer = OPERATIONS[name]
    for b in DTYPES:
        for left, right in itertools.product(((2, 3), (), (3,)), repeat=2):
            check(function, peer, random(left, a), random(right, b, seed=1))


@pytest.mark.few(48)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("number", [True, 3, 2.5])
def test_tensor_and_number(name: str, dtype: DataType, number: float) -> None:
    function, peer = OPERATIONS[name]
    for shape in ((2, 3), ()):
        x = random(shape, dtype)
        check(lambda t: function(t, number), lambda t: peer(t, number), x)
        check(function, peer, x, number)
        if name == "mul":
            check(lambda t: function(number, t), lambda t: peer(t, number), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_where_takes_no_type_from_its_condition(dtype: DataType) -> None:
    condition, x = random((4,), DataType.Bool), random((4,), dtype)
    check(ops.where, torch.where, condition, x, random((), DataType.Double))
    check(lambda c, t: ops.where(c, t, 2), lambda c, t: torch.where(c, t, 2), condition, x)
    check(lambda c: ops.where(c, 1.0, 0.0), lambda c: torch.where(c, 1.0, 0.0), condition)
    check(lambda c: ops.where(c, 1, 0), lambda c: torch.where(c, 1, 0), condition)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(DTYPES, repeat=2)))
def test_cast(a: DataType, b: DataType) -> None:
    check(lambda x: ops.cast(x, b), lambda x: x.to(TORCH[b]), random((3, 2), a))


@pytest.mark.parametrize("dtype", [DataType.Half, DataType.BFloat16])
def test_results_between_operations_are_not_rounded(dtype: DataType) -> None:
    x = torch.linspace(0.1, 3, 64).to(TORCH[dtype])

    def chain(t: Any) -> Any:
        return ops.sub(ops.exp(t), ops.broadcast(ops.sum(ops.exp(t)), [True]))

    (found,) = results(chain, x)
    wide = torch.exp(x.float())
    torch.testing.assert_close(found, (wide - wide.sum()).to(TORCH[dtype]), rtol=0, atol=0)


def test_an_explicit_cast_rounds() -> None:
    x = torch.full((3,), 1 + 2.0**-7, dtype=torch.bfloat16)

    def square(t: Any) -> Any:
        return ops.sub(ops.cast(ops.mul(t, t), DataType.BFloat16), 1 + 2.0**-6)

    (found,) = results(square, x)
    assert not found.any()  # what is left of the square, 2**-14, was rounded away
    (kept,) = results(lambda t: ops.sub(ops.mul(t, t), 1 + 2.0**-6), x)
    assert (kept == 2.0**-14).all()


def test_roundings_that_nobody_reads_are_dropped() -> None:
    fd = defined(lambda x: ops.neg(ops.exp(x)), random((4,), DataType.Half))
    fd.validate([random((4,), DataType.Half)])
    casts = [op for op in fd.fusion.operations if isinstance(op, Pointwise) and op.op == "cast"]
    assert [op.output.dtype for op in casts] == [DataType.Float, DataType.Half]


def test_an_operand_that_comes_twice_is_converted_once() -> None:
    fd = defined(lambda x: ops.mul(x, x), random((4,), DataType.Half))
    product = next(
        op for op in fd.fusion.operations if isinstance(op, Pointwise) and op.op == "mul"
    )
    assert product.inputs[0] is product.inputs[1]


def test_constants_must_fit_the_type() -> None:
    with pytest.raises(DefinitionError, match="constant 4294967296 is outside the range of Int32"):
        defined(lambda x: ops.add(x, 2**32), random((4,), DataType.Int32))
    with pytest.raises(DefinitionError, match="more than 64 bits"):
        defined(lambda x: ops.add(x, 2**70), random((4,), DataType.Int))


def test_operands_of_other_kinds_are_refused() -> None:
    with pytest.raises(DefinitionError, match="add got an operand of type str"):
        defined(lambda x: ops.add(x, "1"), random((4,), DataType.Int))
    with pytest.raises(DefinitionError, match="cast got dtype Index"):
        defined(lambda x: ops.cast(x, DataType.Index), random((4,), DataType.Int))


def test_tensors_of_two_fusions_are_refused() -> None:
    x = defined(ops.neg, random((4,), DataType.Int)).fusion.input_tensors[0]
    with pytest.raises(DefinitionError, match="T0 and T0 of two different fusions"):
        defined(lambda y: ops.add(y, x), random((4,), DataType.Int))
