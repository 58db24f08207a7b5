"""Reductions give PyTorch's types, shapes and values."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.support.against_torch import DTYPES, FLOATS, TORCH, check, defined, random
from warpsmith import ops
from warpsmith.errors import DefinitionError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Reduction, takes_moments

DIMS: tuple[Any, ...] = (None, 0, -1, [1], [0, 2], [0, 1, 2], [])


def _dims(x: torch.Tensor, dims: Any) -> tuple[int, ...]:
    if dims is None:
        return tuple(range(x.ndim))
    return (dims,) if isinstance(dims, int) else tuple(dims)


def _each(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """PyTorch's one-dimensional reduction over several dimensions."""

    def peer(x: torch.Tensor, dims: tuple[int, ...], keepdim: bool) -> torch.Tensor:
        for d in sorted((d % x.ndim for d in dims), reverse=True):
            x = function(x, d, keepdim)
        return x

    return peer


def _accumulator(x: torch.Tensor) -> torch.Tensor:
    """The elements in the type that PyTorch sums and multiplies them in."""
    return x.to(x.new_zeros(1).sum().dtype)


PEERS: dict[str, Callable[..., torch.Tensor]] = {
    "sum": lambda x, d, k: x.sum(d, k) if d else _accumulator(x),
    "prod": lambda x, d, k: _each(torch.prod)(_accumulator(x), d, k),
    "max": lambda x, d, k: torch.amax(x, d, k) if d else x,
    "min": lambda x, d, k: torch.amin(x, d, k) if d else x,
}


@pytest.mark.few(72)
@pytest.mark.parametrize("op", PEERS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dims", DIMS, ids=str)
def test_reductions(op: str, dtype: DataType, dims: Any) -> None:
    for shape in ((3, 1, 4), (2, 3, 2)):
        x = random(shape, dtype)
        for keepdim in (False, True):
            check(
                lambda t, k=keepdim: getattr(ops, op)(t, dims, k),
                lambda t, k=keepdim: PEERS[op](t, _dims(t, dims), k),
                x,
            )


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
def test_result_type_can_be_chosen(op: str) -> None:
    x = random((4, 5), DataType.Half)
    for dtype in (DataType.Float, DataType.Double, DataType.Int):
        fd = defined(lambda t, d=dtype: getattr(ops, op)(t, [1], dtype=d), x)
        assert fd.fusion.outputs[0].value.dtype is dtype
    check(
        lambda t: ops.sum(t, [1], dtype=DataType.Float), lambda t: t.sum(1, dtype=torch.float32), x
    )


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
def test_halves_are_accumulated_in_float(op: str) -> None:
    fd = defined(lambda t: getattr(ops, op)(t, [0]), random((4,), DataType.BFloat16))
    reduction = next(o for o in fd.fusion.operations if isinstance(o, Reduction))
    assert reduction.output.dtype is DataType.Float
    assert fd.fusion.outputs[0].value.dtype is DataType.BFloat16


def test_dimensions_that_are_one_are_not_reduced() -> None:
    fd = defined(lambda t: ops.sum(t, [0, 1], keepdim=True), random((1, 4), DataType.Float))
    (reduction,) = [o for o in fd.fusion.operations if isinstance(o, Reduction)]
    assert reduction.source.rank == 1
    fd = defined(lambda t: ops.sum(t, [0]), random((1, 4), DataType.Float))
    assert not any(isinstance(o, Reduction) for o in fd.fusion.operations)


@pytest.mark.few(8)
@pytest.mark.filterwarnings("ignore:var")  # of PyTorch, about what the test is after
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("correction", [0, 1, 2.5, 40])
def test_variance(dtype: DataType, correction: float) -> None:
    x = random((5, 1, 6), dtype)
    for dims in (None, 1, [0, 2], [0, 1]):
        for keepdim in (False, True):
            for static in (False, True):
                check(
                    lambda t, d=dims, k=keepdim: ops.var_mean(t, d, correction, k),
                    lambda t, d=dims, k=keepdim: torch.var_mean(
                        t, _dims(t, d), correction=correction, keepdim=k
                    ),
                    x,
                    static=static,
                )


@pytest.mark.filterwarnings("ignore:var")
def test_variance_of_what_is_not_finite_and_of_one_element() -> None:
    x = torch.tensor([[1.0, torch.inf, torch.nan], [2.0, 3.0, 4.0]])
    check(lambda t: ops.var(t, 0), lambda t: torch.var(t, 0), x)
    check(lambda t: ops.var(t, 0, correction=0), lambda t: torch.var(t, 0, correction=0), x[:1])


@pytest.mark.parametrize("dtype", FLOATS)
def test_mean(dtype: DataType) -> None:
    x = random((3, 4), dtype)
    for dims in (None, 0, [-1]):
        check(
            lambda t, d=dims: ops.mean(t, d, keepdim=True),
            lambda t, d=dims: t.mean(_dims(t, d), keepdim=True),
            x,
        )
    check(
        lambda t: ops.mean(t, 0, dtype=DataType.Float),
        lambda t: t.mean(0, dtype=torch.float32),
        random((3, 4), DataType.Int),
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_welford(dtype: DataType) -> None:
    def peer(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        wide = x.to(TORCH[dtype.compute])
        mean = wide.mean((0, 2))
        deviation = (wide - mean[:, None]).square().sum((0, 2))
        return mean, deviation, torch.full((3,), 8)

    check(lambda t: ops.welford(t, [0, 2]), peer, random((2, 3, 4), dtype), tolerance=1e-5)


def test_a_variance_and_its_mean_are_one_pass() -> None:
    fd = defined(lambda t: ops.var_mean(t, [1]), random((3, 4), DataType.Float))
    assert sum(takes_moments(o) for o in fd.fusion.operations) == 1


@pytest.mark.parametrize("op", ["sum", "prod"])
def test_reductions_of_nothing(op: str) -> None:
    for static in (False, True):
        check(
            lambda t: getattr(ops, op)(t, [1]),
            lambda t: getattr(torch, op)(t, 1),
            torch.zeros(3, 0),
            static=static,
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: ops.max(t, [1]), "max of T0 over dimension 1, which has extent 0"),
        (lambda t: ops.sum(t, [0, -2]), r"dimensions \(0, -2\), where one comes twice"),
        (lambda t: ops.sum(t, 2), "dimension 2, which is outside its 2 dimensions"),
        (lambda t: ops.mean(t, 0), "mean of T0 got type Int; cast it to one of Double"),
        (lambda t: ops.var(t, 0), "var_mean of T0 got type Int"),
        (lambda t: ops.welford(t, [0]), "welford of T0 got type Int"),
        (lambda t: ops.sum(t, 0, dtype=DataType.Bool), "sum got dtype Bool"),
    ],
)
def test_errors(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        defined(call, torch.zeros(3, 0, dtype=torch.int64), static=True)
