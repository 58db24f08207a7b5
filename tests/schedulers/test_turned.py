"""What is read as it is, and turned too."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.support.binaries import uncompiled
from warpsmith import fuse, ops
from warpsmith.engine.executable import Executable


def both(x: Any) -> Any:
    y = ops.exp(x)
    return y + ops.transpose(y)


def masked(x: Any) -> Any:
    """Neighbours of the diagonal count twice, by numbers that rows and columns share."""
    place = ops.iota(ops.size(x, 0), fusion=x.fusion)
    rows, columns = (ops.broadcast(place, flags) for flags in ([False, True], [True, False]))
    y = ops.where(ops.lt(rows, columns), ops.exp(x), 0.0)
    return ops.sum(ops.transpose(y) * y + ops.transpose(y))


def back_again(x: Any) -> tuple[Any, Any]:
    y = ops.transpose(x * 2.0)
    z = y - ops.max(y, [1], keepdim=True)
    return ops.transpose(ops.exp(z)) + x * 2.0, ops.sum(z)


def wanted(body: Any, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    if body is both:
        return (x.exp() + x.exp().T,)
    if body is masked:
        y = x.exp().triu(1)
        return ((y.T * y + y.T).sum(),)
    z = 2 * x.T - (2 * x.T).amax(1, keepdim=True)
    return z.exp().T + 2 * x, z.sum()


@pytest.mark.few(2)
@pytest.mark.parametrize(("body", "kernels"), [(both, 1), (masked, 1), (back_again, 3)])
def test_what_is_turned_too_is_computed_twice(body: Any, kernels: int) -> None:
    x = torch.randn(33, 33, generator=torch.Generator().manual_seed(1))
    with uncompiled():
        call = Executable(fuse(body).lower(x).fusion).plan_for([x])
    assert len(call.segments) <= kernels
    found = fuse(body)(x)
    pairs = zip(found if isinstance(found, tuple) else (found,), wanted(body, x), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_what_many_operations_make_is_stored_and_turned() -> None:
    def long(x: Any) -> Any:
        for _ in range(9):
            x = ops.sin(x)
        return x + ops.transpose(x)

    x = torch.randn(33, 33)
    with uncompiled():
        call = Executable(fuse(long).lower(x).fusion).plan_for([x])
    assert len(call.segments) > 1


def sliding(x: Any) -> Any:
    place = ops.iota(ops.size(x, 1), fusion=x.fusion)
    apart = place[:, None] - place[None, :]
    seen = ops.logical_and(ops.ge(apart, 0), ops.lt(apart, 9))
    return ops.sum(ops.where(seen, x, 0.0), [2])


def distances(x: Any) -> Any:
    """Of numbers of places that are computed first."""
    place = ops.cast(ops.iota(ops.size(x, 1), fusion=x.fusion), x.dtype) * 0.125 - 1.0
    return ops.exp(x - (place[:, None] - place[None, :]) ** 2) + place


@pytest.mark.parametrize("body", [sliding, distances])
def test_numbers_of_rows_and_of_columns_are_counted_by_the_kernel_that_compares(body: Any) -> None:
    x = torch.randn(3, 33, 33, generator=torch.Generator().manual_seed(1))
    place = torch.arange(33)
    apart = place[:, None] - place[None]
    expected = torch.where((apart >= 0) & (apart < 9), x, 0).sum(2)
    if body is distances:
        place = place * 0.125 - 1
        expected = (x - (place[:, None] - place[None]) ** 2).exp() + place
    compiled = fuse(body).lower(x).compile()
    assert compiled.explain().startswith("1 kernel\n")
    assert compiled.verify(schedules=2).verdict == "clean"
    torch.testing.assert_close(fuse(body)(x), expected)
