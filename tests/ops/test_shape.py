"""Operations on dimensions alone."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.support.against_torch import check, defined, random, results
from warpsmith import ops
from warpsmith.errors import DefinitionError
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Move
from warpsmith.ir.scalar import Const

TWO_ROWS = random((2, 3), DataType.Float)


def test_broadcast_adds_dimensions() -> None:
    x = random((3, 4), DataType.Float)
    check(
        lambda t: ops.broadcast(t, [True, False, True, False]),
        lambda t: t[None, :, None, :],
        x,
    )


@pytest.mark.parametrize("static", [False, True])
def test_broadcast_in_dim(static: bool) -> None:
    x = random((3, 1), DataType.Float)
    for shape, dims in (([2, 3, 5], [1, 2]), ([3, 4, 1], [0, 2]), ([3, 1], [0, 1])):
        view = [x.shape[dims.index(d)] if d in dims else 1 for d in range(len(shape))]
        check(
            lambda t, shape=shape, dims=dims: ops.broadcast_in_dim(t, shape, dims),
            lambda t, shape=shape, view=view: t.reshape(view).expand(shape),
            x,
            static=static,
        )


def test_broadcast_in_dim_of_nothing_new_is_the_tensor() -> None:
    def program(t: Any) -> Any:
        return ops.neg(ops.broadcast_in_dim(t, [3, t.size(1)], [0, 1]))

    fd = defined(program, random((3, 4), DataType.Int), static=True)
    assert not any(isinstance(op, Move) for op in fd.fusion.operations)


def test_expand_and_sizes_of_other_tensors() -> None:
    x, y = random((1, 4, 1), DataType.Int), random((5, 2), DataType.Int)
    check(lambda t: ops.expand(t, [3, -1, 2]), lambda t: t.expand(3, -1, 2), x)
    check(
        lambda t, u: ops.add(ops.expand(t, [u.size(0), 4, u.size(1)]), 1),
        lambda t, u: t.expand(u.shape[0], 4, u.shape[1]) + 1,
        x,
        y,
    )


def test_squeeze() -> None:
    x = random((1, 4, 1, 2), DataType.Int)
    for dims in (0, [2], [0, 2], [-4, -2], []):
        wanted = (dims,) if isinstance(dims, int) else tuple(dims)
        check(lambda t, d=dims: ops.squeeze(t, d), lambda t, d=wanted: torch.squeeze(t, d), x)


def test_squeeze_of_expanded_dimensions() -> None:
    x = random((1, 4), DataType.Int)

    def squeezed(t: Any) -> Any:
        return ops.squeeze(ops.expand(t, [3, 4]), [0], squeeze_expanded=True)

    check(squeezed, lambda t: t[0], x)
    with pytest.raises(DefinitionError, match="squeeze of T1 got dimension 0, which has extent 3"):
        defined(lambda t: ops.squeeze(ops.expand(t, [3, 4]), [0]), x)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_permute(order: tuple[int, ...]) -> None:
    x = random((2, 3, 4), DataType.Float)
    check(lambda t: ops.neg(ops.permute(t, order)), lambda t: -t.permute(order), x)


def test_transpose() -> None:
    x = random((2, 3, 4), DataType.Float)
    check(ops.transpose, lambda t: t.transpose(-2, -1), x)
    check(lambda t: ops.transpose(t, 0, 2), lambda t: t.transpose(0, 2), x)


def test_moves_do_not_round() -> None:
    x = torch.full((1, 3), 1 + 2.0**-7, dtype=torch.bfloat16)
    limit = (x.float() * x.float()).bfloat16().float()

    def moved(t: Any, move: Callable[[Any], Any]) -> Any:
        return ops.ne(move(ops.mul(t, t)), limit[0, 0].item())

    for move in (
        lambda t: ops.permute(t, [1, 0]),
        lambda t: ops.broadcast(t, [False, True, False]),
        lambda t: ops.expand(t, [5, 3]),
        lambda t: ops.squeeze(t, [0]),
        lambda t: ops.reshape(t, [3, 1]),
    ):
        (found,) = results(lambda t, move=move: moved(t, move), x)
        assert found.all()


def test_stride_order_sets_the_layout_of_a_copy() -> None:
    fd = defined(lambda t: ops.stride_order(t, [0, 1]), random((2, 3), DataType.Half))
    assert fd.fusion.outputs[0].value.stride_order == (0, 1)
    check(lambda t: ops.stride_order(t, [0, 1]), lambda t: t, random((2, 3), DataType.Half))


def test_sizes() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 1, 7])
    assert [repr(extent) for extent in ops.shape(x)] == ["T0_size0", "1", "7"]
    assert ops.size(x, -1) == Const(7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: ops.broadcast(t, [True, False]), "2 flags of which 1 are false"),
        (lambda t: ops.expand(t, [2, 3, 4]), "3 extents for 2 dimensions"),
        (lambda t: ops.expand(t, [2, 5]), "expand of T0 to extent 5 in dimension 1.*extent 3"),
        (lambda t: ops.expand(t, [2, -3]), "-3 as an extent; extents are integers of 0 or more"),
        (lambda t: ops.expand(t, [2, 1.5]), "got 1.5 as an extent"),
        (lambda t: ops.broadcast_in_dim(t, [2, 3, 4], [1, 0]), r"broadcast_dims \(1, 0\)"),
        (lambda t: ops.squeeze(t, [0]), "dimension 0, which has extent 2; only dimensions"),
        (
            lambda t: ops.squeeze(t, [2]),
            "dimension 2, which is outside its 2 dimensions; use -2 to",
        ),
        (lambda t: ops.permute(t, [0, 0]), r"permute of T0 got dims \(0, 0\)"),
        (lambda t: ops.stride_order(t, [0, 2]), "permutation of 0 to 1"),
        (lambda t: ops.size(t, "0"), "got dimension '0'; dimensions are integers"),
        (lambda t: ops.permute(3, [0]), "permute got 3, and needs a tensor"),
    ],
)
def test_errors(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        defined(call, random((2, 3), DataType.Float), static=True)


@pytest.mark.parametrize(
    "extent",
    [
        lambda n: ops.cast(n * 0.5, DataType.Int),
        lambda n: ops.cast(ops.cast(n, DataType.Bool), DataType.Int),
        lambda n: ops.cast(n, DataType.Int8) * 100,
        lambda n: ops.bitwise_and(n, 6),
        lambda n: ops.where(ops.gt(n, 2), n, 5),
    ],
)
def test_extents_that_the_host_does_not_compute_are_refused(extent: Callable[[Any], Any]) -> None:
    with pytest.raises(DefinitionError, match="as an extent; extents are .* what .* make of them"):
        defined(lambda t: ops.full([extent(t.size(0))], 1.0, fusion=t.fusion), TWO_ROWS)


def test_extents_that_are_worked_out() -> None:
    for extent, wanted in (
        (lambda n: 9 // n, 4),
        (lambda n: 9 % n + n % 3, 3),
        (lambda n: ops.maximum(n - 1, 3) * n, 6),
        (lambda n: ops.div(n, 2) + ops.cast(n, DataType.Int32), 3),
    ):
        (found,) = results(
            lambda t, e=extent: ops.full([e(t.size(0))], 1.0, fusion=t.fusion), TWO_ROWS
        )
        assert found.shape == (wanted,)
