"""Reshape, as merges and splits."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.against_torch import check, defined, random
from warpsmith import ops
from warpsmith.errors import DefinitionError
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.domains import Merge, Split
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Move
from warpsmith.ir.scalar import Const
from warpsmith.knobs import scope


@st.composite
def reshapes(draw: Any) -> tuple[tuple[int, ...], list[int]]:
    """Two shapes with one number of elements; the second may have a -1."""
    factors = draw(st.lists(st.sampled_from([1, 2, 3, 4, 5]), max_size=5))

    def grouped() -> list[int]:
        shape = [1]
        for factor in factors:
            if draw(st.booleans()):
                shape.append(factor)
            else:
                shape[-1] *= factor
        return shape[0 if draw(st.booleans()) or shape[0] > 1 else 1 :]

    old, new = grouped(), grouped()
    if new and draw(st.booleans()):
        new[draw(st.integers(0, len(new) - 1))] = -1
    return tuple(old), new


@settings(max_examples=150, deadline=None)
@given(reshapes(), st.booleans())
def test_any_reshape(shapes: tuple[tuple[int, ...], list[int]], static: bool) -> None:
    old, new = shapes
    x = random(old, DataType.Float)
    check(lambda t: ops.reshape(t, new), lambda t: t.reshape(new), x, static=static)


def moves(call: Callable[[Any], Any], shape: list[int]) -> list[Move]:
    with FusionDefinition() as fd:
        fd.add_output(call(fd.define_tensor(shape)))
    return [op for op in fd.fusion.operations if isinstance(op, Move)]


def test_unrelated_dimensions_stay_apart() -> None:
    (move,) = moves(lambda t: ops.reshape(t, [t.size(0), 32, 4, t.size(2)]), [-1, 128, -1])
    (split,) = move.output.transforms
    assert isinstance(split, Split)
    assert split.axis is move.output.root[1]
    assert split.factor == Const(4)
    assert move.output.logical[0] is move.output.root[0]
    assert move.output.logical[3] is move.output.root[2]


def test_merge_of_symbolic_dimensions_is_told_from_sizes() -> None:
    (move,) = moves(lambda t: ops.reshape(t, [t.size(0) * t.size(1), t.size(2)]), [-1, -1, -1])
    (merge,) = move.output.transforms
    assert isinstance(merge, Merge)


def test_inner_split_keeps_its_constant_inside() -> None:
    (move,) = moves(lambda t: ops.reshape(t, [-1, 8]), [-1])
    assert move.output.shape_axes[1].extent == Const(8)
    (move,) = moves(lambda t: ops.reshape(t, [8, -1]), [-1])
    assert move.output.shape_axes[0].extent == Const(8)


def test_reshape_to_the_same_shape_is_the_tensor() -> None:
    assert not moves(lambda t: ops.neg(ops.reshape(t, list(t.shape()))), [-1, 4])


def test_dimensions_of_one_are_squeezed_and_broadcast() -> None:
    kinds = [m.kind for m in moves(lambda t: ops.reshape(t, [1, 6, 1]), [1, 2, 3])]
    assert kinds == ["squeeze", "reshape", "broadcast"]


@pytest.mark.parametrize(("old", "new"), [((0, 4), [2, 0]), ((3, 0), [0]), ((0, 4), [-1, 4])])
def test_empty_tensors(old: tuple[int, ...], new: list[int]) -> None:
    x = torch.zeros(old)
    check(lambda t: ops.reshape(t, new), lambda t: t.reshape(new), x, static=True)


@pytest.mark.parametrize("old", [(6, 4), (12, 2)])
def test_user_scalars_as_extents(old: tuple[int, ...]) -> None:
    count = math.prod(old) // 3
    check(
        lambda t, n: ops.reshape(t, [3, n]),
        lambda t, n: t.reshape(3, n),
        random(old, DataType.Int),
        count,
    )


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([5], r"reshape of T0 from \[2, 3\] to \[5\] is not possible; the products must be equal"),
        ([-1, -1], "give -1 at most once"),
        ([-1, 4], "-1 needs a whole, definite quotient"),
        ([-1, 0], "-1 needs a whole, definite quotient"),
        ([2, -3], "-3 as an extent"),
        ([], "is not possible"),
    ],
)
def test_impossible_shapes(shape: list[int], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        defined(lambda t: ops.reshape(t, shape), random((2, 3), DataType.Float), static=True)


def test_symbolic_extents_are_not_guessed_to_be_one() -> None:
    with pytest.raises(DefinitionError, match="define the extents that are 1 as 1"):
        defined(lambda t: ops.reshape(t, [1, 1]), random((2,), DataType.Float))


def outer(x: Any) -> Any:
    """All differences of two elements, in a row."""
    left, right = (ops.expand(each, [6, 6]) for each in (x[:, None], x[None]))
    return ops.reshape(left, [36]) - ops.reshape(right, [36])


TURNED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "a transposed input": (
        lambda x: ops.reshape(x, [36]) * ops.reshape(ops.transpose(x, 0, 1), [36]),
        lambda x: x.reshape(36) * x.t().reshape(36),
    ),
    "what is computed": (
        lambda x: ops.reshape(-x, [36]) * ops.reshape(ops.transpose(-x, 0, 1), [36]),
        lambda x: x.reshape(36) * x.t().reshape(36),
    ),
    "sums that are repeated": (
        lambda x: outer(ops.sum(x, [1])),
        lambda x: (x.sum(1)[:, None] - x.sum(1)[None]).reshape(36),
    ),
    "other halves": (
        lambda x: (
            ops.reshape(-x, [4, 9])
            + ops.transpose(ops.reshape(-ops.reshape(x, [36]), [9, 4]), 0, 1)
        ),
        lambda x: -x.reshape(4, 9) - x.reshape(9, 4).t(),
    ),
}


@pytest.mark.parametrize("name", TURNED)
def test_what_lies_at_two_places_of_one_dimension_is_read_at_both(name: str) -> None:
    ours, theirs = TURNED[name]
    x = torch.arange(36, dtype=torch.float32).reshape(6, 6)
    with FusionDefinition() as fd:
        fd.add_output(ours(fd.define_tensor([6, 6], True)))
    with scope(device="sim"):
        assert torch.equal(fd.execute([x])[0], theirs(x))
