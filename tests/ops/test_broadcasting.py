"""Shapes of operands are joined as PyTorch joins them."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.against_torch import check, defined, random
from warpsmith import ops
from warpsmith.errors import DefinitionError
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const


@st.composite
def joinable(draw: Any) -> list[tuple[int, ...]]:
    """Three shapes that broadcast together."""
    full = draw(st.lists(st.integers(0, 4), max_size=4))
    shapes = []
    for _ in range(3):
        kept = full[draw(st.integers(0, len(full))) :]
        shapes.append(tuple(extent if draw(st.booleans()) else 1 for extent in kept))
    return shapes


@settings(max_examples=60, deadline=None)
@given(joinable(), st.booleans())
def test_implicit_broadcast(shapes: list[tuple[int, ...]], static: bool) -> None:
    tensors = [random(shape, DataType.Float, k) for k, shape in enumerate(shapes)]
    check(
        lambda a, b, c: ops.mul(ops.add(a, b), c),
        lambda a, b, c: (a + b) * c,
        *tensors,
        static=static,
    )


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_result_takes_a_constant_extent_where_one_is_known(order: tuple[int, ...]) -> None:
    with FusionDefinition() as fd:
        tensors = [fd.define_tensor(shape) for shape in ([-1, 8], [5, -1], [1, 1])]
        total = tensors[order[0]] + tensors[order[1]] + tensors[order[2]]
    assert total.shape() == (Const(5), Const(8))


def test_constants_that_differ_are_refused() -> None:
    with pytest.raises(DefinitionError) as caught:
        defined(ops.add, torch.zeros(2, 4), torch.zeros(3, 4), static=True)
    assert "add: dimension 0 of T0 has extent 2 and that of T1 has 3" in str(caught.value)
    assert "extents must be equal, or 1" in str(caught.value)


def test_operands_of_one_rank_get_no_moves() -> None:
    fd = defined(ops.add, torch.zeros(2, 4), torch.zeros(1, 4))
    assert len(fd.fusion.operations) == 1
