"""What scans mean: PyTorch's values, and those that it has no name for."""

from typing import Any

import pytest
import torch

from tests.support.against_torch import DTYPES, check, defined, random, results
from warpsmith import ops
from warpsmith.errors import DefinitionError
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.rules import CarryRule


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_and_products(dtype: DataType) -> None:
    x = random((3, 1, 7), dtype)
    for op in ("cumsum", "cumprod"):
        for dim in (0, 1, -1):
            peer = getattr(torch, op)
            check(
                lambda t, o=op, d=dim: getattr(ops, o)(t, d),
                lambda t, p=peer, d=dim: (
                    p(t.float(), d).to(t.dtype) if t.is_floating_point() else p(t, d)
                ),
                x,
            )


@pytest.mark.few(5)
@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes_so_far(dtype: DataType) -> None:
    x = random((3, 1, 9), dtype)
    for dim in (0, 1, 2):
        check(lambda t, d=dim: ops.cummax(t, d), lambda t, d=dim: tuple(torch.cummax(t, d)), x)
        check(lambda t, d=dim: ops.cummin(t, d), lambda t, d=dim: tuple(torch.cummin(t, d)), x)


def test_what_is_not_finite() -> None:
    x = torch.tensor([[1.0, torch.nan, 3.0, torch.nan], [torch.inf, 2.0, -torch.inf, 1.0]])
    check(lambda t: ops.cummax(t, 1), lambda t: tuple(torch.cummax(t, 1)), x)
    check(lambda t: ops.cumsum(t, 1), lambda t: torch.cumsum(t, 1), x)
    wide = torch.tensor([[-torch.inf, -1000.0, 0.0, 1000.0, torch.inf]])
    check(lambda t: ops.logcumsumexp(t, 1), lambda t: torch.logcumsumexp(t, 1), wide)


def test_from_the_end_and_without_the_element() -> None:
    x = random((4, 5), DataType.Float)
    before, behind = torch.cumsum(x, 1) - x, x.flip(1).cumsum(1).flip(1)
    check(lambda t: ops.cumsum(t, 1, exclusive=True), lambda _: before, x)
    check(lambda t: ops.cumsum(t, 1, reverse=True), lambda _: behind, x)
    check(lambda t: ops.cumsum(t, 1, exclusive=True, reverse=True), lambda _: behind - x, x)
    one = random((4, 1), DataType.Float)
    check(lambda t: ops.cumsum(t, 1, exclusive=True), torch.zeros_like, one, static=True)
    check(lambda t: ops.cumsum(t, 0), lambda t: torch.cumsum(t, 0), torch.tensor(3.0))
    check(lambda t: ops.cumsum(t, 0), lambda t: torch.cumsum(t, 0), x[:0])
    check(
        lambda t: ops.cumsum(t, 0, dtype=DataType.Double),
        lambda t: torch.cumsum(t, 0, dtype=torch.float64),
        x,
    )


AFFINE = CarryRule(
    name="affine",
    identity={"scale": 1.0, "shift": 0.0},
    join=lambda a, b: (a.scale * b.scale, a.shift * b.scale + b.shift),
    finish=lambda state: state.shift,
    commutative=False,
)
"""Functions `y * scale + shift`, one after the other: a linear recurrence."""


def test_a_rule_whose_order_matters() -> None:
    """`y[i] = y[i - 1] * scale[i] + shift[i]`, forward and from the end."""
    scale, shift = torch.rand(3, 6), torch.rand(3, 6)

    def recurrence(scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        y, found = torch.zeros(3), []
        for i in range(6):
            y = y * scale[:, i] + shift[:, i]
            found.append(y)
        return torch.stack(found, 1)

    check(lambda s, t: ops.scan((s, t), AFFINE, 1), recurrence, scale, shift)
    last = results(lambda s, t: ops.scan((s, t), AFFINE, 1, reverse=True), scale, shift)[0]
    forward = recurrence(scale, shift)
    torch.testing.assert_close(last[:, 0], forward[:, -1])


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda t: ops.cumsum(t, 2), "WS0115"),
        (lambda t: ops.cumsum(t, 0, dtype="float"), "WS0117"),
        (lambda t: ops.reduce((t, t), AFFINE, [0]), "WS0161"),
    ],
)
def test_what_is_refused(function: Any, said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        defined(function, random((3, 4), DataType.Float))
